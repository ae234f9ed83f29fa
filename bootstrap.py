"""Sets argand up on a fresh machine and runs it.

    python3 bootstrap.py demo     a network trained, sparsified and fine-tuned on embedded data; ends in a report
    python3 bootstrap.py test     the tests; further arguments go to pytest
    python3 bootstrap.py setup    only the set-up

Needs Python 3.11 or later with venv and pip; everything else is installed into .venv here, through pip's own
configuration and constraints.txt. What is done already is skipped, and an interrupted set-up is taken up again.

TORCH_INDEX may name a package index that holds CPU builds of torch.
"""

# Plain enough for an old Python to read, so that it can be told it is too old.

import hashlib
import json
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "Scripts", "python.exe") if os.name == "nt" else os.path.join(VENV, "bin", "python")
MARKER = os.path.join(VENV, "argand-setup.json")
CONSTRAINTS = os.path.join(ROOT, "constraints.txt")
OLDEST = (3, 11)
# The extra that each task needs; an environment with a later one serves a task that needs an earlier one.
EXTRAS = ["report", "dev"]
TASKS = {"demo": "report", "setup": "dev", "test": "dev"}


class SetupError(Exception):
    """Something the user has to mend, said in one sentence."""


def check_python():
    """Refuse a Python that can't do the set-up."""
    if sys.version_info[:2] < OLDEST:
        raise SetupError(
            "argand needs Python %d.%d or later, and this is %d.%d: run this file with a newer one."
            % (OLDEST + tuple(sys.version_info[:2]))
        )
    for module in ("venv", "ensurepip"):
        try:
            __import__(module)
        except ImportError:
            raise SetupError(
                "This Python lacks the module %s, which the set-up needs: install it (on Debian and Ubuntu the package "
                "python3-venv), or use another Python." % module
            ) from None


def fingerprint():
    """What the installed environment depends on."""
    digest = hashlib.sha256(("%s %s" % (sys.version, ROOT)).encode())
    for name in ("pyproject.toml", "constraints.txt"):
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def is_ready(extra):
    """Whether a finished set-up of these files, with at least this extra, is there."""
    try:
        with open(MARKER) as file:
            done = json.load(file)
        enough = EXTRAS.index(done["extra"]) >= EXTRAS.index(extra)
        return done["fingerprint"] == fingerprint() and enough and os.path.exists(PYTHON)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def works(code):
    """Whether the environment's Python runs this."""
    try:
        return subprocess.call([PYTHON, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def pip(*arguments, **options):
    """Call the environment's pip, bound by the constraints in its isolated builds too."""
    environment = dict(os.environ, PIP_CONSTRAINT=CONSTRAINTS, PIP_DISABLE_PIP_VERSION_CHECK="1")
    command = [PYTHON, "-m", "pip"] + list(arguments)
    return subprocess.run(command, env=environment, check=False, **options)


def install(*arguments):
    """Install under the constraints, or stop with a sentence."""
    if pip("install", "--quiet", "-c", CONSTRAINTS, *arguments).returncode != 0:
        raise SetupError(
            "pip could not install %s (its message is above): mend that and run this again, it goes on from here."
            % arguments[-1]
        )


def has_gpu():
    """Whether there is a GPU that CUDA packages could serve."""
    return os.path.exists("/dev/nvidia0") or shutil.which("nvidia-smi") is not None


def announce_cuda():
    """Say it before gigabytes of CUDA packages come to a machine without a GPU."""
    if has_gpu() or os.environ.get("TORCH_INDEX") or not sys.platform.startswith("linux"):
        return
    asked = pip(
        *["install", "--dry-run", "--quiet", "--no-deps", "--report", "-", "-c", CONSTRAINTS, "torch"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        requirements = json.loads(asked.stdout)["install"][0]["metadata"].get("requires_dist", [])
    except (ValueError, KeyError, IndexError):
        return  # pip will say what is wrong when it installs
    cuda = [r for r in requirements if r.startswith(("nvidia-", "cuda-", "triton"))]
    if cuda:
        say(
            "torch will come with %d CUDA packages of several gigabytes, and this machine shows no GPU. To avoid that, "
            "stop now and set TORCH_INDEX to an index of CPU builds." % len(cuda)
        )


def say(text):
    """Tell what is being done."""
    print("argand: " + text, flush=True)


def set_up(extra):
    """Make .venv and install argand into it, skipping what is done."""
    if is_ready(extra):
        return
    if not works("import pip"):
        say("making the environment .venv")
        subprocess.check_call([sys.executable, "-m", "venv", "--clear", VENV])
    if os.path.exists(MARKER):
        os.remove(MARKER)
    if not works("import torch"):
        announce_cuda()
        say("installing torch")
        index = os.environ.get("TORCH_INDEX")
        install(*(["--index-url", index] if index else []), "torch")
    say("installing argand and what it needs")
    install("-e", ROOT + "[%s]" % extra)
    if extra == "dev":
        # Plays scores into files. Its requirements are left out: they are for sound cards, and need a compiler.
        install("--no-deps", "tinysoundfont")
    with open(MARKER + ".new", "w") as file:
        json.dump({"fingerprint": fingerprint(), "extra": extra}, file)
    os.replace(MARKER + ".new", MARKER)


def command(task, arguments):
    """What runs in the environment for a task."""
    if task == "demo":
        return [PYTHON, "-m", "argand", "demo"] + arguments
    return [PYTHON, "-m", "pytest", "-q", "-n", str(min(os.cpu_count() or 1, 4))] + arguments


def main(arguments):
    """Run the task; returns the exit code."""
    if not arguments or arguments[0] not in TASKS:
        print(__doc__.strip())
        return 2
    try:
        check_python()
        set_up(TASKS[arguments[0]])
        if arguments[0] == "setup":
            return 0
        return subprocess.call(command(arguments[0], arguments[1:]), cwd=ROOT)
    except SetupError as error:
        print("argand: %s" % error, file=sys.stderr)
        return 1
    except (subprocess.CalledProcessError, OSError) as error:
        print("argand: the set-up failed (%s): run this again, it goes on from here." % error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("argand: interrupted; run this again to go on.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
