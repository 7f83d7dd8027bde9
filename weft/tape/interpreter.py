"""Who takes operations over from NumPy: a running `vmap`, a trace, and whatever else will stand there.

`Interpreter` says what every one of them must answer; `chosen` picks the one in charge of an operation. Tensors of a
`LayerInterpreter` say so themselves; a `ThreadInterpreter` stands over everything that its thread does (`mode.interpreter`),
so it is also told at the doors of tensors, modules, generators and optimisers what happens there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .modes import mode, switches

if TYPE_CHECKING:
    import numpy as np

    from ..tensor import Tensor

__all__ = ["Interpreter", "LayerInterpreter", "ThreadInterpreter", "chosen", "interpreter_of"]


class Interpreter(ABC):
    """Takes over operations on its tensors. `level`: of several, the one with the highest is asked first."""

    level: int

    @abstractmethod
    def apply(self, primitive: Any, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        """The result of a primitive on tensors, of which at least one is this interpreter's, and numbers."""

    @abstractmethod
    def write(self, target: Tensor, value: Tensor, name: str) -> Tensor:
        """Copy `value` into the memory of `target`, on behalf of the operation `name`."""

    @abstractmethod
    def renewed(self, x: Tensor) -> Tensor:
        """The value and history of x apart from its memory, so that x itself can be written to."""

    @abstractmethod
    def filled(self, x: Tensor, value: float) -> Tensor:
        """A tensor of the shape and type of x with one value, outside the graph."""

    @abstractmethod
    def copied(self, x: Tensor) -> Tensor:
        """A copy of x outside the graph."""

    @abstractmethod
    def detached(self, x: Tensor) -> Tensor:
        """The same memory outside the graph."""

    @abstractmethod
    def shown(self, x: Tensor) -> str:
        """x in words: its values may not be known."""


class LayerInterpreter(Interpreter):
    """Its tensors are layers around plain ones, which are what the tape sees."""

    @abstractmethod
    def resized(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """The same elements in other sizes."""

    @abstractmethod
    def physical(self, x: Tensor) -> Tensor:
        """The plain tensor under x."""

    @abstractmethod
    def lowered(self, x: Tensor, g: Tensor) -> Tensor:
        """A gradient of x laid out as the plain tensor under x."""

    @abstractmethod
    def lifted(self, x: Tensor, g: Tensor) -> Tensor:
        """A gradient of the plain tensor under x as one of x."""

    @abstractmethod
    def hooked(self, x: Tensor, hook: Callable) -> Any:
        """Let `hook` see gradients of x whenever they come; a handle that takes it away."""

    @abstractmethod
    def check_targets(self, output: Tensor, targets: Sequence[Tensor]) -> None:
        """Refuse derivatives of `output` by `targets` that are not defined."""


class ThreadInterpreter(Interpreter):
    """Stands over all tensors of its thread, those that were there before as well, and over what Python does to them."""

    level = 0

    # ------------------------------------------------------------------------ reading tensors
    @abstractmethod
    def window(self, x: Tensor) -> np.ndarray:
        """An array with the sizes, strides and address of x; its values may not be known."""

    @abstractmethod
    def item(self, x: Tensor) -> Any:
        """`x.item()`."""

    @abstractmethod
    def concrete(self, x: Tensor, what: str, convert: Callable[[Any], Any]) -> Any:
        """`convert` (int, bool …) of the only element of x; `what` says in words what Python asked for."""

    @abstractmethod
    def contents(self, x: Tensor, what: str) -> np.ndarray:
        """All values of x."""

    @abstractmethod
    def known(self, x: Tensor, what: str) -> np.ndarray:
        """All values of x if they are there already, else an error."""

    @abstractmethod
    def settled(self, x: Tensor) -> np.ndarray | None:
        """All values of x if they come from memory that was there before and are not written to; None if not."""

    @abstractmethod
    def examined(self, x: Tensor, what: str, look: Callable[[Tensor], Any]) -> Any:
        """`look` of a tensor that has all values of x, outside of this interpreter's sight."""

    @abstractmethod
    def selected(self, x: Tensor, mask: Tensor, read: Callable[[Tensor, Sequence[Tensor]], Tensor]) -> Tensor:
        """x[mask]; `read` gives it when the places are known."""

    @abstractmethod
    def put_selected(self, x: Tensor, mask: Tensor, value: Tensor) -> bool:
        """x[mask] = value; False: nothing has been done, it needs the places."""

    @abstractmethod
    def targeted(self, x: Tensor) -> None:
        """A gradient with respect to x is asked for, whatever made it."""

    @abstractmethod
    def read_grad(self, x: Tensor) -> None:
        """`x.grad` is about to be looked at."""

    # ------------------------------------------------------------- making and changing tensors
    @abstractmethod
    def made(self, x: Tensor) -> None:
        """x was made over a plain array."""

    @abstractmethod
    def from_outside(self, x: Tensor) -> None:
        """x was made over memory that others may write to."""

    @abstractmethod
    def short_way(self, slow: Callable, *inputs: Any) -> Any:
        """What `slow(*inputs)` gives: a short way to the result has found this interpreter in charge."""

    @abstractmethod
    def changing(self, x: Tensor, name: str) -> None:
        """An attribute of x is about to be assigned."""

    @abstractmethod
    def counting(self, counter: list[int]) -> None:
        """A count of in-place writes is about to go up."""

    @abstractmethod
    def data_of(self, x: Tensor) -> Tensor:
        """`x.data`."""

    @abstractmethod
    def set_data(self, x: Tensor, value: Tensor) -> None:
        """`x.data = value`."""

    # -------------------------------------------------------------------------------- numbers
    @abstractmethod
    def is_number(self, x: Any) -> bool:
        """Whether it stands for a Python number."""

    @abstractmethod
    def operand(self, x: Any) -> Tensor:
        """Such a number as a 0-d tensor."""

    @abstractmethod
    def as_number(self, x: Tensor) -> Tensor:
        """A 0-d tensor that counts as a Python number."""

    @abstractmethod
    def live(self, fetch: Callable[[], float], kind: type, label: str) -> Tensor:
        """A number that Python gives anew whenever it is needed."""

    # -------------------------------------------------------------------------------- randomness
    @abstractmethod
    def draw(self, name: str, sampler: str, source: Any, parameters: Sequence[Any], options: dict[str, Any]) -> Tensor:
        """Random numbers from the generator `source`."""

    @abstractmethod
    def moving(self, generator: Any) -> None:
        """A generator is about to go to another place of its stream, or to another stream."""

    # -------------------------------------------------------------------- modules and optimisers
    @abstractmethod
    def module_called(self, module: Any, hooks: Sequence[dict[Any, Any]]) -> None:
        """A module is about to be called, and the tables of its hooks are looked at."""

    @abstractmethod
    def module_read(self, module: Any, table: dict[str, Any], name: str) -> None:
        """table[name], which belongs to a module, is looked at."""

    @abstractmethod
    def module_changing(self, module: Any, tables: Sequence[dict[str, Any]]) -> None:
        """Something is about to be assigned to a module, to go to one of the tables."""

    @abstractmethod
    def groups_of(self, optimizer: Any) -> list[dict[str, Any]]:
        """The parameter groups of an optimiser."""

    @abstractmethod
    def optimizer_state(self, optimizer: Any, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter, started where there is none."""

    @abstractmethod
    def zeros(self, like: Tensor) -> Tensor:
        """Zeros for a state that starts with them."""

    # ------------------------------------------------------------------------------ control flow
    @abstractmethod
    def scan(self, *given: Any) -> tuple[list[Tensor], list[Tensor]]:
        """`weft.scan`, see ops/core/control.py."""

    @abstractmethod
    def cond(self, *given: Any) -> list[Tensor]:
        """`weft.cond`."""

    @abstractmethod
    def while_loop(self, *given: Any) -> list[Tensor]:
        """`weft.while_loop`."""


def interpreter_of(x: Tensor) -> Interpreter | None:
    """Who is in charge of operations on x; None: they are computed at once."""
    own = x._interpreter
    return mode.interpreter if own is None and switches.interpreting else own


def chosen(inputs: Sequence[Any]) -> Interpreter | None:
    """Who is in charge of an operation on these inputs: of the layers around them the innermost, else the thread's."""
    found = None
    for x in inputs:
        own = getattr(x, "_interpreter", None)
        if own is not None and (found is None or own.level > found.level):
            found = own
    return mode.interpreter if found is None else found
