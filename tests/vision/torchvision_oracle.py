"""torchvision as an oracle; its compiled operations need its own build of PyTorch and may not load."""

from __future__ import annotations

from typing import Any

from ..models.torchvision_models import torchvision_models


def torchvision() -> Any:
    """The package, or the test is skipped."""
    torchvision_models()
    import torchvision

    return torchvision
