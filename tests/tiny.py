"""A study small enough to run in seconds: a few dozen images, a narrow network, two epochs."""

TINY = """
[study]
name = "tiny"

[grid]
dataset = ["mnist"]
model = ["SimpleConv"]
field = ["C"]
width = [0.1]
C = [0.01, 1.0]
threshold = [-0.5]
seed = [0]

[data]
train = 96
test = 64
validation = 32

[stages.pretrain]
epochs = 2
batch = 32

[stages.sparsify]
epochs = 2
batch = 32
initial = -6.0
lr = 0.05

[stages.finetune]
epochs = 2
batch = 32
"""


def write(path, text=TINY):
    path.write_text(text)
    return path


def outcome(runs):
    """The bytes of everything in the stages that must not depend on how they were run."""
    names = ("config.json", "history.jsonl", "checkpoint.safetensors", "result.json")
    return {
        f"{stage.name}/{name}": (stage / name).read_bytes()
        for stage in sorted((runs / "stages").iterdir())
        for name in names
    }
