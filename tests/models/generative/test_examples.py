"""The examples in the docstrings of generative models run as they are written."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from weft.models import autoregressive, diffusion, energy, generative

MODULES = [
    f"{room.__name__}.{module.name}"
    for room in (autoregressive, diffusion, energy, generative)
    for module in pkgutil.iter_modules(room.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
