"""The tensor: storage, shape, strides, offset, element type and device, over one NumPy array.

This file holds what a tensor *is*: its memory, its views, its place on the tape, and its borders
with Python, NumPy and other libraries. What can be *computed* with it lives in `ops/`, which adds
the methods when it registers the operations.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import dtype as dtypes
from .autograd import tape
from .device import CPU, device
from .dtype import dtype
from .errors import AutogradError, DtypeError, ShapeError
from .storage import Storage, owner_of

new = object.__new__
ndarray = np.ndarray


class Size(tuple):
    """The sizes of a tensor: a tuple that can count its elements."""

    __slots__ = ()

    def numel(self) -> int:
        count = 1
        for size in self:
            count *= size
        return count

    def __repr__(self) -> str:
        return f"weft.Size({list(self)})"

    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return Size(found) if isinstance(key, slice) else found

    def __add__(self, other: tuple) -> Size:
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: tuple) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(tuple(other), self))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Size, (tuple(self),))


class Tensor:
    """An n-dimensional array that remembers how it was made, so that it can be differentiated.

    Attributes of the engine: `array` is the NumPy array, `node` the recorded operation that made it
    (None for a leaf), `_needs_grad` whether it takes part in differentiation, `_base` the tensor
    that owns the memory when this is a view, `_counter` a one-element list with the number of
    in-place writes, shared by all views.
    """

    array: ndarray
    node: tape.Node | None = None
    _needs_grad = False
    _grad: Tensor | None = None
    _base: Tensor | None = None
    _views: list[Any] | None = None
    _counter: list[int] | None = None
    _hooks: dict[int, Callable] | None = None
    _post_hooks: dict[int, Callable] | None = None
    _interpreter: Any = None  # a transform (vmap, compile) that takes over operations on this tensor
    _retains = False
    _origin: str | None = None  # of a view: 'no_grad' or 'several' when recorded writes through it are refused
    _inference = False
    is_sparse = is_quantized = is_meta = is_cuda = False
    is_cpu = True
    layout = "strided"
    __array_priority__ = 1000

    def __new__(cls, *args: Any, **kwargs: Any) -> Tensor:
        """`Tensor(data)` or `Tensor(2, 3)`: PyTorch's old constructor; prefer `weft.tensor`."""
        from .ops.create import legacy_tensor

        made = legacy_tensor(*args, **kwargs)
        if cls is not Tensor:
            made = made._as_subclass(cls)
        return made

    # ------------------------------------------------------------------------------- geometry
    @property
    def shape(self) -> Size:
        return Size(self.array.shape)

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def dtype(self) -> dtype:
        return dtype.by_numpy[self.array.dtype]

    @property
    def device(self) -> device:
        return CPU

    @property
    def itemsize(self) -> int:
        return self.array.itemsize

    @property
    def nbytes(self) -> int:
        return self.array.size * self.array.itemsize

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[wrap_dim(dim, self.ndim, "size")]

    def dim(self) -> int:
        return self.ndim

    ndimension = dim

    def numel(self) -> int:
        return self.shape.numel()

    nelement = numel

    def element_size(self) -> int:
        return self.dtype.itemsize

    def stride(self, dim: int | None = None) -> Any:
        strides = tuple(s // self.array.itemsize for s in self.array.strides)
        return strides if dim is None else strides[wrap_dim(dim, self.ndim, "stride")]

    def storage_offset(self) -> int:
        return (self.data_ptr() - Storage(self).start) // self.array.itemsize if self.array.size else 0

    def _window(self) -> ndarray:
        """The array, for its sizes, strides and address only: never for its values."""
        return self.array

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return self.array.flags.c_contiguous

    def data_ptr(self) -> int:
        return self.array.__array_interface__["data"][0]

    def untyped_storage(self) -> Storage:
        """The memory that this tensor shares with its views."""
        return Storage(self)

    storage = untyped_storage

    def _is_view(self) -> bool:
        return self._base is not None

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        return self.dtype.is_signed

    def is_same_size(self, other: Tensor) -> bool:
        return self.shape == other.shape

    def is_set_to(self, tensor: Tensor) -> bool:
        """Whether both are the same window on the same memory."""
        return (self.data_ptr(), self.shape, self.stride()) == (tensor.data_ptr(), tensor.shape, tensor.stride())

    def is_conj(self) -> bool:
        return False

    is_neg = is_inference_view = is_conj

    def is_inference(self) -> bool:
        return self._inference

    def get_device(self) -> int:
        return -1

    # ------------------------------------------------------------------------ place on the tape
    @property
    def requires_grad(self) -> bool:
        return self._needs_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for gradients of this leaf (in place)."""
        if requires_grad and self.dtype.category < dtypes.FLOAT:
            raise AutogradError(
                f"requires_grad: only tensors of floating-point or complex type can require gradients, this is "
                f"{self.dtype}; convert it first, for example with .float()"
            )
        if self.node is not None and not requires_grad:
            raise AutogradError(
                "requires_grad: you can only change requires_grad flags of leaf tensors; use .detach() to get a "
                "tensor outside the graph"
            )
        if requires_grad and self._inference:
            raise AutogradError("requires_grad: a tensor made in inference_mode cannot require grad; .clone() it first")
        self._needs_grad = bool(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        return self.node is None

    @property
    def grad_fn(self) -> tape.Node | None:
        return self.node

    @property
    def output_nr(self) -> int:
        return self.node.index or 0 if self.node is not None else 0

    @property
    def retains_grad(self) -> bool:
        return self._retains

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient, or None. Set it to None (or zero it) between steps."""
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"grad: assigned a {type(value).__name__}; expected a Tensor or None")
            if value is self:
                raise AutogradError("grad: a tensor cannot be its own gradient")
            if value.shape != self.shape:
                raise ShapeError(f"grad: assigned shape {tuple(value.shape)}, the tensor has {tuple(self.shape)}")
            if value.dtype is not self.dtype:
                raise DtypeError(f"grad: assigned type {value.dtype}, the tensor has {self.dtype}")
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add d self / d leaf to `.grad` of every leaf that requires it."""
        tape.backward(self, gradient, retain_graph, create_graph, inputs)

    def register_hook(self, hook: Callable) -> tape.Handle:
        """Call `hook(grad)` whenever the gradient of this tensor is computed."""
        return tape.add_tensor_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable) -> tape.Handle:
        """Call `hook(self)` after `.grad` of this leaf was updated."""
        if not self.is_leaf or not self._needs_grad:
            raise AutogradError("register_post_accumulate_grad_hook: only for leaf tensors that require grad")
        if self._post_hooks is None:
            self._post_hooks = {}
        return tape.Handle(self._post_hooks, hook)

    def retain_grad(self) -> None:
        """Keep `.grad` of this intermediate result after backward."""
        if not self._needs_grad:
            raise AutogradError("retain_grad: this tensor has requires_grad=False")
        if self.node is None or self._retains:
            return
        self._retains = True
        if self.node.retained is None:
            self.node.retained = []
        self.node.retained.append(weakref.ref(self))

    def detach(self) -> Tensor:
        """The same memory outside the graph; it shares the count of in-place writes."""
        if self._interpreter is not None:
            return self._interpreter.detached(self)
        out = new(Tensor)
        out.array = self.array
        if self._counter is None:
            self._counter = [0]
        out._counter = self._counter
        return out

    def detach_(self) -> Tensor:
        """Forget how this tensor was made (in place)."""
        if self._base is not None:
            raise AutogradError("detach_: can't detach views in-place; use .detach()")
        self.node, self._needs_grad, self._retains = None, False, False
        return self

    @property
    def data(self) -> Tensor:
        """The same memory outside the graph; writes to it are not counted as in-place changes."""
        return wrap(self.array)

    @data.setter
    def data(self, value: Tensor) -> None:
        if value.dtype is not self.dtype and self._needs_grad and value.dtype.category < dtypes.FLOAT:
            raise DtypeError(f"data: a tensor that requires grad cannot hold {value.dtype}")
        self.array = value.array

    @property
    def _version(self) -> int:
        return self._counter[0] if self._counter is not None else 0

    # --------------------------------------------------------------------------- writing in place
    def _bump(self) -> None:
        """Count one in-place write; all views share the counter."""
        if self._counter is None:
            self._counter = [0]
        self._counter[0] += 1

    def _tracked(self, *others: Any) -> bool:
        """Whether a write of a function of `others` into this tensor must be recorded."""
        if not tape.mode.grad:
            return False
        root = self._base
        return (
            self._needs_grad
            or (root is not None and root._needs_grad)
            or any(isinstance(x, Tensor) and x._needs_grad for x in others)
        )

    def _check_writable(self, name: str) -> None:
        """Refuse in-place writes that would falsify gradients or touch several elements at once."""
        if tape.mode.grad and (self._base if self._base is not None else self)._is_grad_leaf():
            what = "a view of a leaf tensor" if self._base is not None else "a leaf tensor"
            raise AutogradError(
                f"{name}: {what} that requires grad is being used in an in-place operation; wrap the "
                "update in `with weft.no_grad():`, or work on a .clone()"
            )
        if not self.array.flags.writeable:
            raise AutogradError(
                f"{name}: this tensor's memory is read-only (it came from a read-only buffer); .clone() it first"
            )
        if (
            self.array.size
            and 0 in self.array.strides
            and any(stride == 0 and size > 1 for stride, size in zip(self.array.strides, self.array.shape, strict=True))
        ):
            raise ShapeError(
                f"{name}: unsupported operation: more than one element of the written-to tensor of shape "
                f"{tuple(self.shape)} refers to a single memory location; please .clone() the tensor first"
            )
        if self._inference and not tape.mode.inference and self._tracked():
            raise AutogradError(f"{name}: in-place update of an inference tensor outside inference_mode; .clone() it")

    def _is_grad_leaf(self) -> bool:
        return self._needs_grad and self.node is None

    # ------------------------------------------------------------------------------ small helpers
    def _filled(self, value: float) -> Tensor:
        """A tensor of this shape and type with one value, outside the graph."""
        if self._interpreter is not None:
            return self._interpreter.filled(self, value)
        return wrap(np.full(self.array.shape, value, self.array.dtype))

    def _copy(self) -> Tensor:
        """A contiguous copy outside the graph."""
        if self._interpreter is not None:
            return self._interpreter.copied(self)
        return wrap(np.array(self.array, order="C"))

    def _has_nan(self) -> bool:
        if self._interpreter is not None:
            return False
        kind = self.array.dtype.kind
        return kind in "fc" and bool(np.isnan(self.array).any())

    def _as_subclass(self, cls: type) -> Tensor:
        out = new(cls)
        out.__dict__.update(self.__dict__)
        return out

    as_subclass = _as_subclass

    # ------------------------------------------------------------------------------ out to Python
    def numpy(self, *, force: bool = False) -> ndarray:
        """The NumPy array that shares this tensor's memory."""
        if self._needs_grad and not force:
            raise AutogradError(
                "numpy: can't call numpy() on a tensor that requires grad; use tensor.detach().numpy() instead"
            )
        return self.array.view()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __array_wrap__(self, array: ndarray, context: Any = None, return_scalar: bool = False) -> Tensor:
        """What NumPy's functions make of tensors becomes a tensor again."""
        return wrap(array)

    def item(self) -> Any:
        """The only element as a Python number."""
        if self.array.size != 1:
            raise ShapeError(
                f"item: a tensor with {self.array.size} elements (shape {tuple(self.shape)}) cannot be converted to "
                "a Python number; use .tolist(), or reduce it first"
            )
        value = self.array.item()
        return float(value) if self.array.dtype.kind == "V" else value

    def tolist(self) -> Any:
        """Nested Python lists (a number for a 0-d tensor)."""
        array = self.array
        return (array.astype(np.float32) if array.dtype.kind == "V" else array).tolist()

    def __bool__(self) -> bool:
        if self.array.size != 1:
            raise ShapeError(
                f"bool: the truth value of a tensor of shape {tuple(self.shape)} is ambiguous; use .any() or .all()"
            )
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.dtype.category > dtypes.INTEGER or self.array.size != 1:
            raise TypeError(
                f"index: only integer tensors with a single element can be converted to an index, this is {self.dtype} "
                f"of shape {tuple(self.shape)}"
            )
        return int(self.item())

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len: a 0-d tensor has no length; use .numel()")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise TypeError("iter: a 0-d tensor cannot be iterated; use .item()")
        return iter(self.unbind(0))

    def __reversed__(self) -> Iterator[Tensor]:
        return iter(self.unbind(0)[::-1])

    def __contains__(self, element: Any) -> bool:
        """Whether any element equals the number or tensor (broadcast)."""
        if not isinstance(element, (Tensor, int, float, complex, np.generic)):
            raise DtypeError(
                f"__contains__: only supports a Tensor or a number, got {type(element).__name__}; compare explicitly"
            )
        return bool((self == element).any())

    def __hash__(self) -> int:
        return id(self)

    def __format__(self, spec: str) -> str:
        if self.ndim == 0 and self._interpreter is None:
            return format(self.item(), spec)
        if spec:
            raise TypeError(
                f"format: {spec!r} formats one number, this tensor has shape {tuple(self.shape)}; "
                "use .item(), or weft.set_printoptions"
            )
        return repr(self)

    def __repr__(self) -> str:
        from .show import tensor_repr

        if self._interpreter is not None:
            return self._interpreter.shown(self)
        node = self.node
        return tensor_repr(
            self.array,
            dtype_name=self.dtype.name,
            default_dtype_name=dtypes.get_default_dtype().name,
            requires_grad=self._needs_grad,
            grad_fn_name=None if node is None else node.name(),
            prefix=self._repr_prefix,
        )

    _repr_prefix = "tensor("

    def __reduce_ex__(self, protocol: int) -> tuple[Any, ...]:
        return (_rebuild, (type(self), np.array(self.array), self._needs_grad, self._user_attributes()))

    def __copy__(self) -> Tensor:
        """A new leaf over the same memory."""
        return _rebuild(type(self), self.array, self._needs_grad, self._user_attributes())

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) in memo:
            return memo[id(self)]
        if self.node is not None:
            raise AutogradError(
                "deepcopy: only leaf tensors (made by the user) can be deep-copied; use .detach().clone()"
            )
        import copy

        out = _rebuild(type(self), _copied_memory(self.array, memo), self._needs_grad, {})
        memo[id(self)] = out
        out._grad = copy.deepcopy(self._grad, memo)
        out.__dict__.update(copy.deepcopy(self._user_attributes(), memo))
        return out

    def _user_attributes(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in _ENGINE_ATTRIBUTES}

    # ------------------------------------------------------------------------------ DLPack, buffers
    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """Hand the memory to another library without copying (unless `copy=True`)."""
        from .ops.borders import exported

        if self._needs_grad:
            raise BufferError("__dlpack__: can't export a tensor that requires gradient; use tensor.detach()")
        return exported(self.array, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __buffer__(self, flags: int) -> memoryview:
        """The memory for `memoryview(tensor)`; Python asks for it from 3.12 on."""
        return memoryview(self.numpy())


Tensor.__module__ = Size.__module__ = "weft"  # where users find them: `type(x)` prints so

_ENGINE_ATTRIBUTES = frozenset(
    "array node _needs_grad _grad _base _views _counter _hooks _post_hooks _retains _inference _origin".split()
)


def _rebuild(cls: type, array: ndarray, needs_grad: bool, attributes: dict[str, Any]) -> Tensor:
    out = new(cls)
    out.array = array
    if needs_grad:
        out._needs_grad = True
    out.__dict__.update(attributes)
    return out


def _copied_memory(array: ndarray, memo: dict[int, Any]) -> ndarray:
    """A copy of `array` for `deepcopy`: arrays that share memory before it share memory after it."""
    owner = owner_of(array)
    copied = memo.get(id(owner))
    if copied is None:
        copied = memo[id(owner)] = np.copy(owner, order="K")
        memo.setdefault(id(memo), []).append(owner)  # copy's own way to keep what an id stands for alive
    flat = copied.ravel(order="K")
    if copied.strides != owner.strides or not np.may_share_memory(flat, copied) or not owner.flags.owndata:
        return np.copy(array, order="K")
    offset = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return ndarray(array.shape, array.dtype, flat.view(np.uint8), offset, array.strides)


def wrap(array: Any) -> Tensor:
    """A new leaf tensor over a NumPy array (shared, not copied)."""
    out = new(Tensor)
    out.array = array if array.__class__ is ndarray else np.asarray(array)
    if tape.mode.inference:
        out._inference = True
    return out


def link_view(view: Tensor, tensor: Tensor) -> None:
    """Make `view` a window on the memory of `tensor`: they share the write counter, and the owner of
    the memory can find the view again when a recorded in-place write changes its history."""
    root = tensor._base
    if root is None:
        root = tensor
    counter = root._counter
    if counter is None:
        counter = root._counter = [0]
    view._base, view._counter = root, counter
    views = root._views
    if views is None:
        root._views = [weakref.ref(view)]
        return
    count = len(views)
    if count >= 32 and count & (count - 1) == 0:  # at powers of two: forget the dead ones
        views[:] = [reference for reference in views if reference() is not None]
    views.append(weakref.ref(view))


def wrap_dim(dim: int, ndim: int, name: str) -> int:
    """A dimension number in 0…ndim−1 from one in −ndim…ndim−1 (0-d tensors act as if 1-d)."""
    from .errors import IndexRangeError

    count = max(ndim, 1)
    try:
        dim = dim.__index__()
    except AttributeError:
        raise TypeError(f"{name}: a dimension must be an integer, got {type(dim).__name__}") from None
    if not -count <= dim < count:
        raise IndexRangeError(
            f"{name}: Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {dim})"
        )
    return dim % count


def wrap_dims(dims: Any, ndim: int, name: str) -> tuple[int, ...]:
    """Several dimension numbers (an int, a sequence, or None for all), checked for repetition."""
    if dims is None:
        return tuple(range(ndim))
    if not isinstance(dims, (tuple, list)):
        dims = (dims,)
    found = tuple(wrap_dim(d, ndim, name) for d in dims)
    if len(set(found)) != len(found):
        repeated = next(d for d in found if found.count(d) > 1)
        raise ShapeError(f"{name}: dim {repeated} appears multiple times in the list of dims {tuple(dims)}")
    return found if ndim else ()
