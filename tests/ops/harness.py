"""Runs one described call in PyTorch and in Weft and says where they differ."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import weft
from weft.ops.core.pointwise import Elementwise
from weft.ops.core.primitive import OPERATIONS, Operation
from weft.tensor import wrap

from . import samples
from .samples.base import S, T

LAYOUTS = ("contiguous", "transposed", "stepped", "expanded", "empty", "0-d")
DTYPES = ("float32", "float64", "float16", "bfloat16", "complex64", "int64", "int32", "uint8", "bool")
EPS = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-23, "float64": 2**-52, "complex64": 2**-23}


def sample_tables() -> tuple[dict[str, list[S]], dict[str, str]]:
    """All tables of `samples/`: calls by operation name, and names without calls with the reason."""
    calls: dict[str, list[S]] = {}
    without: dict[str, str] = {}
    for module in pkgutil.iter_modules(samples.__path__):
        if module.name != "base":
            table = importlib.import_module(f"{samples.__name__}.{module.name}")
            calls |= getattr(table, "SAMPLES", {})
            without |= getattr(table, "UNSAMPLED", {})
    return calls, without


CALLS, WITHOUT = sample_tables()


def calls_of(row: Operation) -> list[S]:
    """The table's calls, or the standard ones of an elementwise primitive."""
    if row.name in CALLS:
        return CALLS[row.name]
    if isinstance(row.primitive, Elementwise):
        low, high = row.primitive.domain
        one = T((3, 4), low, high)
        if row.primitive.arity == 1:
            return [S(one), S(T((2, 3, 1), low, high))]
        if row.primitive.arity == 2:
            number = [S(one, 2)] if row.primitive.numbers != "none" else []
            return [S(one, one), S(T((3, 1), low, high), T((4,), low, high)), S(one, T((), low, high)), *number]
    return []


def resolve(library: Any, name: str) -> Any:
    """`library.name`, or the tensor method of that name."""
    target = library
    try:
        for part in name.split("."):
            target = getattr(target, part)
        return target
    except AttributeError:
        return getattr(library.Tensor, name.rpartition(".")[2])


# ------------------------------------------------------------------------------------ drawing inputs


def described(value: Any) -> Iterator[T]:
    """Every tensor description in a call's arguments."""
    if isinstance(value, T):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from described(one)


def draw(call: S, dtype: str, layout: str, seed: int = 0) -> tuple[Any, Any]:
    """The arguments of a call with NumPy arrays (laid out as asked) in place of descriptions."""
    rng = np.random.default_rng(seed)

    def one(value: Any) -> Any:
        if isinstance(value, T):
            shape = {"empty": (0, *value.shape[1:]), "0-d": ()}.get(layout, value.shape)
            if layout == "empty" and not value.shape:
                shape = ()
            return laid_out(T(shape, value.low, value.high, value.kind, value.distinct).draw(rng, dtype), layout)
        if isinstance(value, (list, tuple)):
            return type(value)(one(v) for v in value)
        return value

    return tuple(one(a) for a in call.args), {k: one(v) for k, v in call.kwargs.items()}


def laid_out(array: np.ndarray, layout: str) -> np.ndarray:
    """The array (or, for 'expanded', its first slice repeated) with other strides."""
    if array.ndim == 0 or array.size == 0:
        return array
    if layout == "transposed":
        return np.ascontiguousarray(array.T).T
    if layout == "stepped":
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    if layout == "expanded":
        return np.broadcast_to(array[:1], array.shape)
    return array


def to_torch(value: Any, grad: bool = False) -> Any:
    if isinstance(value, np.ndarray):
        t = _torch_tensor(value)
        return t.requires_grad_() if grad and (t.is_floating_point() or t.is_complex()) else t
    if isinstance(value, (list, tuple)):
        return type(value)(to_torch(v, grad) for v in value)
    if isinstance(value, weft.dtype):
        return getattr(torch, value.name)
    return value


def _torch_tensor(array: np.ndarray) -> torch.Tensor:
    base = np.lib.stride_tricks.as_strided(array, array.shape, array.strides, writeable=True)
    if array.dtype.kind == "V":
        return torch.from_numpy(base.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(base)


def to_weft(value: Any, grad: bool = False) -> Any:
    if isinstance(value, np.ndarray):
        w = wrap(np.lib.stride_tricks.as_strided(value, value.shape, value.strides, writeable=True))
        return w.requires_grad_() if grad and w.dtype.category >= 2 else w
    if isinstance(value, (list, tuple)):
        return type(value)(to_weft(v, grad) for v in value)
    return value


# ----------------------------------------------------------------------------------------- comparing


def flat(value: Any) -> list[Any]:
    """Nested results as a list of leaves."""
    if isinstance(value, (list, tuple)) and not isinstance(value, (torch.Size, weft.Size)):
        return [leaf for v in value for leaf in flat(v)]
    return [value]


def torch_array(t: torch.Tensor) -> np.ndarray:
    t = t.detach().resolve_conj().resolve_neg()
    return t.float().numpy() if t.dtype is torch.bfloat16 else t.numpy()


def weft_array(w: weft.Tensor) -> np.ndarray:
    array = w.detach().numpy()
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def difference(expected: Any, found: Any, layout_promised: bool, loose: float = 1.0) -> str | None:
    """None when equal in structure, value, type, shape (and strides where promised), else a reason."""
    wanted, got = flat(expected), flat(found)
    if len(wanted) != len(got):
        return f"{len(got)} results, want {len(wanted)}"
    for e, f in zip(wanted, got, strict=True):
        reason = _difference(e, f, layout_promised, loose)
        if reason:
            return reason
    return None


def _difference(e: Any, f: Any, layout_promised: bool, loose: float) -> str | None:
    if not isinstance(e, torch.Tensor):
        if isinstance(e, torch.dtype):
            return None if str(e).split(".")[1] == getattr(f, "name", None) else f"dtype {f}, want {e}"
        same = (e == f) or (e != e and f != f) or (isinstance(e, float) and np.isclose(e, f))
        return None if same else f"{f!r}, want {e!r}"
    if not isinstance(f, weft.Tensor):
        return f"a {type(f).__name__}, want a tensor"
    if tuple(e.shape) != tuple(f.shape):
        return f"shape {tuple(f.shape)}, want {tuple(e.shape)}"
    name = str(e.dtype).split(".")[1]
    if name != f.dtype.name:
        return f"dtype {f.dtype.name}, want {name}"
    if layout_promised and e.numel() > 0:
        strides = [(a, b) for a, b, n in zip(e.stride(), f.stride(), e.shape, strict=True) if n > 1]
        if any(a != b for a, b in strides):
            return f"strides {f.stride()}, want {e.stride()}"
    return _value_difference(torch_array(e), weft_array(f), name, loose)


def _value_difference(a: np.ndarray, b: np.ndarray, name: str, loose: float) -> str | None:
    if a.size == 0:
        return None
    if a.dtype.kind not in "fc":
        return None if np.array_equal(a, b) else f"values {b.ravel()[:4]}, want {a.ravel()[:4]}"
    eps = EPS.get(name, 2**-52) * loose
    finite = np.abs(a[np.isfinite(a)])
    scale = float(finite.max()) if finite.size else 1.0
    with np.errstate(all="ignore"):
        close = np.isclose(b, a, rtol=16 * eps, atol=8 * eps * max(scale, 1e-3), equal_nan=True)
    if close.all():
        return None
    at = tuple(int(i) for i in np.argwhere(~close)[0]) if a.ndim else ()
    return f"{(~close).sum()} of {close.size} wrong, at {at}: {b[at]}, want {a[at]}"


def outcome(function: Any, args: Any, kwargs: Any) -> tuple[Any, Exception | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args, **kwargs), None
        except Exception as error:
            return None, error


def is_a_gap(error: Exception) -> bool:
    """PyTorch wants a tensor where Weft also takes a number, or has no kernel for an element type: being
    more generous there is no fault."""
    text = str(error)
    wants_tensor = isinstance(error, TypeError) and (
        "must be Tensor, not" in text or "invalid combination of arg" in text
    )
    return wants_tensor or (isinstance(error, RuntimeError) and "not implemented for '" in text)


ROWS = {name: row for name, row in OPERATIONS.items() if calls_of(row)}
