"""Names that the examples in docstrings may use without importing them."""

import pytest
import torch

import argand
import argand.nn as ann


@pytest.fixture(autouse=True)
def _docstring_names(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace.update(argand=argand, ann=ann, torch=torch, nn=torch.nn)
    torch.manual_seed(0)
    torch.set_num_threads(1)
