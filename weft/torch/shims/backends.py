"""`torch.backends`: switches of PyTorch's libraries, which can be set and change nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["Switches", "flags", "is_available", "is_built", "version"]


def is_available() -> bool:
    """Whether this library computes here."""
    return False


is_built = is_available


def version() -> None:
    """No version: the library is not there."""


@contextlib.contextmanager
def flags(*args: Any, **options: Any) -> Iterator[None]:
    """Nothing changes."""
    yield


class Switches:
    """A group of switches that keep what they are told."""

    allow_tf32 = allow_fp16_reduced_precision_reduction = allow_bf16_reduced_precision_reduction = False


matmul = Switches()
enabled = benchmark = deterministic = allow_tf32 = False
benchmark_limit, strategy, fp32_precision = 10, None, "ieee"


def get_cpu_capability() -> str:
    """What PyTorch calls the vector instructions it uses; Weft's are those of the machine."""
    return "DEFAULT"


def _kept(wanted: bool) -> None:
    """Remembered by nobody: there is one way to compute attention."""


enable_flash_sdp = enable_math_sdp = enable_mem_efficient_sdp = enable_cudnn_sdp = _kept


def _always() -> bool:
    """Whether this way to compute attention may be taken."""
    return True


flash_sdp_enabled = math_sdp_enabled = mem_efficient_sdp_enabled = cudnn_sdp_enabled = _always
