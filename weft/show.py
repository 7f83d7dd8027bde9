"""How a tensor is printed: PyTorch's layout, digit for digit, computed from a NumPy array.

`tensor_repr` draws one array with its suffixes; `set_printoptions`, `get_printoptions` and the
context manager `printoptions` hold the choices (precision, truncation, line width, notation).
"""

import contextlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from .errors import InvalidValueError

__all__ = ["get_printoptions", "printoptions", "set_printoptions", "tensor_repr"]


@dataclass(frozen=True)
class PrintOptions:
    """The choices that shape a printed tensor.

    precision: digits after the decimal point
    threshold: with more elements than this only the edges are printed
    edgeitems: how many elements each edge shows
    linewidth: longest line, where elements allow it
    sci_mode: scientific notation always, never, or (None) where the range of values asks for it
    """

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None

    def __post_init__(self) -> None:
        for name in ("precision", "threshold", "edgeitems", "linewidth"):
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) or (name == "threshold" and isinstance(value, float))
            if not whole or isinstance(value, bool) or not value >= 0:
                raise InvalidValueError(
                    f"set_printoptions: {name} must be a number ≥ 0, got {value!r}; "
                    f"the default is {type(self).__dataclass_fields__[name].default}"
                )


PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
_options = PROFILES["default"]


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors are printed from now on; what is left out stays as it is.

    `profile` ("default", "short" or "full") sets everything, then the other arguments refine it.
    As in PyTorch, `sci_mode` is the exception: a call that does not name it returns it to automatic.
    Unlike PyTorch, an unknown profile or a negative number is an error.

    Example:
        >>> from weft.show import get_printoptions, set_printoptions
        >>> set_printoptions(profile="short", linewidth=100)
        >>> get_printoptions()["precision"], get_printoptions()["linewidth"]
        (2, 100)
        >>> set_printoptions(profile="default")
    """
    global _options
    if profile is not None and profile not in PROFILES:
        raise InvalidValueError(f"set_printoptions: profile {profile!r} is unknown; choose one of {list(PROFILES)}")
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changes = {name: value for name, value in given.items() if value is not None}
    start = _options if profile is None else PROFILES[profile]
    _options = replace(start, **changes, sci_mode=sci_mode)


def get_printoptions() -> dict[str, Any]:
    """The present options as a dictionary that `set_printoptions(**options)` accepts."""
    return asdict(_options)


@contextlib.contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Change the print options inside a `with` block; the arguments are those of `set_printoptions`."""
    global _options
    before = _options
    set_printoptions(**options)
    try:
        yield
    finally:
        _options = before


def tensor_repr(
    array: np.ndarray,
    *,
    dtype_name: str,
    default_dtype_name: str,
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    prefix: str = "tensor(",
    extra: dict[str, Any] | None = None,
    device: str = "cpu",
) -> str:
    """The text PyTorch would print for this array, with `weft.` where PyTorch writes `torch.`.

    Parameters
    ----------
    array: any shape; bool, integer, float (also ml_dtypes') or complex
    dtype_name, default_dtype_name: bare names, as in "float64"
    requires_grad, grad_fn_name: shown last; a known `grad_fn` replaces `requires_grad=True`
    prefix: what stands before the values; its length is the indentation of later lines
    extra: further `key=value` suffixes, printed after the dtype with `str`
    device: shown unless it is "cpu"

    Example:
        >>> import numpy as np
        >>> from weft.show import tensor_repr
        >>> tensor_repr(np.array([0.5, 2.0]), dtype_name="float64", default_dtype_name="float32")
        'tensor([0.5000, 2.0000], dtype=weft.float64)'
    """
    suffixes = [] if device == "cpu" else [f"device='{device}'"]
    shape_is_hidden = array.ndim != 1 if array.size == 0 else _options.edgeitems == 0
    if shape_is_hidden:
        suffixes.append(f"size={array.shape}")
    if dtype_name not in _silent_dtypes(default_dtype_name, empty=array.size == 0):
        suffixes.append(f"dtype=weft.{dtype_name}")
    suffixes += [f"{name}={value}" for name, value in (extra or {}).items()]
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    return _append_suffixes(prefix + _values_text(array, len(prefix)), suffixes, len(prefix))


def _silent_dtypes(default: str, empty: bool) -> set[str]:
    """The dtypes a reader would assume from the digits, which therefore go without saying."""
    if empty:
        return {default}
    return {default, "complex128" if default == "float64" else "complex64", "int64", "bool"}


def _append_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    """Join the suffixes with commas, starting a new line where the present one would grow too long."""
    column = len(text) - (text.rfind("\n") + 1) + 2
    for suffix in suffixes:
        # Measured with PyTorch's longer name, so that lines break where PyTorch breaks them.
        length = len(suffix.replace("weft.", "torch."))
        if column + length + 2 > _options.linewidth:
            text += ",\n" + " " * indent + suffix
            column = indent + length
        else:
            text += ", " + suffix
            column += length + 2
    return text + ")"


def _values_text(array: np.ndarray, indent: int) -> str:
    """The bracketed numbers alone, cut to the edges where there are more than the threshold."""
    if array.size == 0:
        return "[]"
    truncated = array.size > _options.threshold
    edge = _options.edgeitems if truncated else max(array.shape, default=0)
    if edge == 0 and array.ndim > 0:
        return "[...]"
    shown = _edges(array, edge)
    cut_after = [edge if size > 2 * edge else None for size in array.shape]
    cells, width = _cells(shown)
    return _nest(iter(cells), shown.shape, cut_after, indent, width)


def _edges(array: np.ndarray, edge: int) -> np.ndarray:
    """The first and last `edge` entries of every axis that is longer than both together."""
    for axis, size in enumerate(array.shape):
        if size > 2 * edge:
            kept = [*range(edge), *range(size - edge, size)]
            array = array.take(kept, axis=axis)
    return array


def _nest(cells: Iterator[str], shape: tuple[int, ...], cut_after: list[int | None], indent: int, width: int) -> str:
    """Draw cells, taken in row-major order, as nested brackets of the given shape.

    `cut_after[axis]` is the position of the dots that stand for what was left out, None for nothing.
    """
    if not shape:
        return next(cells)
    size, *inner_shape = shape
    cut = cut_after[0]
    margin = " " * (indent + 1)
    if inner_shape:
        parts = [
            _nest(cells, tuple(inner_shape), cut_after[1:], indent + 1, width)  # one slice of the first axis
            for _ in range(size)
        ]
        if cut is not None:
            parts.insert(cut, "...")
        return "[" + ("," + "\n" * len(inner_shape) + margin).join(parts) + "]"
    parts = list(itertools.islice(cells, size))
    if cut is not None:
        parts.insert(cut, " ...")
    per_line = max(1, (_options.linewidth - indent) // (width + len(", ")))
    lines = [", ".join(parts[i : i + per_line]) for i in range(0, len(parts), per_line)]
    return "[" + (",\n" + margin).join(lines) + "]"


def _cells(values: np.ndarray) -> tuple[list[str], int]:
    """The text of every value, aligned to the right, and the width to reckon with for each."""
    values = values.reshape(-1)
    if values.dtype.kind == "c":
        return _complex_cells(values)
    if "float" in values.dtype.name:  # ml_dtypes' floats are of kind "V", so the name decides
        return _align(*_float_cells(values))
    cells = [str(value) for value in values.tolist()]
    return _align(cells, max(map(len, cells)))


def _align(cells: list[str], width: int) -> tuple[list[str], int]:
    return [cell.rjust(width) for cell in cells], width


def _complex_cells(values: np.ndarray) -> tuple[list[str], int]:
    """Real and imaginary parts choose their notation apart; only the real part is aligned."""
    reals, real_width = _align(*_float_cells(np.real(values)))
    imaginaries, imaginary_width = _float_cells(np.imag(values))
    signed = (part if part.startswith("-") else "+" + part for part in imaginaries)
    cells = [f"{real}{imaginary}j" for real, imaginary in zip(reals, signed, strict=True)]
    return cells, real_width + imaginary_width + len("j")


def _float_cells(values: np.ndarray) -> tuple[list[str], int]:
    """Every float in the notation its company asks for, and the width of the widest.

    Zeros, infinities and NaN have no say in notation or width, so they may stick out.
    """
    with np.errstate(all="ignore"):
        values = values.astype(np.float64)
    ordinary = np.isfinite(values) & (values != 0)
    cells = _write_floats(values.tolist(), *_notation(np.abs(values[ordinary])))
    width = max((len(cell) for cell, counts in zip(cells, ordinary, strict=True) if counts), default=1)
    return cells, width


def _write_floats(values: list[float], pattern: str, point: str) -> list[str]:
    """Each value by the pattern; a finite one ends in `point`."""
    return [pattern.format(value) + (point if math.isfinite(value) else "") for value in values]


def _notation(magnitudes: np.ndarray) -> tuple[str, str]:
    """Scientific, whole-number or fixed-point for these positive, finite magnitudes.

    Returns the format and what ends a number: whole floats are told from integers by a bare point.
    Left to itself the choice is scientific when the largest exceeds 10⁸ or 1000 times the smallest,
    or the smallest is below 10⁻⁴.
    """
    whole = "{:.0f}", "."
    if magnitudes.size == 0:
        return whole
    scientific = _options.sci_mode
    if scientific is None:
        smallest, largest = magnitudes.min(), magnitudes.max()
        with np.errstate(over="ignore"):
            scientific = largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4
    if scientific:
        return f"{{:.{_options.precision}e}}", ""
    if (magnitudes == np.ceil(magnitudes)).all():
        return whole
    return f"{{:.{_options.precision}f}}", ""
