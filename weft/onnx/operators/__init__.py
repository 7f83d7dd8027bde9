"""What ONNX's operators compute, one short function each, in files by topic; importing this fills the table."""

from . import (  # noqa: F401  they enter their rules
    activation,
    attention,
    control,
    conv,
    elementwise,
    images,
    index,
    learned,
    linalg,
    loss,
    norm,
    pool,
    quantize,
    random,
    recurrent,
    reduce,
    resize,
    sequence,
    shape,
    signal,
    strings,
    types,
)
from .registry import RULES, find, newest

__all__ = ["RULES", "find", "newest"]
