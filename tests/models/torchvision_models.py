"""torchvision's models as an oracle, also where its compiled operations do not load (they need its own build of PyTorch)."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

import weft


def torchvision_models() -> Any:
    """`torchvision.models`, or the test is skipped. None of the models uses a compiled operation of torchvision."""
    pytest.importorskip("torch")
    try:
        import torchvision
    except ImportError:
        pytest.skip("torchvision is not installed")
    except RuntimeError:  # its operations are not there to be registered
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        for name in ("_meta_registrations", "_autograd_registrations"):
            sys.modules[f"torchvision.{name}"] = types.ModuleType(f"torchvision.{name}")
        import torchvision
    return torchvision.models


def same_weights(theirs: Any, model: weft.nn.Module) -> None:
    """torchvision's weights, with noise where they start at a constant, in both models."""
    for parameter in theirs.parameters():
        parameter.data += 0.05 * parameter.data.clone().normal_()
    state = {key: weft.from_numpy(value.numpy().copy()) for key, value in theirs.state_dict().items()}
    model.load_state_dict(state)


def difference(got: Any, want: Any) -> float:
    """The largest difference, as a share of the largest value where that is above 1."""
    got, want = got.detach().numpy(), want.detach().numpy()
    assert got.shape == want.shape
    return float(np.abs(got - want).max() / max(1.0, np.abs(want).max()))


def outputs(model: Any, x: Any) -> list[Any]:
    y = model(x)
    return list(y) if isinstance(y, tuple) else [y]
