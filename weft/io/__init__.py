"""Files in and out: safetensors, Weft's own trees, PyTorch's checkpoints, and shared memory with PyTorch.

Nothing here runs code from a file. Writing replaces a file at once or not at all; reading checks everything before it
makes the first tensor, and raises one of the errors in `weft.io.errors`.
"""

from ..runtime.lazy import later as _later
from .bundle import load, save
from .errors import *  # noqa: F403
from .errors import __all__ as _errors
from .gguf import GGUF, load_gguf
from .safetensors import load_file, load_metadata, save_file
from .torch import from_torch, load_torch, to_torch
from .torch_writer import save_torch

__all__ = [
    "save",
    "load",
    "save_file",
    "load_file",
    "load_metadata",
    "load_torch",
    "save_torch",
    "GGUF",
    "load_gguf",
    "from_torch",
    "to_torch",
    *_errors,
]

__getattr__, __dir__ = _later(__name__)
