"""The register of public operations, from which functions, methods, documentation and tests are made."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import dtypes
from ...errors import ArgumentError, AutogradError, DtypeError, ShapeError
from ...refusal import guarded, reword, rewritten
from ...tape.modes import mode
from ...tensor import Tensor
from .inplace import in_place, write

if TYPE_CHECKING:
    from .primitive import Primitive

__all__ = ["OPERATIONS", "Operation", "explained", "operation", "with_out", "write_out"]


@dataclass
class Operation:
    """A row of the table of public operations."""

    name: str  # as users write it after `weft.`: 'add', 'linalg.inv'; methods only: 'Tensor.add_'
    function: Callable
    kind: str
    primitive: Primitive | None = None
    methods: tuple[str, ...] = ()
    differentiable: bool = True
    summary: str = ""
    aliases: tuple[str, ...] = field(default=())


OPERATIONS: dict[str, Operation] = {}


def operation(
    name: str | None = None,
    *,
    function: bool = True,
    method: bool | str = True,
    inplace: bool | Callable = False,
    out: bool | str = False,
    aliases: Sequence[str] = (),
    differentiable: bool = True,
    kind: str = "composite",
    primitive: Primitive | None = None,
    quick: bool = False,
) -> Callable[[Callable], Callable]:
    """Register a public function written over primitives.

    `method` adds it to Tensor (under another name if a string), `inplace` adds `name_`, `out` gives
    it PyTorch's `out=` argument ('apart': which must not share memory with the inputs; 'same': and must
    have the type of the result), `aliases` are further public names with the same forms. `quick`: the method takes
    about a microsecond and checks its arguments itself, so that it goes without a guard against Python's errors.
    """

    def enter(body: Callable) -> Callable:
        title = name or body.__name__
        public = with_out(body, title, out) if out else body
        safe = public if out or quick or kind != "composite" else guarded(public, title)
        methods = []
        for public_name in (title, *aliases):
            last = public_name.rpartition(".")[2]
            if method:
                last = method if isinstance(method, str) else last
                setattr(Tensor, last, safe)
                methods.append(last)
            if inplace:
                setattr(Tensor, last + "_", inplace if callable(inplace) else in_place(public, last + "_"))
                methods.append(last + "_")
            if function:
                OPERATIONS[public_name] = Operation(
                    public_name,
                    public,
                    kind,
                    primitive,
                    tuple(methods),
                    differentiable,
                    (body.__doc__ or "").strip().split("\n")[0],
                    tuple(aliases) if public_name == title else (),
                )
        return public

    return enter


def explained(function: Callable, name: str) -> Callable:
    """`function`, saying what is wrong when it was given a list, an array or nothing in place of a tensor."""

    @functools.wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except AttributeError as error:
            if args and not isinstance(args[0], Tensor):
                got = type(args[0]).__name__
                raise ArgumentError(f"{name}: expected tensors, got {got}; make them with weft.tensor(...)") from None
            reword(error, name, args, kwargs)
            raise
        except Exception as error:
            again = rewritten(error, name, args, kwargs)
            if again is not None:
                return public(*again[0], **again[1])
            reword(error, name, args, kwargs)
            raise

    return public


def with_out(body: Callable, name: str, demand: bool | str = True) -> Callable:
    """`body` with an `out=` argument that receives the result."""

    @functools.wraps(body)
    def public(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        try:
            result = body(*args, **kwargs)
            if out is None:
                return result
            if demand is not True:
                _check_apart(out, args, name)
            if demand == "same" and out.dtype is not result.dtype:
                raise DtypeError(
                    f"{name}: expected out tensor to have dtype {result.dtype}, but got {out.dtype} instead"
                )
            return write_out(out, result, name)
        except Exception as error:
            again = rewritten(error, name, args, kwargs)
            if again is not None:
                return public(*again[0], out=out, **again[1])
            reword(error, name, args, kwargs)
            raise

    return public


def _check_apart(out: Any, args: Sequence[Any], name: str) -> None:
    """Refuse an `out=` tensor that lies in the memory of an input."""
    for arg in args:
        if isinstance(arg, (tuple, list)):
            _check_apart(out, arg, name)
        elif isinstance(arg, Tensor) and (arg is out or np.may_share_memory(out._window(), arg._window())):
            raise ShapeError(
                f"{name}: unsupported operation: some elements of the input tensor and the written-to tensor refer to "
                "a single memory location; please .clone() the tensor before performing the operation"
            )


def write_out(out: Any, result: Any, name: str) -> Any:
    """Put a result (or several) into the tensors given as `out=`, resizing empty ones."""
    if isinstance(result, tuple):
        return (
            type(result)(*(write_out(o, r, name) for o, r in zip(out, result, strict=True)))
            if hasattr(result, "_fields")
            else tuple(write_out(o, r, name) for o, r in zip(out, result, strict=True))
        )
    if not isinstance(out, Tensor):
        raise ArgumentError(f"{name}: out= must be a tensor, got {type(out).__name__}")
    if mode.grad is True and (out._needs_grad or result._needs_grad):
        raise AutogradError(
            f"{name}: functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad; leave out= away or use no_grad"
        )
    if not dtypes.can_cast(result.dtype, out.dtype):
        raise DtypeError(f"{name}: result type {result.dtype} can't be cast to the desired output type {out.dtype}")
    if mode.interpreter is not None:
        return write(out, result if result.dtype is out.dtype else result.to(out.dtype), name)
    if out.array.shape != result.array.shape:
        if out._base is None and out.array.size == 0:
            out.array = np.empty(result.array.shape, out.array.dtype)
        else:
            out.resize_(result.shape)
    np.copyto(out.array, result.array, casting="unsafe")
    out._bump()
    return out
