"""The driver and the local engine: kills, retries, two drivers, stops; through the command line as a user runs it."""

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
import tiny

from argand.study import store
from argand.study.engines.local import describe_end

RUN = [sys.executable, "-m", "argand", "run"]


def command(tmp_path, runs, *extra, text=tiny.TINY):
    spec = tiny.write(tmp_path / "spec.toml", text)
    return [*RUN, str(spec), "--runs", str(runs), "--jobs", "2", "--no-report", *extra]


#: A shell that puts the tests into the background has them ignore Ctrl-C, and children would inherit that.
HEEDING = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


def begin(words, output=subprocess.PIPE):
    """A driver that runs beside the test."""
    return subprocess.Popen([sys.executable, "-c", HEEDING, *words], stdout=output, stderr=output, text=True)


def run(tmp_path, runs, *extra, **options):
    words = command(tmp_path, runs, *extra, **options)
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=300)


def status_of(runs, *extra):
    words = [sys.executable, "-m", "argand", "status", str(runs), *extra]
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)


def workers(runs):
    """Process numbers of the workers that compute stages of this directory."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            words = Path(f"/proc/{entry}/cmdline").read_text().split("\0") if entry.isdigit() else []
        except OSError:
            continue
        if "argand.study.worker" in words and any(str(runs) in word for word in words):
            found.append(int(entry))
    return found


def wait_for(condition, seconds=60):
    limit = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.02)
    return value


def kill(process):
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A finished tiny study."""
    place = tmp_path_factory.mktemp("undisturbed")
    done = run(place, place / "runs")
    assert done.returncode == 0, done.stderr
    assert "5 stages computed, 0 were finished before" in done.stdout
    return place


def test_a_finished_study_is_not_computed_again(undisturbed):
    runs = undisturbed / "runs"
    before = {path: path.stat().st_mtime_ns for path in (runs / "stages").rglob("*.*")}
    again = run(undisturbed, runs)
    assert again.returncode == 0
    assert "0 stages computed, 5 were finished before" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in (runs / "stages").rglob("*.*")} == before
    assert again.stderr == ""  # quiet away from a terminal


def test_kills_at_random_moments_change_nothing(undisturbed, tmp_path):
    """Ten rounds: a worker, the driver, or all of them are killed; then one run to the end."""
    runs, luck, kills = tmp_path / "runs", random.Random(0), 0
    for number in range(10):
        driver = begin(command(tmp_path, runs), subprocess.DEVNULL)
        wait_for(lambda driver=driver: workers(runs) or driver.poll() is not None)
        time.sleep(luck.uniform(0, 4))
        victims = {0: workers(runs)[:1], 1: [driver.pid], 2: [*workers(runs), driver.pid]}[number % 3]
        for victim in victims:
            kill(victim)
            kills += 1
        if number % 3 == 0:
            driver.send_signal(signal.SIGINT)
        driver.wait(20)
        wait_for(lambda: not workers(runs), 20)
    assert kills >= 10
    last = run(tmp_path, runs)
    assert last.returncode == 0, last.stderr
    assert tiny.outcome(runs) == tiny.outcome(undisturbed / "runs")
    assert not [path for path in runs.rglob(".*") if path.is_file()]
    for log in (runs / "stages").glob("*/log.txt"):
        assert "Error" not in log.read_text()


def test_a_worker_killed_once_is_tried_again_and_twice_fails(undisturbed, tmp_path):
    runs = tmp_path / "runs"
    driver = begin(command(tmp_path, runs))
    first = wait_for(lambda: workers(runs))[0]
    kill(first)
    second = wait_for(lambda: [w for w in workers(runs) if w != first])[0]
    kill(second)
    out, _ = driver.communicate(timeout=60)
    assert driver.returncode == 1
    assert "failed: killed by SIGKILL (out of memory?)" in out
    assert "4 stages could not begin" in out
    (result,) = runs.glob("stages/*/result.json")
    assert json.loads(result.read_text()) == {
        "reason": "killed by SIGKILL (out of memory?)", "stage": "pretrain", "status": "failed",
    }  # fmt: skip
    status = status_of(runs)
    assert "4 waiting, 1 failed" in status.stdout
    again = run(tmp_path, runs)  # a failure is no end: the next run tries again
    assert again.returncode == 0
    assert tiny.outcome(runs) == tiny.outcome(undisturbed / "runs")


def test_ctrl_c_stops_within_seconds_and_says_how_to_go_on(tmp_path):
    runs = tmp_path / "runs"
    driver = begin(command(tmp_path, runs))
    wait_for(lambda: workers(runs))
    sent = time.monotonic()
    driver.send_signal(signal.SIGINT)
    _, error = driver.communicate(timeout=20)
    assert time.monotonic() - sent < 10
    assert driver.returncode == 130
    assert error == "argand: interrupted; the same command goes on from here.\n"
    assert not workers(runs)
    status = status_of(runs)
    assert "no run is going on" in status.stdout
    assert "running" not in status.stdout


def test_a_second_driver_is_refused_and_status_works_beside_the_first(tmp_path):
    runs = tmp_path / "runs"
    long = tiny.TINY.replace("epochs = 2", "epochs = 4000")  # outlives everything below
    driver = begin(command(tmp_path, runs, text=long))
    wait_for(lambda: workers(runs))
    second = run(tmp_path, runs, text=long)
    assert second.returncode == 2
    assert f"is in use by another argand run (process {driver.pid})" in second.stderr
    status = status_of(runs)
    assert "a run is going on" in status.stdout
    assert re.search("[12] running", status.stdout)
    rebuild = status_of(runs, "--rebuild")
    assert rebuild.returncode == 2
    assert "rebuild it when that has ended" in rebuild.stderr
    assert driver.poll() is None
    assert workers(runs)
    driver.send_signal(signal.SIGINT)
    driver.communicate(timeout=20)
    assert driver.returncode == 130
    assert status_of(runs, "--rebuild").returncode == 0


def test_the_index_is_rebuilt_from_the_directories(undisturbed):
    runs = undisturbed / "runs"
    before = store.read(runs)
    assert [entry.status for entry in before] == ["done"] * 5
    store.remove(runs)
    refused = status_of(runs)
    assert refused.returncode == 2
    assert "--rebuild makes one" in refused.stderr
    (runs / store.INDEX).write_bytes(b"not a database" * 100)
    refused = status_of(runs)
    assert refused.returncode == 2
    rebuilt = status_of(runs, "--rebuild")
    assert "5 done; no run is going on" in rebuilt.stdout
    assert sorted(store.read(runs), key=lambda e: e.key) == sorted(before, key=lambda e: e.key)
    with closing(sqlite3.connect(runs / store.INDEX)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_results_without_checkpoints_are_gone_on_from_by_computing_the_parents_anew(undisturbed, tmp_path):
    runs = tmp_path / "runs"
    for source in (undisturbed / "runs" / "stages").iterdir():
        (runs / "stages" / source.name).mkdir(parents=True)
        for name in ("config.json", "result.json", "history.jsonl", "timing.json"):
            (runs / "stages" / source.name / name).write_bytes((source / name).read_bytes())
    same = run(tmp_path, runs)
    assert "0 stages computed, 5 were finished before" in same.stdout
    more = run(tmp_path, runs, "--set", "grid.C=[0.01]", "--set", "grid.threshold=[-0.5, 1.0]")
    assert "3 stages computed, 1 were finished before" in more.stdout
    for name in ("config.json", "history.jsonl", "result.json"):
        for source in (undisturbed / "runs" / "stages").iterdir():
            assert (runs / "stages" / source.name / name).read_bytes() == (source / name).read_bytes()


def test_numbers_do_not_depend_on_the_number_of_jobs(undisturbed, tmp_path):
    done = run(tmp_path, tmp_path / "runs", "--jobs", "4")
    assert done.returncode == 0
    assert tiny.outcome(tmp_path / "runs") == tiny.outcome(undisturbed / "runs")


def test_a_stage_that_diverges_is_told_and_its_children_wait(tmp_path):
    text = tiny.TINY.replace("lr = 0.05", "lr = 1e30\nmax_norm = 1e30")
    done = run(tmp_path, tmp_path / "runs", text=text)
    assert done.returncode == 1
    assert "diverged: the loss became" in done.stdout
    assert "2 stages could not begin" in done.stdout


def test_results_hold_no_path_host_or_time(undisturbed):
    for path in (undisturbed / "runs").glob("stages/*/*.json*"):
        text = path.read_text()
        assert str(undisturbed) not in text
        assert os.uname().nodename not in text
        assert ("seconds" in text) == (path.name == "timing.json")


def test_ends_are_described(tmp_path):
    log = tmp_path / "log.txt"
    assert describe_end(-11, log) == "killed by SIGSEGV"
    assert describe_end(3, log) == "ended with code 3: it said nothing"
    log.write_text("Traceback\n  ...\nRuntimeError: no memory\n\n")
    assert describe_end(1, log) == "ended with code 1: RuntimeError: no memory"
