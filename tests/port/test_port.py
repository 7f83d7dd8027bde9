"""Every program gives PyTorch's loss curve under Weft: same file, same data, same initial weights, 30 steps, float32."""

from __future__ import annotations

import importlib
import pathlib

import numpy as np
import pytest
import torch

import weft

STEPS = 30
PROGRAMS = sorted(p.stem for p in pathlib.Path(__file__).parent.glob("*.py") if not p.stem.startswith(("_", "test_")))


@pytest.mark.parametrize("name", PROGRAMS)
def test_loss_curve_is_that_of_pytorch(name):
    program = importlib.import_module(f"tests.port.{name}")
    torch.manual_seed(0)
    start = {key: value.numpy().copy() for key, value in program.build(torch).state_dict().items()}
    expected = np.array(program.run(torch, STEPS, start))
    found = np.array(program.run(weft, STEPS, start))
    assert expected.shape == found.shape and len(found) >= STEPS
    assert abs(expected[0] - expected[STEPS - 1]) > 1e-2, "the program must learn something, else nothing is compared"
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_programs_name_no_library():
    """What is ported is the file as it stands: it imports NumPy and the standard library, nothing else."""
    assert len(PROGRAMS) >= 8
    for name in PROGRAMS:
        source = (pathlib.Path(__file__).parent / f"{name}.py").read_text()
        imports = {line.split()[1] for line in source.splitlines() if line.startswith(("import ", "from "))}
        assert imports <= {"numpy", "math"}, f"{name} imports {imports}"
