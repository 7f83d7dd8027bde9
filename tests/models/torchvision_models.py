"""torchvision's models as an oracle, also where its compiled operations do not load (they need its own build of PyTorch)."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest


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
