"""Sizes and types of results without computing them: by rule where a kind or an operation has one, else by rehearsal.

A rehearsal runs the primitive once on arrays of the right sizes that hold harmless numbers, and remembers the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import TraceError
from ...ops.core.primitive import Primitive, Reduction
from ...tape.modes import mode
from ..graph.graph import Value

__all__ = ["result_dtype", "results_of", "strides_like"]

Kind = tuple[tuple[int, ...], np.dtype]
_REMEMBERED: dict[Any, Any] = {}
_LIMIT = 4096


def _remember(key: Any, found: Any) -> Any:
    if len(_REMEMBERED) >= _LIMIT:
        _REMEMBERED.clear()
    _REMEMBERED[key] = found
    return found


def _frozen(params: dict[str, Any]) -> Any:
    return tuple((k, repr(v) if isinstance(v, (list, dict, np.ndarray)) else v) for k, v in params.items())


def result_dtype(primitive: Primitive, kinds: Sequence[np.dtype], params: dict[str, Any]) -> np.dtype:
    """The element type that an elementwise `reference` gives for inputs of these types."""
    key = (primitive.title, *kinds, _frozen(params))
    found = _REMEMBERED.get(key)
    if found is None:
        arrays = [np.ones(1, kind) for kind in kinds]
        found = _remember(key, np.asarray(mode.call(primitive.reference, *arrays, **params)).dtype)
    return found


def results_of(primitive: Primitive, values: Sequence[Value], params: dict[str, Any]) -> tuple[list[Kind], bool]:
    """Sizes and types of the results, and whether there are several."""
    key = (primitive.title, *((v.shape, v.dtype) for v in values), _frozen(params))
    found = _REMEMBERED.get(key)
    return _remember(key, _results(primitive, values, params)) if found is None else found


def _results(primitive: Primitive, values: Sequence[Value], params: dict[str, Any]) -> tuple[list[Kind], bool]:
    ruled = primitive.shapes(*values, **params)
    if ruled is not None:
        return (list(ruled), True) if ruled[0] and isinstance(ruled[0][0], tuple) else ([ruled], False)
    if isinstance(primitive, Reduction):
        return [_reduced(primitive, values[0], params)], False
    result = _rehearsed(primitive, values, params)
    many = result.__class__ is tuple
    return [(np.shape(r), np.asarray(r).dtype) for r in (result if many else (result,))], many


def _reduced(primitive: Reduction, x: Value, params: dict[str, Any]) -> Kind:
    dim, keepdim = params["dim"], params["keepdim"]
    dims = dim if isinstance(dim, tuple) else (dim,)
    shape = tuple(1 if d in dims else s for d, s in enumerate(x.shape) if keepdim or d not in dims)
    one = mode.call(primitive.compute, np.ones((1,) * len(x.shape), x.dtype), **params)
    return shape, np.asarray(one).dtype


def _rehearsed(primitive: Primitive, values: Sequence[Value], params: dict[str, Any]) -> Any:
    """The result on harmless numbers: unit matrices, ones, zeros, whichever is taken first."""
    failure = None
    for fill in (_unit_matrices, np.ones, np.zeros):
        arrays = [fill(v.shape, v.dtype) if v.dtype.kind in "fcV" else np.zeros(v.shape, v.dtype) for v in values]
        try:
            return mode.call(primitive.compute, *arrays, **params)
        except Exception as error:
            failure = error
    raise TraceError(f"compile: cannot tell the sizes of the results of {primitive.name}: {failure}") from failure


def _unit_matrices(shape: tuple[int, ...], kind: np.dtype) -> np.ndarray:
    if len(shape) < 2:
        return np.ones(shape, kind)
    return np.broadcast_to(np.eye(*shape[-2:], dtype=np.float64).astype(kind), shape).copy()


def strides_like(
    stands: Sequence[np.ndarray], shape: tuple[int, ...], kind: np.dtype, params: Any
) -> np.ndarray | None:
    """An array (of no values) laid out as NumPy lays out an elementwise result; None: in order."""
    order = params.get("order", "K")
    if order == "C" or all(s.flags.c_contiguous for s in stands):
        return None
    operands = [*(s.view(np.ndarray) for s in stands), None]
    flags = [*(["readonly"] for _ in stands), ["writeonly", "allocate"]]
    kinds = [*(s.dtype for s in stands), kind]
    return np.nditer(operands, ["zerosize_ok"], flags, kinds, order="K", casting="unsafe", itershape=shape).operands[-1]
