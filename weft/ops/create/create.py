"""New tensors: from data, filled with one value, or like another.

`constructor` gives every function the options PyTorch's constructors share (dtype, device, layout,
requires_grad, pin_memory, out), so that the functions themselves only say which array they make.
Counted sequences (arange, linspace…) are in `ranges.py`, memory from elsewhere in `borders.py`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...device import device as device_type
from ...device import usable
from ...dtypes import COMPLEX, FLOAT, INTEGER, DtypeLike
from ...dtypes import dtype as dtype_type
from ...errors import ArgumentError, AutogradError, DtypeError, NumberRangeError, ShapeError
from ...sizes import Size
from ...tape.modes import mode
from ...tensor import Tensor, wrap
from ..core.operands import is_number, kept_empty, known_array, python_int
from ..core.primitive import operation, write_out
from ..math.elementwise import CAST
from ..shape.join import stack
from ..shape.reshape import sizes_from

__all__ = [
    "array_from",
    "check_layout",
    "constructor",
    "full",
    "kind_of",
    "legacy_tensor",
    "made",
    "sequence_shape",
    "shape_from",
    "tensor",
]

# ------------------------------------------------------------------------------------- from data


def array_from(data: Any, dtype: dtype_type | None, name: str = "tensor") -> np.ndarray:
    """A NumPy array from numbers, nested sequences, arrays or tensors; shared with `data` if possible."""
    if isinstance(data, Tensor):
        array = known_array(data, name)
    elif isinstance(data, (np.ndarray, np.generic)) or _is_foreign_array(data):
        array = np.asarray(data)
    else:
        array = _array_from_python(data, dtype, name)
        return array if dtype is None else _checked_cast(array, dtype, name)
    kind = dtypes.from_numpy_dtype(array.dtype) if dtype is None else dtype
    return array if array.dtype == kind.np else _plain_cast(array, kind)


def _is_foreign_array(data: Any) -> bool:
    return not isinstance(data, (list, tuple)) and any(
        hasattr(data, name) for name in ("__array__", "__array_interface__", "__dlpack__")
    )


def _leaf_types(data: Any) -> set[type]:
    """The Python types at the bottom of nested sequences."""
    if not isinstance(data, (list, tuple, range)):
        return {type(data)}
    found = set(map(type, data))
    nested = {t for t in found if issubclass(t, (list, tuple, range))}
    if nested:
        inner = (_leaf_types(row) for row in data if type(row) in nested)
        found = (found - nested).union(*inner)
    return found


_NUMBERS = {bool, int, float, complex}


def _array_from_python(data: Any, dtype: dtype_type | None, name: str) -> np.ndarray:
    """Nested Python sequences as an array: floats in the default type, integers in int64."""
    types = _leaf_types(data)
    kind = None if dtype is not None else _common_kind(data, types)
    if types and types <= {bool, int} and (dtype is None or dtype is dtypes.uint64):
        kind = kind or dtype
    values = data if types <= _NUMBERS else _unwrapped(data, name)
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, None if kind is None else kind.np)
    except OverflowError:
        raise ShapeError(f"{name}: overflow: an integer in the data does not fit into int64") from None
    except (ValueError, TypeError):
        if any(t in (str, bytes, type(None), dict, set) for t in types):
            raise _not_numbers(data, name) from None
        raise ShapeError(
            f"{name}: expected a sequence of equal lengths at every depth, got {data!r:.60}; pad the shorter rows"
        ) from None
    if array.dtype not in dtype_type.by_numpy:
        raise _not_numbers(data, name)
    return array.astype(np.int64) if isinstance(data, (bytearray, memoryview)) else array


def _common_kind(data: Any, types: set[type]) -> dtype_type | None:
    """The element type of nested sequences by PyTorch's promotion; None leaves it to NumPy."""
    if types <= _NUMBERS:
        if complex in types:
            return dtypes.default_complex()
        if float in types or not types:
            return dtypes.get_default_dtype()
        return dtypes.int64 if int in types else None
    found = None
    for leaf in _leaves(data):
        if isinstance(leaf, (Tensor, np.ndarray, np.generic)):
            kind = leaf.dtype if isinstance(leaf, Tensor) else dtype_type.by_numpy.get(leaf.dtype)
        else:
            kind = dtypes.scalar_dtype(leaf) if is_number(leaf) else None
        if kind is None:
            return None
        found = kind if found is None else dtypes.promote_types(found, kind)
    return found


def _leaves(data: Any) -> Iterator[Any]:
    if isinstance(data, (list, tuple, range)):
        for row in data:
            yield from _leaves(row)
    else:
        yield data


def _not_numbers(data: Any, name: str) -> DtypeError:
    return DtypeError(f"{name}: cannot make a tensor from {type(data).__name__} {data!r:.60}; give numbers")


def _unwrapped(data: Any, name: str) -> Any:
    """Tensors inside sequences as NumPy scalars of their own type; only one-element ones are numbers."""
    if isinstance(data, Tensor):
        if data.numel() != 1:
            raise ShapeError(
                f"{name}: only one element tensors can be converted to Python scalars, got one of shape "
                f"{tuple(data.shape)} inside a sequence; use weft.stack"
            )
        return known_array(data, name).reshape(())[()]
    return [_unwrapped(v, name) for v in data] if isinstance(data, (list, tuple, range)) else data


def _plain_cast(array: np.ndarray, kind: dtype_type) -> np.ndarray:
    """As `Tensor.to`: values that do not fit wrap around."""
    return CAST.reference(array, to=kind)


def _checked_cast(array: np.ndarray, kind: dtype_type, name: str) -> np.ndarray:
    """For numbers written in Python: what does not fit is refused."""
    if array.dtype == kind.np:
        return array
    if array.dtype.kind == "c" and kind.category < COMPLEX and np.any(array.imag):
        raise DtypeError(f"{name}: must be real number, not complex: {kind} cannot hold an imaginary part")
    if kind.category == INTEGER and array.size:
        top = dtypes.iinfo(kind).max
        bottom = dtypes.iinfo(kind).min or -top  # negative numbers wrap into unsigned types, as in PyTorch
        bad = ~((array.real >= bottom) & (array.real <= top))
        if bad.any():
            raise DtypeError(
                f"{name}: value {array[bad].flat[0]} cannot be converted to type {kind.name} without overflow"
            )
    with np.errstate(over="ignore"):
        return _plain_cast(array, kind)


def checked_number(value: Any, kind: dtype_type, name: str) -> np.ndarray:
    """One number as a 0-d array of a type, or an error when the type cannot hold it."""
    if isinstance(value, Tensor):
        value = value.item()
    if not is_number(value):
        raise ArgumentError(f"{name}: expected a number, got {type(value).__name__} {value!r:.40}")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise NumberRangeError(f"{name}: {value} is too large for any element type")
    array = _checked_cast(np.asarray(value), kind, name)
    if kind.category == FLOAT and np.isinf(array) and not np.isinf(np.asarray(value).real):
        raise DtypeError(f"{name}: value {value} cannot be converted to type {kind.name} without overflow")
    return array


@operation(method=False)
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A new leaf tensor with a copy of the data."""
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    if mode.interpreter is not None and any(
        isinstance(x, Tensor) or mode.interpreter.is_number(x) for x in _leaves(data)
    ):
        out = _stacked(data, kind or _common_kind(data, _leaf_types(data)))
        return out.requires_grad_() if requires_grad else out
    return made(np.array(array_from(data, kind), order="K"), requires_grad, device)


def _stacked(data: Any, kind: dtype_type) -> Tensor:
    """Nested sequences of tensors and numbers, in tensor operations."""
    if isinstance(data, (list, tuple)):
        return stack([_stacked(x, kind) for x in data])
    if mode.interpreter.is_number(data):
        data = mode.interpreter.operand(data)
    return data.detach().clone().to(kind) if isinstance(data, Tensor) else wrap(np.asarray(data, kind.np))


def legacy_tensor(*args: Any, dtype: Any = None, device: Any = None, **_: Any) -> Tensor:
    """`Tensor()`, `Tensor(2, 3)` (uninitialised sizes) or `Tensor(data)`, always in the default type."""
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if not args:
        return wrap(np.empty((0,), kind.np))
    if all(isinstance(a, (int, np.integer)) and not isinstance(a, bool) for a in args):
        return wrap(np.zeros(shape_from(args, "Tensor"), kind.np))
    if len(args) > 1:
        raise ArgumentError(f"Tensor: expected sizes or one sequence of data, got {len(args)} arguments")
    (data,) = args
    if isinstance(data, Tensor):
        return data.detach()
    if isinstance(data, Size):
        return wrap(np.zeros(data, kind.np))
    if is_number(data):
        raise ArgumentError(f"Tensor: data must be a sequence (got {type(data).__name__}); use weft.tensor({data})")
    return tensor(data, dtype=kind)


Tensor._from_sizes_or_data = staticmethod(legacy_tensor)


# ------------------------------------------------------------------ the options all constructors take


def shape_from(size: tuple[Any, ...], name: str) -> tuple[int, ...]:
    """Sizes given as integers or as one sequence; negative ones are refused."""
    if any(isinstance(s, bool) for s in size):
        raise ArgumentError(f"{name}: sizes must be integers, got {size}")
    shape = sizes_from(size, name)
    if any(s < 0 for s in shape):
        raise ShapeError(f"{name}: Trying to create tensor with negative dimension in {list(shape)}")
    return shape


def sequence_shape(size: Any, name: str) -> tuple[int, ...]:
    """Sizes that must come as one sequence."""
    if not isinstance(size, (tuple, list)):
        raise ArgumentError(f"{name}: argument 'size' must be a tuple of ints, got {type(size).__name__}")
    return shape_from((tuple(size),), name)


def made(array: np.ndarray, requires_grad: bool, device: Any = None) -> Tensor:
    """A new leaf with the options every constructor takes."""
    if device is not None:
        usable(device)
    out = wrap(array)
    return out.requires_grad_() if requires_grad else out


def kind_of(dtype: Any) -> dtype_type:
    return dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)


def constructor(body: Callable[..., Any]) -> Callable[..., Tensor]:
    """Publish a function that makes an array (or tensor) under the options of PyTorch's constructors.

    `body(…, dtype)` gets the element type asked for, that of `out`, or None. Sizes taken as `*size` may
    also come as the keyword `size`.
    """
    name = body.__name__
    varargs = inspect.getfullargspec(body).varargs == "size"

    def public(
        *args: Any,
        dtype: DtypeLike | None = None,
        layout: str | None = None,
        device: device_type | str | None = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        out: Tensor | None = None,
        **named: Any,
    ) -> Tensor:
        if varargs:
            args = _sizes(args, named, name)
        check_layout(layout, name)
        kind = None if dtype is None else dtypes.as_dtype(dtype)
        if out is not None:
            kind = _kind_with_out(kind, out, name)
        result = body(*args, dtype=kind, **named)
        result = result if isinstance(result, Tensor) else made(result, False, device)
        if out is not None:
            result = write_out(out, result, name)
        return result.requires_grad_() if requires_grad else result

    options = inspect.signature(public)
    functools.update_wrapper(public, body)
    public.__signature__ = _with_options(inspect.signature(body), options)
    return operation(name, method=False, differentiable=False, kind="constructor")(public)


def _with_options(body: inspect.Signature, options: inspect.Signature) -> inspect.Signature:
    own = [p for p in body.parameters.values() if p.name != "dtype"]
    shared = [p for p in options.parameters.values() if p.kind is p.KEYWORD_ONLY]
    return inspect.Signature(sorted(own + shared, key=lambda p: p.kind), return_annotation=Tensor)


def _sizes(args: tuple[Any, ...], named: dict[str, Any], name: str) -> tuple[Any, ...]:
    if "size" in named:
        if args:
            raise ArgumentError(f"{name}: got multiple values for argument 'size'")
        return (tuple(named.pop("size")),)
    if not args:
        raise ArgumentError(f"{name}: missing the sizes; write {name}(2, 3), or {name}(()) for a 0-d tensor")
    return args


def check_layout(layout: Any, name: str) -> None:
    """Only strided memory can be asked for here."""
    if layout is not None and str(layout).rpartition(".")[2] != "strided":
        raise ArgumentError(f"{name}: layout must be weft.strided, got {layout!r}; for sparse tensors use .to_sparse()")


def _kind_with_out(kind: dtype_type | None, out: Tensor, name: str) -> dtype_type:
    if not isinstance(out, Tensor):
        raise ArgumentError(f"{name}: out= must be a tensor, got {type(out).__name__}")
    if kind is not None and kind is not out.dtype:
        raise DtypeError(f"{name}: dtype {kind} does not match dtype of out parameter ({out.dtype}); leave one away")
    if out.requires_grad:
        raise AutogradError(
            f"{name}: functions with out=... arguments don't support automatic differentiation, but out requires grad"
        )
    return out.dtype


# --------------------------------------------------------------------------------------- one value


@constructor
def zeros(*size: int | Sequence[int], dtype: Any) -> np.ndarray:
    """A tensor filled with 0."""
    return np.zeros(shape_from(size, "zeros"), kind_of(dtype).np)


@constructor
def ones(*size: int | Sequence[int], dtype: Any) -> np.ndarray:
    """A tensor filled with 1."""
    return np.ones(shape_from(size, "ones"), kind_of(dtype).np)


@constructor
def empty(*size: int | Sequence[int], dtype: Any, memory_format: Any = None) -> np.ndarray:
    """A tensor whose elements are whatever the memory held."""
    return np.empty(shape_from(size, "empty"), kind_of(dtype).np)


@constructor
def full(size: Any, fill_value: Any, *, dtype: Any) -> np.ndarray:
    """A tensor filled with one number; without dtype, the type follows the number."""
    kind = _kind_of_number(fill_value) if dtype is None else dtype
    return np.full(sequence_shape(size, "full"), checked_number(fill_value, kind, "full"), kind.np)


def _kind_of_number(value: Any) -> dtype_type:
    if isinstance(value, Tensor):
        value = value.item()
    if not is_number(value):
        raise ArgumentError(f"full: argument 'fill_value' must be a number, got {type(value).__name__}")
    if isinstance(value, (bool, np.bool_)):
        return dtypes.bool_
    if isinstance(value, (int, np.integer)):
        return dtypes.int64
    return dtypes.default_complex() if isinstance(value, complex) else dtypes.get_default_dtype()


@constructor
def scalar_tensor(s: Any, *, dtype: Any) -> np.ndarray:
    """A 0-d tensor of a number, in the default float unless dtype is given."""
    return checked_number(s, kind_of(dtype), "scalar_tensor").copy()


@constructor
def empty_strided(size: Any, stride: Any, *, dtype: Any) -> np.ndarray:
    """Uninitialised elements at given strides, in just as much memory as they need."""
    return strided_array(sequence_shape(size, "empty_strided"), tuple(stride), kind_of(dtype), "empty_strided")


def strided_array(shape: tuple[int, ...], stride: tuple[int, ...], kind: dtype_type, name: str) -> np.ndarray:
    """An uninitialised array with strides counted in elements."""
    if len(shape) != len(stride):
        raise ShapeError(
            f"{name}: dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(stride)})"
        )
    if any(s < 0 for s in stride):
        raise ShapeError(f"{name}: strides must not be negative, got {list(stride)}")
    count = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
    steps = tuple(s * kind.itemsize for s in stride)
    return np.ndarray(shape, kind.np, np.empty(max(count, 1), kind.np), 0, steps)


@constructor
def empty_permuted(size: Any, physical_layout: Any, *, dtype: Any) -> np.ndarray:
    """Uninitialised elements whose dimensions lie in memory in the order `physical_layout`."""
    shape = sequence_shape(size, "empty_permuted")
    order = tuple(python_int(d, "empty_permuted") for d in physical_layout)
    if sorted(order) != list(range(len(shape))):
        raise ShapeError(
            f"empty_permuted: physical_layout must name each dimension of size {list(shape)} once, got {list(order)}"
        )
    packed = np.empty([shape[d] for d in order], kind_of(dtype).np)
    return packed.transpose(np.argsort(order)) if order else packed


# ---------------------------------------------------------------------------------- like another


def like(
    input: Tensor,
    value: Any,
    name: str,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of the sizes, type and order in memory of `input`, filled with `value` (None: not filled)."""
    if not isinstance(input, Tensor):
        raise ArgumentError(f"{name}: argument 'input' must be a Tensor, got {type(input).__name__}")
    check_layout(layout, name)
    kind = input.dtype if dtype is None else dtypes.as_dtype(dtype)
    if input._interpreter is not None:
        return input._filled(0 if value is None else value).to(kind)
    window, in_order = input._window(), str(memory_format).endswith("contiguous_format")
    array = np.empty(window.shape, kind.np) if in_order else kept_empty(window, kind.np)
    if mode.interpreter is not None and mode.interpreter.is_number(value):
        return made(array, requires_grad, device).fill_(value)
    if value is not None:
        array.fill(checked_number(value, kind, name)[()])
    return made(array, requires_grad, device)


@operation(method=False, differentiable=False)
def zeros_like(input: Tensor, **options: Any) -> Tensor:
    """0 in the sizes and type of `input`. Options: dtype, layout, device, requires_grad, memory_format."""
    return like(input, 0, "zeros_like", **options)


@operation(method=False, differentiable=False)
def ones_like(input: Tensor, **options: Any) -> Tensor:
    """1 in the sizes and type of `input`. Options: dtype, layout, device, requires_grad, memory_format."""
    return like(input, 1, "ones_like", **options)


@operation(method=False, differentiable=False)
def empty_like(input: Tensor, **options: Any) -> Tensor:
    """Uninitialised, in the sizes and type of `input`. Options: dtype, layout, device, requires_grad, memory_format."""
    return like(input, None, "empty_like", **options)


@operation(method=False, differentiable=False)
def full_like(input: Tensor, fill_value: Any, **options: Any) -> Tensor:
    """One number in the sizes and type of `input`. Options: dtype, layout, device, requires_grad, memory_format."""
    return like(input, fill_value, "full_like", **options)


def _new_method(name: str, function: Callable) -> None:
    def method(self: Tensor, *args: Any, dtype: Any = None, **options: Any) -> Tensor:
        return function(*args, dtype=self.dtype if dtype is None else dtype, **options)

    method.__doc__ = f"`weft.{name.removeprefix('new_')}` in the type of this tensor."
    method.__name__ = method.__qualname__ = name
    operation(name, function=False, differentiable=False)(method)


for _name, _function in dict(zeros=zeros, ones=ones, empty=empty, full=full, empty_strided=empty_strided).items():
    _new_method(f"new_{_name}", _function)


@operation(function=False)
def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **_: Any
) -> Tensor:
    """A new leaf with a copy of the data, in the type of this tensor."""
    return tensor(data, dtype=self.dtype if dtype is None else dtype, device=device, requires_grad=requires_grad)


@operation(function=False)
def new(self: Tensor, *args: Any) -> Tensor:
    """PyTorch's old `x.new(sizes or data)`: a tensor of this type."""
    return legacy_tensor(*args, dtype=self.dtype)
