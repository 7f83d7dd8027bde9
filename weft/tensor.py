"""The tensor: storage, shape, strides, offset, element type and device, over one NumPy array.

This file holds what a tensor *is*: its memory, its views, its place on the tape. `protocols.py` has what Python,
NumPy and other libraries ask of it. What can be *computed* with it lives in `ops/`, which adds the methods when
it registers the operations.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from . import dtypes
from .device import CPU, device
from .dtypes import dtype
from .errors import ArgumentError, AutogradError, DtypeError, ShapeError
from .protocols import Borders, _rebuild  # noqa: F401 (`_rebuild`: pickles of tensors may name it here)
from .refusal import need_flag
from .sizes import Size, own_dim
from .storage import Storage
from .tape import tape
from .tape.interpreter import Interpreter, interpreter_of
from .tape.modes import mode, switches

__all__ = ["ENGINE_ATTRIBUTES", "Tensor", "dtype", "link_view", "mark", "new", "wrap"]

new = object.__new__
ndarray = np.ndarray


class Tensor(Borders):
    """An n-dimensional array that remembers how it was made, so that it can be differentiated.

    Attributes of the engine: `array` is the NumPy array, `node` the recorded operation that made it
    (None for a leaf), `_needs_grad` whether it takes part in differentiation, `_base` the tensor
    that owns the memory when this is a view, `_counter` a one-element list with the number of
    in-place writes, shared by all views. The annotated ones below are all there are (`ENGINE_ATTRIBUTES`).
    """

    array: ndarray
    node: tape.Node | None = None
    _needs_grad: bool = False
    _grad: Tensor | None = None
    _base: Tensor | None = None
    _views: list[Any] | None = None
    _counter: list[int] | None = None
    _hooks: dict[int, Callable] | None = None
    _post_hooks: dict[int, Callable] | None = None
    _interpreter: Interpreter | None = None  # the transform (vmap) of which this tensor is a layer
    _tangents: dict[Any, Any] | None = None  # of a leaf that is a variable of forward mode (autograd/forward.py)
    _running: list[bool]  # of a variable of a transform: whether that is going on (autograd/transforms.py)
    _wanted: float = 0.0  # by which forward passes, as of a node of the tape
    _retains: bool = False
    _origin: str | None = None  # of a view: 'no_grad' or 'several' when recorded writes through it are refused
    _inference: bool = False
    is_sparse = is_quantized = is_meta = is_cuda = False
    is_cpu = True
    layout = "strided"
    __array_priority__ = 1000

    def __new__(cls, *args: Any, **kwargs: Any) -> Tensor:
        """`Tensor(data)` or `Tensor(2, 3)`: PyTorch's old constructor; prefer `weft.tensor`."""
        made = cls._from_sizes_or_data(*args, **kwargs)  # as most methods it comes with the operations
        if cls is not Tensor:
            made = made._as_subclass(cls)
        return made

    # ------------------------------------------------------------------------------- geometry
    @property
    def shape(self) -> Size:
        """The size of every dimension."""
        if switches.interpreting:
            _looked_at(self)
        return Size(self.array.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        if switches.interpreting:
            _looked_at(self)
        return self.array.ndim

    @property
    def dtype(self) -> dtype:
        """The element type, such as `weft.float32`."""
        if switches.interpreting:
            _looked_at(self)
        return dtype.by_numpy[self.array.dtype]

    @property
    def device(self) -> device:
        """Where the memory lies."""
        return CPU

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._window().itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._window().nbytes

    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> Any:
        """The size of one dimension, or of all (`shape`)."""
        return self.shape if dim is None else self.shape[own_dim(dim, self.ndim, "size")]

    def dim(self) -> int:
        """The number of dimensions."""
        return self.ndim

    ndimension = dim

    def numel(self) -> int:
        """The number of elements."""
        return self.shape.numel()

    nelement = numel

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @overload
    def stride(self, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int) -> int: ...
    def stride(self, dim: int | None = None) -> Any:
        """How many elements of memory lie between neighbours along one dimension, or along each."""
        window = self._window()
        strides = tuple(s // window.itemsize for s in window.strides)
        return strides if dim is None else strides[own_dim(dim, self.ndim, "stride")]

    def storage_offset(self) -> int:
        """At which element of the memory this tensor begins."""
        window = self._window()
        return (self.data_ptr() - Storage(self).start) // window.itemsize if window.size else 0

    def _window(self) -> ndarray:
        """The array, for its sizes, strides and address only: never for its values."""
        if switches.interpreting and mode.interpreter is not None:
            return mode.interpreter.window(self)
        return self.array

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in memory without gaps, the last dimension first."""
        if switches.interpreting:
            _looked_at(self)
        return self.array.flags.c_contiguous

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._window().__array_interface__["data"][0]

    def untyped_storage(self) -> Storage:
        """The memory that this tensor shares with its views."""
        return Storage(self)

    storage = untyped_storage

    def _is_view(self) -> bool:
        return self._base is not None

    def is_floating_point(self) -> bool:
        """Whether the elements are floating-point numbers."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the elements are complex numbers."""
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the elements may be negative."""
        return self.dtype.is_signed

    def is_same_size(self, other: Tensor) -> bool:
        """Whether both have the same shape."""
        if not isinstance(other, Tensor):
            raise ArgumentError(f"is_same_size: expected a tensor, got {type(other).__name__}")
        return self.shape == other.shape

    def is_set_to(self, tensor: Tensor) -> bool:
        """Whether both are the same window on the same memory."""
        if not isinstance(tensor, Tensor):
            raise ArgumentError(f"is_set_to: expected a tensor, got {type(tensor).__name__}")
        return (self.data_ptr(), self.shape, self.stride()) == (tensor.data_ptr(), tensor.shape, tensor.stride())

    def is_conj(self) -> bool:
        """False: conjugation, signs and views of inference are computed at once, never left pending."""
        return False

    is_neg = is_inference_view = is_conj

    def is_inference(self) -> bool:
        """Whether this tensor was made in `inference_mode`."""
        return self._inference

    def get_device(self) -> int:
        """−1: the number of no graphics card."""
        return -1

    # ------------------------------------------------------------------------ place on the tape
    @property
    def requires_grad(self) -> bool:
        """Whether gradients with respect to this tensor are wanted."""
        return self._needs_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for gradients of this leaf (in place)."""
        requires_grad = need_flag(requires_grad, "requires_grad_", "requires_grad")
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
        if requires_grad and mode.forward:  # of a variable of forward mode: from here on gradients are wanted, too
            edge, inside = tape.edge_of(self), float(len(mode.forward))
            edge._wanted = min(edge._wanted, inside) if self._needs_grad else inside
        _change(self, "_needs_grad")
        self._needs_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor."""
        return self.node is None

    @property
    def grad_fn(self) -> tape.Node | None:
        """The recorded operation that made this tensor; None for a leaf."""
        return self.node

    @property
    def output_nr(self) -> int:
        """Which result of that operation this tensor is."""
        return self.node.index or 0 if self.node is not None else 0

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was asked for."""
        return self._retains

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient, or None. Set it to None (or zero it) between steps."""
        if switches.interpreting and mode.interpreter is not None:
            mode.interpreter.read_grad(self)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise ArgumentError(f"grad: assigned a {type(value).__name__}; expected a Tensor or None")
            if value is self:
                raise AutogradError("grad: a tensor cannot be its own gradient")
            if value.shape != self.shape:
                raise ShapeError(f"grad: assigned shape {tuple(value.shape)}, the tensor has {tuple(self.shape)}")
            if value.dtype is not self.dtype:
                raise DtypeError(f"grad: assigned type {value.dtype}, the tensor has {self.dtype}")
        _change(self, "_grad")
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        _change(self, "_grad")
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
            _change(self, "_post_hooks")
            self._post_hooks = {}
        return tape.Handle(self._post_hooks, hook)

    def retain_grad(self) -> None:
        """Keep `.grad` of this intermediate result after backward."""
        if not self._needs_grad:
            raise AutogradError("retain_grad: this tensor has requires_grad=False")
        tape.told_of([self])
        if self.node is None or self._retains:
            return
        self._retains = True
        self.node.retain(weakref.ref(self))

    def detach(self) -> Tensor:
        """The same memory outside the graph; it shares the count of in-place writes."""
        if self._interpreter is not None or switches.interpreting:
            interpreter = interpreter_of(self)
            if interpreter is not None:
                return interpreter.detached(self)
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
        for name in ("node", "_needs_grad", "_retains"):
            _change(self, name)
        self.node, self._needs_grad, self._retains = None, False, False
        return self

    @property
    def data(self) -> Tensor:
        """The same memory outside the graph; writes to it are not counted as in-place changes."""
        if switches.interpreting and mode.interpreter is not None:
            return mode.interpreter.data_of(self)
        return wrap(self.array)

    @data.setter
    def data(self, value: Tensor) -> None:
        if value.dtype is not self.dtype and self._needs_grad and value.dtype.category < dtypes.FLOAT:
            raise DtypeError(f"data: a tensor that requires grad cannot hold {value.dtype}")
        if switches.interpreting and mode.interpreter is not None:
            mode.interpreter.set_data(self, value)
        else:
            self.array = value.array

    @property
    def _version(self) -> int:
        return self._counter[0] if self._counter is not None else 0

    # --------------------------------------------------------------------------- writing in place
    def _bump(self) -> None:
        """Count one in-place write; all views share the counter."""
        counter = self._counter
        if counter is None:
            counter = self._counter = [0]
        elif switches.interpreting and mode.interpreter is not None:
            mode.interpreter.counting(counter)
        counter[0] += 1

    def _tracked(self, *others: Any) -> bool:
        """Whether a write of a function of `others` into this tensor must be recorded."""
        if not mode.grad:
            return False
        root = self._base
        return (
            self._needs_grad
            or (root is not None and root._needs_grad)
            or any(isinstance(x, Tensor) and x._needs_grad for x in others)
        )

    def _check_writable(self, name: str) -> None:
        """Refuse in-place writes that would falsify gradients or touch several elements at once."""
        if mode.grad is True and (self._base if self._base is not None else self)._is_grad_leaf():
            what = "a view of a leaf tensor" if self._base is not None else "a leaf tensor"
            raise AutogradError(
                f"{name}: {what} that requires grad is being used in an in-place operation; wrap the "
                "update in `with weft.no_grad():`, or work on a .clone()"
            )
        array = self.array
        if not array.flags.writeable:
            raise AutogradError(
                f"{name}: this tensor's memory is read-only (it came from a read-only buffer); .clone() it first"
            )
        if (
            0 in array.strides
            and array.size
            and any(stride == 0 and size > 1 for stride, size in zip(array.strides, array.shape, strict=True))
        ):
            raise ShapeError(
                f"{name}: unsupported operation: more than one element of the written-to tensor of shape "
                f"{tuple(self.shape)} refers to a single memory location; please .clone() the tensor first"
            )
        if self._inference and not mode.inference and self._tracked():
            raise AutogradError(f"{name}: in-place update of an inference tensor outside inference_mode; .clone() it")

    def _is_grad_leaf(self) -> bool:
        return self._needs_grad and self.node is None

    # ------------------------------------------------------------------------------ small helpers
    def _filled(self, value: float) -> Tensor:
        """A tensor of this shape and type with one value, outside the graph."""
        interpreter = interpreter_of(self)
        if interpreter is not None:
            return interpreter.filled(self, value)
        return wrap(np.full(self.array.shape, value, self.array.dtype))

    def _copy(self) -> Tensor:
        """A contiguous copy outside the graph."""
        interpreter = interpreter_of(self)
        if interpreter is not None:
            return interpreter.copied(self)
        return wrap(np.array(self.array, order="C"))

    def _has_nan(self) -> bool:
        if interpreter_of(self) is not None:
            return False
        kind = self.array.dtype.kind
        return kind in "fc" and bool(np.isnan(self.array).any())

    def _as_subclass(self, cls: type) -> Tensor:
        """The same memory and history as an object of a subclass."""
        if not (isinstance(cls, type) and issubclass(cls, Tensor)):
            raise ArgumentError(f"as_subclass: expected a subclass of Tensor, got {cls!r}")
        out = new(cls)
        out.__dict__.update(self.__dict__)
        return out

    as_subclass = _as_subclass


Tensor.__module__ = "weft"  # where users find it: `type(x)` prints so


# What is not a user's: neither copied nor pickled with a tensor, and put back after a trace.
ENGINE_ATTRIBUTES = frozenset(Tensor.__annotations__)


def wrap(array: Any) -> Tensor:
    """A new leaf tensor over a NumPy array (shared, not copied)."""
    out = new(Tensor)
    out.array = array if array.__class__ is ndarray else np.asarray(array)
    if switches.inferring or switches.interpreting:
        mark(out)
    return out


def mark(made: Tensor) -> None:
    """A tensor was made over a plain array: inference mode, or what stands over this thread, leaves its mark on it."""
    if mode.inference:
        made._inference = True
    if mode.interpreter is not None:
        mode.interpreter.made(made)


def _looked_at(x: Tensor) -> None:
    """Sizes, strides or type of a tensor are looked at while an interpreter stands over some thread."""
    if mode.interpreter is not None:
        mode.interpreter.window(x)


def _change(x: Tensor, name: str) -> None:
    """An attribute of a tensor is about to be assigned."""
    if switches.interpreting and mode.interpreter is not None:
        mode.interpreter.changing(x, name)


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
