"""A runs directory as a study leaves it, made up: for the tests of the report, and to look at one.

python tests/fake_runs.py DIR
"""

import hashlib
import json
import math
import random
import sys
from pathlib import Path

from argand.study.divergence_slope import kl_derivative
from argand.study.paper import paper_band, paper_points

VERSIONS = {"argand": "0.1.0", "torch": "2.13.0+cpu", "python": "3.11.2"}
FLOATS = {"R": 431080, "C": 862160, "halfC": 218590, "2R": 1713150}
LAYERS = {"0": 0.02, "3": 0.1, "7": 0.8, "9": 0.08}


class FakeRuns:
    """Writes stages with plausible numbers, the same ones for the same calls."""

    def __init__(self, runs):
        self.stages = Path(runs) / "stages"
        self.random = random.Random(0)

    def stage(self, config, result=None, epochs=8):
        """One directory; its key."""
        key = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:16]
        path = self.stages / key
        path.mkdir(parents=True, exist_ok=True)
        (path / "config.json").write_text(json.dumps(config))
        lines, pace = [], self.random.uniform(2.5, 4)
        for epoch in range(1, epochs + 1):
            line = {"epoch": epoch, "loss": 2.3 * math.exp(-epoch / pace) + 0.05, "lr": 1e-3}
            line["score"] = 0.98 - 0.5 * math.exp(-epoch / pace) if epoch % 2 == 0 else None
            if config["stage"] == "sparsify":
                line["kept"] = 0.01 + 0.99 * math.exp(-epoch / 2)
            lines.append(json.dumps(line))
        (path / "history.jsonl").write_text("".join(line + "\n" for line in lines))
        if result is not None:
            common = {"status": "done", "reason": None, "stage": config["stage"], "versions": VERSIONS}
            common |= {"epochs_run": epochs, "device": "cpu", "threads": 1, "loss": 0.1}
            (path / "result.json").write_text(json.dumps(common | result))
            (path / "timing.json").write_text(json.dumps({"seconds": 12.5 * epochs}))
        return key

    def pretrain(self, group, seed, **result):
        dataset, features, model, field, _ = group
        config = {"stage": "pretrain", "dataset": dataset, "features": features, "model": model, "field": field}
        config |= {"width": 1.0, "seed": seed, "epochs": 40, "lr": 1e-3, "batch": 128}
        score = self.known_band(group).median + self.random.gauss(0, 0.0006)
        return self.stage(config, {"score": score, "metric": metric(dataset)} | result)

    def known_band(self, group):
        known = {"kmnist": "mnist", "fashion-mnist": "mnist", "rendered-music": "musicnet"}
        for method in (group[4], "vd"):
            band = paper_band(known.get(group[0], group[0]), *group[1:4], method)
            if band:
                return band
        return paper_band("mnist", "raw", "SimpleConv", "C", "vd")

    def sparsify(self, parent, method, divergence_weight, changes=None, **result):
        config = {"stage": "sparsify", "method": method, "C": divergence_weight, "parent": parent, "epochs": 75}
        config |= changes or {}
        middle = 2.0 + 1.5 * math.log10(divergence_weight * 100 + 1e-3) if divergence_weight else 0.0
        histogram = {}
        for index, name in enumerate(LAYERS):
            bins = [-12 + (i + 0.5) / 4 for i in range(96)]
            counts = [
                int(90 * 3**index * (math.exp(-((x - middle - index) ** 2) / 6) + math.exp(-((x + 4) ** 2))))
                for x in bins
            ]
            histogram[f"{name}.weight"] = {"low": -12, "high": 12, "counts": counts}
        return self.stage(config, {"score": 0.97, "metric": "accuracy", "log_alpha": histogram} | result)

    def finetune(self, parent, group, threshold=None, kept=None, compression=None, early=None, **result):
        compression = compression or 2.0
        floats = self.known_band(group).floats if group[1] == "fft" else FLOATS.get(group[3], 431080)
        config = {"stage": "finetune", "threshold": threshold, "kept": kept, "parent": parent, "epochs": 40}
        config["early_stopping"] = {"patience": 20, "atol": 0.02} if early else None
        score = self.known_band(group).median + 0.002 - 0.00002 * compression + self.random.gauss(0, 0.0006)
        values = {"score": score, "score_before": score - 0.0001 * compression, "metric": metric(group[0])}
        values |= {"kept": 1 / compression, "compression": compression, "floats": floats, "loss": 0.04}
        values |= {"kept_floats": round(floats / compression), "dense_bytes": 4 * floats}
        values |= {"bytes": round(4 * floats / compression * 1.5), "layers": layers(compression, group[3])}
        if early:
            values["evaluations"] = min(50, 3 + round(4 * math.log(compression) + self.random.random() * 8))
        return self.stage(config, values | result)

    def deployment(self, key, compression):
        """As `argand pack` leaves it."""
        dense = 4 * FLOATS["C"]
        sizes = {"int8": round(dense / compression / 2.7), "fp32": round(dense / compression * 1.1)}
        values = {"dtype": "int8", "layers": None, "compression": compression, "dense_bytes": dense, "bytes": sizes}
        values |= {"metric": "accuracy", "score_before": 0.9881, "score": 0.9879, "dense_macs": 9_172_000}
        values |= {"macs": round(9_172_000 / compression * 10), "scratch_bytes": 109_440}
        values |= {"flash_bytes": {"fp32": sizes["fp32"] + 900, "int8": sizes["int8"] + 900}}
        values |= {"microseconds": {"original": 655.0, "dense": 337.0, "sparse": 190.0, "C": 62.0}}
        (self.stages / key / "deployment.json").write_text(json.dumps(values))

    def curve(self, group, weights, seeds, thresholds=(-0.5,), early=None):
        """One trade-off curve: its published compressions, slightly off."""
        published = paper_points(*("mnist" if group[0] == "kmnist" else group[0], *group[1:]))
        for seed in seeds:
            first = self.pretrain(group, seed)
            for weight in weights:
                near = [p.compression for p in published if p.C and math.isclose(p.C, weight, rel_tol=1e-2)]
                middle = self.sparsify(first, group[4], weight)
                for threshold in thresholds:
                    size = (near[seed % len(near)] if near else 900 * weight**0.6) * math.exp(-0.12 * (threshold + 0.5))
                    size = max(size * math.exp(self.random.gauss(0, 0.02)), 1.05)
                    self.finetune(middle, group, threshold, compression=size, early=early)


def metric(dataset):
    return "average precision" if "music" in dataset else "accuracy"


def layers(compression, field):
    found = []
    for index, (name, share) in enumerate(LAYERS.items()):
        weights = round(400_000 * share)
        kept = min(weights, round(weights / compression * (6 if index == 0 else 1)))
        row = {"name": name, "field": "real" if "R" in field else "complex", "weights": weights, "kept": kept}
        row |= {"floats": 2 * weights, "kept_floats": 2 * kept, "dense_bytes": 8 * weights, "bytes": 10 * kept}
        found.append(row)
    return found


def small_runs(runs):
    """Two curves of one data set, for quick tests."""
    fake = FakeRuns(runs)
    weights = [1.5 * 2 ** (-k / 2) for k in (6, 14)]
    for field in ("R", "C"):
        fake.curve(("mnist", "raw", "SimpleConv", field, "vd"), weights, (0, 1))
    return fake


def whole_runs(runs):
    """Something for every section of the report."""
    fake = FakeRuns(runs)
    weights = [1.5 * 2 ** (-k / 2) for k in range(4, 33, 4)]
    for field in ("R", "C", "halfC"):
        for method in ("vd", "ard"):
            fake.curve(("mnist", "raw", "SimpleConv", field, method), weights, (0, 1))
    for field in ("R", "C", "2R"):
        fake.curve(("kmnist", "fft", "SimpleConv", field, "vd"), weights, (0,))
    for method in ("magnitude", "magnitude-cubic"):
        group = ("mnist", "raw", "SimpleConv", "C", method)
        parent = fake.sparsify(fake.pretrain(group, 0), method, None, log_alpha=None)
        for kept in (0.3, 0.1, 0.03, 0.01):
            last = fake.finetune(parent, group, kept=kept, compression=1 / kept)
        fake.deployment(last, 100.0)
    steps = [step / 2 for step in range(-8, 9)]
    for method in ("vd", "ard"):
        fake.curve(("musicnet", "fft", "DeepConvNet", "C", method), (1 / 200, 1 / 20), (0, 1), steps, early=True)
    fake.curve(("rendered-music", "fft", "DeepConvNet", "C", "vd"), (1 / 200, 1 / 20), (0,), early=True)
    for field in ("R", "C"):
        curves = kl_derivative(field, draws=200_000, points=512, seed=0)
        config = {"stage": "kl-derivative", "field": field, "draws": 200_000, "points": 512, "seed": 0}
        fake.stage(config, {"score": None, "curves": curves}, epochs=0)
    group = ("mnist", "raw", "SimpleConv", "C", "vd")
    first = fake.pretrain(group, 7)
    fake.sparsify(first, "vd", 0.75, status="diverged", reason="the loss is nan at epoch 3")
    fake.sparsify(first, "vd", 0.5, status="failed", reason="MemoryError: <b>out of memory</b>")
    fake.stage({"stage": "sparsify", "method": "vd", "C": 0.25, "parent": first}, None, epochs=2)
    return fake


if __name__ == "__main__":
    whole_runs(sys.argv[1])
