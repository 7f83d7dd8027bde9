"""Forward mode by hand, in PyTorch's names: tensors that carry a tangent within `dual_level`.

with weft.autograd.forward_ad.dual_level():
    x = make_dual(primal, tangent)
    value, derivative = unpack_dual(f(x))
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..errors import AutogradError, ShapeError
from ..ops.core.batching import same_memory
from ..tape.modes import NEVER, enable_grad, mode
from ..tape.tape import edge_of
from ..tensor import Tensor
from .forward import Pass, wanted, without

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A value and its derivative along the tangents given to `make_dual`; None: it does not depend on them."""

    primal: Tensor
    tangent: Tensor | None


class _Dual(Pass):
    """A forward pass that was started by `enter_dual_level`."""

    readable = True


def _level(name: str) -> _Dual:
    found = next((running for running in mode.forward if isinstance(running, _Dual)), None)
    if found is None:
        raise AutogradError(f"{name}: no dual level exists; make sure to enter_dual_level() first, or use dual_level()")
    return found


def enter_dual_level() -> int:
    """Start a level of forward mode; prefer `with dual_level():`. Only one can be open."""
    if any(isinstance(running, _Dual) for running in mode.forward):
        raise AutogradError(
            "enter_dual_level: nested forward mode AD is not supported here; use weft.func.jvp, which nests"
        )
    _Dual().__enter__()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level: its tensors keep their values and lose their tangents."""
    running = _level("exit_dual_level")
    if mode.forward[-1] is not running:
        raise AutogradError("exit_dual_level: a jvp that was started inside the level is still running")
    running.__exit__()
    running.close()


class dual_level:
    """`with dual_level():` tensors made by `make_dual`, and what is computed from them, carry tangents.

    >>> import weft
    >>> with dual_level():
    ...     x = make_dual(weft.tensor(3.0), weft.tensor(1.0))
    ...     unpack_dual(x * x).tangent
    tensor(6.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *_: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """The same memory as `tensor`, with a tangent."""
    running = _level("make_dual")
    for role, x in (("primal", tensor), ("tangent", tangent)):
        if not isinstance(x, Tensor) or not (x.is_floating_point() or x.is_complex()):
            kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise AutogradError(f"make_dual: expected the {role} to be a floating point or complex tensor, got {kind}")
    if tensor.shape != tangent.shape:
        raise ShapeError(
            f"make_dual: the tensor is of size {list(tensor.shape)} while the given tangent is of size "
            f"{list(tangent.shape)}; they must be equal"
        )
    if mode.grad and tensor.requires_grad:
        dual = same_memory(tensor)
    else:
        with enable_grad():
            dual = tensor.detach().requires_grad_()
        running.adopt(dual, None, False)
    running.start([dual], [tangent])
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """(value, tangent): the value without the tangent, and the tangent (None where there is none)."""
    running: Any = next((r for r in mode.forward if isinstance(r, _Dual)), None)
    tangent = None if running is None else running.of(tensor)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    if mode.forward == (running,) and wanted(edge_of(tensor)) == NEVER:
        return UnpackedDualTensor(tensor.detach(), tangent)
    with without(running):
        return UnpackedDualTensor(same_memory(tensor), tangent)
