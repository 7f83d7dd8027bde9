"""`torch.library`, `torch.ops`: operations of a program's own, called as Python, with the gradient that was given for them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import weft

from ...errors import ArgumentError, AutogradError, MissingNameError

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "impl",
    "impl_abstract",
    "ops",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "triton_op",
]

_known: dict[str, CustomOpDef] = {}


class CustomOpDef:
    """An operation 'space::name'. Its body is Python and may use NumPy; gradients pass through it by `register_autograd`.

    Under `weft.compile` a body that asks for values runs as Python between two native parts.
    """

    def __init__(self, name: str, body: Callable | None = None) -> None:
        if not isinstance(name, str) or name.count("::") != 1:
            raise ArgumentError(f"custom_op: expected a name such as 'mylib::sin', got {name!r}")
        self._qualname, self.body = name, body
        self.backward: Callable | None = None
        self.setup: Callable | None = None
        _known[name] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.body is None:
            raise ArgumentError(f"{self._qualname}: it was declared, and nothing was registered that computes it")
        values = self._in_order(args, kwargs)
        if any(isinstance(x, weft.Tensor) and x.requires_grad for x in values) and weft.is_grad_enabled():
            return _Differentiable.apply(self, *values)
        with weft.no_grad():
            return self.body(*values)

    def _in_order(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults filled in: formulas of gradients see them so."""
        bound = inspect.signature(self.body).bind(*args, **kwargs)
        bound.apply_defaults()
        return (*bound.args, *bound.kwargs.values())

    default = property(lambda self: self, doc="The overload that PyTorch calls `torch.ops.space.name.default`: itself.")

    def register_autograd(self, backward: Callable, /, *, setup_context: Callable | None = None) -> None:
        """`backward(ctx, *grads)` gives the gradient of each input; `setup_context(ctx, inputs, output)` keeps what it needs."""
        self.backward, self.setup = backward, setup_context

    def register_kernel(self, device_types: Any, func: Callable | None = None, /) -> Callable:
        """Another body for some devices: that of the CPU is taken."""
        kinds = [device_types] if isinstance(device_types, str) or device_types is None else list(device_types)

        def enter(body: Callable) -> Callable:
            if self.body is None or "cpu" in kinds:
                self.body = body
            return body

        return enter if func is None else enter(func)

    def register_fake(self, func: Callable, /) -> Callable:
        """Kept by nobody: what a result looks like is seen when it is computed."""
        return func

    register_vmap = register_torch_dispatch = register_fake


class _Differentiable(weft.autograd.Function):
    """A call that is recorded."""

    @staticmethod
    def forward(ctx: Any, op: CustomOpDef, *inputs: Any) -> Any:
        ctx.op = op
        output = op.body(*(x.detach() if isinstance(x, weft.Tensor) else x for x in inputs))
        if op.setup is not None:
            op.setup(ctx, inputs, output)
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if ctx.op.backward is None:
            raise AutogradError(
                f"{ctx.op._qualname}: there is no gradient for it; give one with register_autograd(backward, setup_context=…)"
            )
        found = ctx.op.backward(ctx, *grads)
        return (None, *(found if isinstance(found, tuple) else (found,)))


def custom_op(
    name: str,
    fn: Callable | None = None,
    /,
    *,
    mutates_args: str | Iterable[str] = (),
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make an operation of a function; as a decorator, or with the function as second argument."""
    return CustomOpDef(name, fn) if fn is not None else lambda fn: CustomOpDef(name, fn)


triton_op = custom_op


def _found(op: Any, create: bool = False) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    if op not in _known:
        if not create:
            raise MissingNameError("torch.ops", str(op).replace("::", "."))
        return CustomOpDef(op)
    return _known[op]


def register_autograd(
    op: Any, backward: Callable, /, *, setup_context: Callable | None = None, lib: Any = None
) -> None:
    """`CustomOpDef.register_autograd` of an operation or its name."""
    _found(op).register_autograd(backward, setup_context=setup_context)


def register_fake(op: Any, func: Callable | None = None, /, *, lib: Any = None, **options: Any) -> Any:
    """Changes nothing."""
    return func if func is not None else lambda func: func


impl_abstract = register_vmap = register_torch_dispatch = register_fake


def register_kernel(op: Any, device_types: Any, func: Callable | None = None, /, *, lib: Any = None) -> Any:
    """`CustomOpDef.register_kernel` of an operation or its name."""
    return _found(op).register_kernel(device_types, func)


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Declare an operation; `impl` says what computes it."""
    _found(qualname, create=True)


def impl(qualname: Any, types: Any = "cpu", func: Callable | None = None, *, lib: Any = None) -> Any:
    """What computes an operation on the CPU; other devices are left out."""
    if isinstance(qualname, Library):  # impl(library, name, kind), the older form
        return lambda body: qualname.impl(types, body, func or "CompositeExplicitAutograd")
    return _found(qualname, create=True).register_kernel(str(types).lower(), func)


class Library:
    """Operations of one space, declared and filled one by one."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind = ns, kind

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Declare 'name(Tensor x) -> Tensor'; its name."""
        name = schema.partition("(")[0].strip()
        _found(f"{self.ns}::{name}", create=True)
        return name

    def impl(self, op_name: Any, fn: Callable, dispatch_key: str = "", **options: Any) -> Callable:
        """What computes it; kinds of dispatch other than the CPU and composites are left out."""
        if dispatch_key in ("", "CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd"):
            name = op_name._qualname if isinstance(op_name, CustomOpDef) else f"{self.ns}::{op_name}"
            _found(name, create=True).body = fn
        return fn


class _Space:
    """`torch.ops.space`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> CustomOpDef:
        if f"{self._name}::{name}" not in _known:
            if self._name == "aten" and not name.startswith("__"):
                return Packet(name)  # type: ignore[return-value]
            raise MissingNameError(f"torch.ops.{self._name}", name)
        return _known[f"{self._name}::{name}"]


@functools.lru_cache(None)
class Packet:
    """`torch.ops.aten.add` and its overloads `.Tensor`, `.default`: names that are called as Weft's function of that name."""

    def __init__(self, name: str, overload: str = "") -> None:
        self.name, self.overload = name, overload

    def __getattr__(self, name: str) -> Packet:
        if name.startswith("_"):
            raise AttributeError(name)
        return Packet(self.name, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for home in (weft, weft.nn.functional, weft.Tensor):
            if hasattr(home, self.name):
                return getattr(home, self.name)(*args, **kwargs)
        raise MissingNameError("torch.ops.aten", self.name)

    def __repr__(self) -> str:
        return f"aten.{self.name}" + (f".{self.overload}" if self.overload else "")


class _Ops:
    """`torch.ops`: the operations that this program has made."""

    def __getattr__(self, name: str) -> _Space:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Space(name)

    def load_library(self, path: str) -> None:
        """Refused: such a library is compiled against PyTorch."""
        raise ArgumentError(
            f"ops.load_library: {path!r} is made for PyTorch's own library; write the operation in Python"
        )


ops = _Ops()
