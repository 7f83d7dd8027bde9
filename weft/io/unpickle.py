"""A pickle machine that can make plain values and call nothing but a given table of functions.

Python's own unpickler imports and calls what the pickle names. This one knows each instruction that a checkpoint
needs, looks every name up in the caller's table, and refuses the rest before anything has been run.
"""

from __future__ import annotations

import pickletools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import IO, Any

from ..dtypes import dtype
from ..errors import WeftError
from .bounded import brief
from .errors import HeaderError, TruncatedError, UnsafePickleError

__all__ = ["Global", "Machine", "keys", "paired"]

CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": set,
}
LITERALS = frozenset(
    """INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE
    SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8""".split()
)
MARK = object()


class Global:
    """A function or class that the pickle asked for and the table knows; it can be called, not changed."""

    __slots__ = ("make", "name")

    def __init__(self, name: str, make: Any) -> None:
        self.name, self.make = name, make


class Machine:
    """Runs one pickle: `table` says what each global name stands for, `storage` what a persistent id stands for."""

    def __init__(self, file: IO[bytes], table: Mapping[str, Any], storage: Callable[[Any], Any], name: str) -> None:
        self.file, self.table, self.storage, self.name = file, table, storage, name
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        """The object that the pickle describes; the file stands after its last instruction."""
        try:
            for opcode, argument, _ in pickletools.genops(self.file):
                self.step(opcode.name, argument)
            return self.stack.pop()
        except WeftError:
            raise
        except ValueError as error:
            raise TruncatedError(f"{self.name}: the pickle ends too early or is damaged: {str(error)[:200]}") from None
        except (IndexError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
            raise HeaderError(
                f"{self.name}: the pickle is malformed: {type(error).__name__}: {str(error)[:200]}"
            ) from None

    def step(self, opcode: str, argument: Any) -> None:
        if opcode in CONSTANTS:
            self.stack.append(CONSTANTS[opcode]())
        elif opcode in LITERALS:
            self.stack.append(argument)
        elif opcode in INSTRUCTIONS:
            INSTRUCTIONS[opcode](self, argument)
        else:
            raise UnsafePickleError(
                f"{self.name}: the pickle uses {opcode}, which tensors and plain containers do not need; refused"
            )

    # ---------------------------------------------------------------------------------- stack
    def after_mark(self) -> list[Any]:
        """Take everything above the last mark, and the mark."""
        position = len(self.stack) - 1
        while self.stack[position] is not MARK:
            position -= 1
            if position < 0:
                raise IndexError("no mark on the stack")
        found = self.stack[position + 1 :]
        del self.stack[position:]
        return found

    def take(self, count: int) -> tuple[Any, ...]:
        if count > len(self.stack):
            raise IndexError("the stack is empty")
        found = tuple(self.stack[len(self.stack) - count :])
        del self.stack[len(self.stack) - count :]
        return found

    def top(self, *kinds: type) -> Any:
        if type(self.stack[-1]) not in kinds:
            raise UnsafePickleError(f"{self.name}: the pickle would change a {type(self.stack[-1]).__name__}; refused")
        return self.stack[-1]

    # ---------------------------------------------------------------------------------- instructions
    def remember(self, argument: int | None) -> None:
        self.memo[len(self.memo) if argument is None else argument] = self.stack[-1]

    def recall(self, argument: int) -> None:
        self.stack.append(self.memo[argument])

    def extend(self, values: list[Any]) -> None:
        self.top(list).extend(values)

    def assign(self, values: list[Any]) -> None:
        target = self.top(dict, OrderedDict)
        target.update(paired(values))

    def look_up(self, name: str) -> None:
        if name not in self.table:
            raise UnsafePickleError(
                f"{self.name}: the pickle asks for {brief(name)}, which is neither a tensor nor a plain container; nothing "
                "was loaded or run. If you trust the file, load it with PyTorch and save its state_dict() again"
            )
        found = self.table[name]
        self.stack.append(found if isinstance(found, (dtype, str)) else Global(name, found))

    def look_up_from_stack(self, _: Any) -> None:
        module, name = self.take(2)
        if not isinstance(module, str) or not isinstance(name, str):
            raise UnsafePickleError(f"{self.name}: the pickle asks for a name that is no string; refused")
        self.look_up(f"{module}.{name}")

    def call(self, _: Any) -> None:
        function, arguments = self.take(2)
        if not isinstance(function, Global) or not callable(function.make) or not isinstance(arguments, tuple):
            raise UnsafePickleError(f"{self.name}: the pickle calls something that is not a known function; refused")
        self.stack.append(function.make(*arguments))

    def build(self, _: Any) -> None:
        """Only one state is ever set: the `_metadata` of a state dict."""
        (state,) = self.take(1)
        target = self.top(OrderedDict)
        if type(state) is not dict or set(state) - {"_metadata"}:
            raise UnsafePickleError(f"{self.name}: the pickle sets attributes other than _metadata; refused")
        target.__dict__.update(state)


KEYS = (type(None), bool, int, float, complex, str, bytes, dtype)


def keys(values: Any) -> Any:
    """Values that may be keys or members of sets: plain ones and tuples of plain ones.

    Hashing a deep nest of tuples would overflow the interpreter's stack, and one of shared tuples never end.
    """
    for value in values:
        for part in value if type(value) is tuple else (value,):
            if type(part) not in KEYS:
                raise TypeError(f"a {type(part).__name__} as a key or in a set")
            if type(part) is int and part.bit_length() > 64:  # any number of these can have one hash
                raise TypeError(f"a number of {part.bit_length()} bits as a key or in a set")
    return values


def paired(values: list[Any]) -> Any:
    """(key, value) pairs from a row of both in turn."""
    return zip(keys(values[::2]), values[1::2], strict=True)


def _tuple_of(count: int) -> Callable[[Machine, Any], None]:
    return lambda machine, _: machine.stack.append(machine.take(count))


def _from_mark(make: Callable[[list[Any]], Any]) -> Callable[[Machine, Any], None]:
    return lambda machine, _: machine.stack.append(make(machine.after_mark()))


INSTRUCTIONS: dict[str, Callable[[Machine, Any], None]] = {
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda machine, _: None),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), Machine.remember),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), Machine.recall),
    "MARK": lambda machine, _: machine.stack.append(MARK),
    "POP": lambda machine, _: machine.take(1),
    "POP_MARK": lambda machine, _: machine.after_mark(),
    "TUPLE": _from_mark(tuple),
    "LIST": _from_mark(list),
    "FROZENSET": _from_mark(lambda values: frozenset(keys(values))),
    "DICT": _from_mark(lambda values: dict(paired(values))),
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    "APPEND": lambda machine, _: machine.extend(list(machine.take(1))),
    "APPENDS": lambda machine, _: machine.extend(machine.after_mark()),
    "ADDITEMS": lambda machine, _: (lambda values: machine.top(set).update(keys(values)))(machine.after_mark()),
    "SETITEM": lambda machine, _: machine.assign(list(machine.take(2))),
    "SETITEMS": lambda machine, _: machine.assign(machine.after_mark()),
    "GLOBAL": lambda machine, argument: machine.look_up(argument.replace(" ", ".", 1)),
    "STACK_GLOBAL": Machine.look_up_from_stack,
    "REDUCE": Machine.call,
    "BUILD": Machine.build,
    "BINPERSID": lambda machine, _: machine.stack.append(machine.storage(*machine.take(1))),
}
