"""Compiling an exported C program with a driver, and running it on many inputs."""

import shutil
import subprocess

import numpy as np
import pytest
import torch

from argand.deploy.c.check import FLAGS

DRIVER = """\
#include <stdio.h>
#include <stdlib.h>
#include "net.h"

int main(void)
{
    float *input = malloc(sizeof(float) * NET_INPUT_FLOATS), *output = malloc(sizeof(float) * NET_OUTPUT_FLOATS);
    float *scratch = malloc(sizeof(float) * NET_SCRATCH_FLOATS);
    while (fread(input, sizeof(float), NET_INPUT_FLOATS, stdin) == NET_INPUT_FLOATS) {
        net_run(input, output, scratch);
        fwrite(output, sizeof(float), NET_OUTPUT_FLOATS, stdout);
    }
    free(input);
    free(output);
    free(scratch);
    return 0;
}
"""
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def floats(tensors):
    """Tensors of one sample as the program takes them."""
    parts = [torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in tensors]
    return np.concatenate([part.detach().float().numpy().ravel() for part in parts])


def compile_driver(directory, *flags):
    """The program with the driver, as an executable."""
    (directory / "driver.c").write_text(DRIVER)
    program = directory / "driver"
    sources = [str(directory / name) for name in ("net.c", "driver.c")]
    command = ["cc", *FLAGS, *flags, *sources, "-lm", "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def run_driver(program, samples):
    """The outputs for samples (tuples of tensors with a batch axis of one), as rows of floats."""
    given = np.stack([floats(sample) for sample in samples]).astype(np.float32)
    done = subprocess.run([str(program)], input=given.tobytes(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return np.frombuffer(done.stdout, dtype=np.float32).reshape(len(samples), -1)


def largest_error(net, program, samples):
    """The largest difference between the program and PyTorch, over the largest output."""
    with torch.no_grad():
        expected = np.stack([floats(as_tuple(net(*sample))) for sample in samples])
    found = run_driver(program, samples)
    assert found.shape == expected.shape
    return np.abs(found - expected).max() / np.abs(expected).max()


def has_sanitizers(directory):
    source = directory / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    command = ["cc", *SANITIZERS, str(source), "-o", str(directory / "empty")]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
