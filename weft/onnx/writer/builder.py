"""The ONNX graph that is being written: nodes, constants, initialisers, and sizes as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ..schema import GraphProto, NodeProto, StringStringEntryProto, make_attribute
from ..tensors import NUMBERS, to_proto
from .sizes import Band, Iota, Number, Size, Sizes
from .unify import Step, Var

__all__ = ["WRITERS", "Builder", "writes"]

Writer = Callable[..., Any]
WRITERS: dict[str, Writer] = {}


def writes(titles: str) -> Callable[[Writer], Writer]:
    """Enter the rule that writes primitives of these classes: rule(builder, step, *names of the inputs)."""

    def enter(function: Writer) -> Writer:
        for title in titles.split():
            WRITERS[title] = function
        return function

    return enter


class Builder:
    """Nodes in order, names of values, constants that are shared."""

    def __init__(self, opset: int, symbols: dict[str, tuple[str, int]]) -> None:
        self.opset, self.symbols = opset, symbols  # symbol → the input and axis that has it
        self.nodes: list[NodeProto] = []
        self.names: dict[Var, str] = {}
        self.initializers: dict[str, np.ndarray] = {}
        self.counts: Counter[str] = Counter()
        self.taken: set[str] = set()
        self.shared: dict[Any, str] = {}
        self.scope = ""
        self.sampled: list[dict[str, int]] = [{}]  # the symbols at the sizes that were traced

    def child(self) -> Builder:
        """A builder for a graph inside of a node: it sees the names around it, nothing around sees its own."""
        made = Builder(self.opset, self.symbols)
        made.counts, made.taken, made.sampled = self.counts, self.taken, self.sampled
        return made

    # --------------------------------------------------------------------------------------- nodes
    def fresh(self, stem: str) -> str:
        """A name that nothing has yet."""
        self.counts[stem] += 1
        name = f"{stem}_{self.counts[stem]}"
        return name if name not in self.taken else self.fresh(stem)

    def emit(self, op_type: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; the name of its output, or a list of names for several."""
        made = [self.fresh(op_type.lower()) for _ in range(outputs)]
        self.add(op_type, inputs, made, attributes)
        return made[0] if outputs == 1 else made

    def add(self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], attributes: dict[str, Any]) -> None:
        node = NodeProto(input=list(inputs), output=list(outputs), op_type=op_type)
        node.attribute = [make_attribute(k, v) for k, v in attributes.items() if v is not None]
        node.scope = self.scope  # type: ignore[attr-defined]
        node.seen = _read_inside(attributes.values())  # type: ignore[attr-defined]
        self.nodes.append(node)

    def finish_nodes(self, outputs: Sequence[str]) -> list[NodeProto]:
        """The nodes that the outputs need, named after their modules."""
        needed = set(outputs)
        kept = []
        for node in reversed(self.nodes):
            if any(name in needed for name in node.output):
                needed.update(node.input)
                needed.update(node.seen)  # type: ignore[attr-defined]
                kept.append(node)
        kept.reverse()
        for node in kept:
            scope = node.scope  # type: ignore[attr-defined]
            path = scope.replace(".", "/")
            node.name = f"/{path}/{node.output[0]}" if path else f"/{node.output[0]}"
            if scope and self.opset >= 21:
                node.metadata_props = [StringStringEntryProto(key="weft.scope", value=scope)]
        self.initializers = {name: a for name, a in self.initializers.items() if name in needed}
        return kept

    # ----------------------------------------------------------------------------------- constants
    def constant(self, value: Any, dtype: Any = None) -> str:
        """A constant, made once however often it is asked for."""
        array = np.asarray(value, dtype)
        key = ("constant", array.dtype.str, array.dtype.name, array.shape, array.tobytes())
        if key not in self.shared:
            name = self.fresh("constant")
            self._first("Constant", [], name, {"value": to_proto(array)})
            self.shared[key] = name
        return self.shared[key]

    def _first(self, op_type: str, inputs: Sequence[str], name: str, attributes: dict[str, Any]) -> None:
        """Shared values belong to no module."""
        held, self.scope = self.scope, ""
        self.add(op_type, inputs, [name], attributes)
        self.scope = held

    def ints(self, values: Sequence[int]) -> str:
        return self.constant(list(values), np.int64)

    def scalar(self, value: Any, like: Var) -> str:
        return self.constant(value, like.dtype)

    def number(self, number: Number, dtype: np.dtype, shape: Sequence[int] = ()) -> str:
        """A number that follows from a size."""
        value = self.emit("Cast", [self.size(number.size)], to=NUMBERS[np.dtype(dtype)])
        if number.form in ("square", "reciprocal square"):
            value = self.emit("Sqrt", [value])
        if number.form.startswith("reciprocal"):
            value = self.emit("Reciprocal", [value])
        return self.emit("Reshape", [value, self.ints(list(shape))])

    def iota(self, iota: Iota, dtype: np.dtype) -> str:
        """start, start + step, … as a Range."""
        whole = float(iota.step).is_integer()
        if not whole:
            raise UnsupportedError("onnx.export: numbers at fractional distances whose count is dynamic")
        start, count = self._whole(iota.start), self._whole(iota.count)
        step = self.constant(int(iota.step), np.int64)
        limit = self.emit("Add", [start, self.emit("Mul", [count, step])])
        line = self.cast(self.emit("Range", [start, limit, step]), np.dtype(np.int64), dtype)
        return line if len(iota.shape) == 1 else self.emit("Reshape", [line, self.shape(iota.shape)])

    def band(self, band: Band, dtype: np.dtype) -> str:
        """A table of two numbers on both sides of a diagonal."""
        rows, columns = [n for n in band.shape if n != 1]
        zero, one = self.constant(0, np.int64), self.constant(1, np.int64)
        row = self.emit("Unsqueeze", [self.emit("Range", [zero, self._whole(rows), one]), self.ints([1])])
        column = self.emit("Range", [zero, self._whole(columns), one])
        table = self.emit("GreaterOrEqual", [column, self.emit("Add", [row, self._whole(band.edge)])])
        if dtype == np.dtype(bool):
            table = table if band.above else self.emit("Not", [table])
        else:
            table = self.emit("Where", [table, self.constant(band.above, dtype), self.constant(band.below, dtype)])
        return table if len(band.shape) == 2 else self.emit("Reshape", [table, self.shape(band.shape)])

    def _whole(self, value: Any) -> str:
        """A scalar of a size or a number."""
        if isinstance(value, Size):
            return self.emit("Squeeze", [self.size(value), self.ints([0])])
        return self.constant(int(value), np.int64)

    def cast(self, name: str, have: np.dtype, want: np.dtype) -> str:
        return name if np.dtype(have) == np.dtype(want) else self.emit("Cast", [name], to=NUMBERS[np.dtype(want)])

    # --------------------------------------------------------------------------------------- sizes
    def size(self, size: int | Size) -> str:
        """A size as a vector of one whole number."""
        if not isinstance(size, Size):
            return self.ints([size])
        key = ("size", size)
        if key not in self.shared:
            held, self.scope = self.scope, ""
            self.shared[key] = self._computed(size)
            self.scope = held
        return self.shared[key]

    def _computed(self, size: Size) -> str:
        total = None
        for coefficient, names in size.terms:
            value = self._symbol(names[0])
            for name in names[1:]:
                value = self.emit("Mul", [value, self._symbol(name)])
            if coefficient != 1:
                value = self.emit("Mul", [value, self.ints([coefficient])])
            total = value if total is None else self.emit("Add", [total, value])
        assert total is not None
        for number, op_type in ((size.before, "Add"), (size.divisor - 1, "Div"), (size.after, "Add")):
            if number:
                total = self.emit(op_type, [total, self.ints([number if op_type == "Add" else size.divisor])])
        return total

    def _symbol(self, symbol: str) -> str:
        key = ("symbol", symbol)
        if key not in self.shared:
            name, axis = self.symbols[symbol]
            self.shared[key] = self.emit("Shape", [name], start=axis, end=axis + 1)
        return self.shared[key]

    def shape(self, sizes: Sizes) -> str:
        """Sizes as a vector."""
        if not any(isinstance(n, Size) for n in sizes):
            return self.ints([int(n) for n in sizes])  # type: ignore[arg-type]
        parts: list[str] = []
        pending: list[int] = []
        for n in sizes:
            if isinstance(n, Size):
                parts += [self.ints(pending)] if pending else []
                pending = []
                parts.append(self.size(n))
            else:
                pending.append(n)
        parts += [self.ints(pending)] if pending else []
        return parts[0] if len(parts) == 1 else self.emit("Concat", parts, axis=0)

    def reshaped(self, name: str, have: Sizes, want: Sizes) -> str:
        """A reshape that asks for as few computed sizes as it can: 0 copies a size, one −1 follows from the rest."""
        if tuple(have) == tuple(want):
            return name
        copied = [isinstance(n, Size) and k < len(have) and have[k] == n for k, n in enumerate(want)]
        open_ = [k for k, n in enumerate(want) if isinstance(n, Size) and not copied[k]]
        if 0 in want:
            return self.emit("Reshape", [name, self.shape(want)], allowzero=1)
        if len(open_) > 1:
            return self.emit("Reshape", [name, self.shape(want)])
        sizes = [0 if copied[k] else -1 if isinstance(n, Size) else int(n) for k, n in enumerate(want)]
        return self.emit("Reshape", [name, self.ints(sizes)])

    def expanded(self, name: str, have: Sizes, want: Sizes) -> str:
        if tuple(have) == tuple(want):
            return name
        lead = len(want) - len(have)
        sizes = tuple(1 if k >= lead and have[k - lead] == n else n for k, n in enumerate(want))
        return self.emit("Expand", [name, self.shape(sizes)])

    # --------------------------------------------------------------------------------------- steps
    def write(self, step: Step) -> None:
        """The nodes of one step, by its rule."""
        self.scope = step.scope
        writer = WRITERS.get(step.title)
        if writer is None:
            raise UnsupportedError(
                f"onnx.export: {'at ' + step.line + ', ' if step.line else ''}operation {step.title} has no form in ONNX "
                f"(opset {self.opset}); leave it out of the exported part"
            )
        made = writer(self, step, *(self.names[v] for v in step.inputs))
        for var, name in zip(step.outputs, [made] if isinstance(made, str) else made, strict=False):
            self.names[var] = name


def _read_inside(values: Iterable[Any]) -> set[str]:
    """The names that nodes of the graphs among these attributes read."""
    nodes = [node for value in values if isinstance(value, GraphProto) for node in value.node]
    return {name for node in nodes for name in (*node.input, *node.seen)}  # type: ignore[attr-defined]


def producer(var: Var, title: str) -> Step | None:
    """The step that makes a value, if it is of that class."""
    return var.step if var.step.title == title else None
