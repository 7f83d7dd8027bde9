"""Names around PyTorch's compilers that libraries import: tensors without values, and extensions in C++ and CUDA."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import numpy as np

from ..errors import UnsupportedError
from .inner import _Nothing

__all__ = ["BuildExtension", "CUDAExtension", "CppExtension", "FunctionalTensor", "MetaConverter"]
__all__ += ["include_paths", "is_ninja_available", "library_paths", "load", "load_inline"]

# ------------------------------------------------------------------------------------------------ torch._subclasses


def is_fake(x: Any) -> bool:
    """False: every tensor has values."""
    return False


def get_proxy_mode() -> None:
    """None: nothing is being traced into a graph of PyTorch's."""


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """False: no tensor is a shell around others."""
    return False


class FunctionalTensor(_Nothing):
    """A tensor whose changes PyTorch's tracer writes down."""


class MetaConverter(_Nothing):
    """What makes tensors without values."""


unset_fake_temporarily = contextlib.nullcontext

# ------------------------------------------------------------------------------------------------ torch.utils.cpp_extension
CUDA_HOME = ROCM_HOME = CUDNN_HOME = None  # by which programs see that there is nothing to build for
IS_HIP_EXTENSION = IS_WINDOWS = False


def load(*args: Any, **options: Any) -> Any:
    """Refused."""
    raise UnsupportedError(
        "cpp_extension: nothing is compiled from C++ or CUDA; weft.compile makes native code of tensor operations, "
        "weft.autograd.Function and torch.library.custom_op take NumPy"
    )


load_inline = load


class CppExtension(_Nothing):
    """A module in C++, made when a package is installed."""

    __init__ = load


class CUDAExtension(CppExtension):
    """A module in CUDA."""


class BuildExtension(CppExtension):
    """What compiles them."""


def include_paths(device_type: str = "cpu", **options: Any) -> list[str]:
    """No folders: there are no headers."""
    return []


library_paths = include_paths


def is_ninja_available() -> bool:
    """False: nothing is built."""
    return False


def verify_ninja_availability() -> None:
    """Refused."""
    load()


# ------------------------------------------------------------------------------------------------ torch.utils.data
def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Four words by which a worker of a loader seeds NumPy."""
    return np.random.SeedSequence([base_seed, worker_id]).generate_state(4).tolist()


# ------------------------------------------------------------------------------------------------ torchvision
class ConvStemConfig(NamedTuple):
    """A convolution before the first block of a vision transformer; Weft's cut pictures into patches by one, without it."""

    out_channels: int
    kernel_size: int
    stride: int
    norm_layer: Any = None
    activation_layer: Any = None
