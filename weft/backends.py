"""The switches that PyTorch scripts set or ask before training; only the CPU is there to obey them."""

from __future__ import annotations

from types import SimpleNamespace

__all__ = ["cuda", "cudnn", "mps"]


def _absent() -> bool:
    """Whether this kind of device can be used."""
    return False


cudnn = SimpleNamespace(is_available=_absent, enabled=False, benchmark=False, deterministic=False, allow_tf32=False)
cuda = SimpleNamespace(is_built=_absent, matmul=SimpleNamespace(allow_tf32=False))
mps = SimpleNamespace(is_available=_absent, is_built=_absent)
