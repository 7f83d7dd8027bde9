"""A loaded ONNX graph as a module: its floating-point initialisers are parameters, its nodes parts that hooks can watch."""

from __future__ import annotations

import functools
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..dtypes import dtype
from ..errors import ArgumentError, UnsupportedError, WeftError
from ..nn import Module, ModuleDict, Parameter
from ..tensor import Tensor, wrap
from .operators.registry import Rule, known
from .schema import ModelProto

__all__ = ["Graph", "Names", "OnnxModule", "Operator"]

SMALL = 1024  # elements of whole numbers that count as known, not computed: sizes, axes, indices


class Names:
    """Names of a graph as names of attributes: each one its own, without dots where those would clash."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def __call__(self, name: str) -> str:
        found = stem = name or "unnamed"
        count = 1
        while found in self.taken:
            count += 1
            found = f"{stem}_{count}"
        self.taken.add(found)
        return found


class Operator(Module):
    """One node: an operator of ONNX with its attributes."""

    def __init__(
        self, title: str, op_type: str, inputs: Sequence[str], outputs: Sequence[str], compute: Rule | Graph
    ) -> None:
        super().__init__()
        self.title, self.op_type = title, op_type
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.options: dict[str, Any] = {}
        self.rule: Rule | None = compute if isinstance(compute, Rule) else None
        self.bodies = ModuleDict({"function": compute} if isinstance(compute, Graph) else {})

    def forward(self, *inputs: Any, scope: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
        """What the operator gives; `scope` has the values that graphs inside of it can see."""
        if self.rule is None:
            return self.bodies["function"].run(inputs, {})
        bodies = {name: _bound(body, scope or {}) for name, body in self.bodies.items()}
        try:
            return self.rule(inputs, {**self.options, **bodies})
        except WeftError as error:
            error.add_note(f"in {self.title!r}, an operator {self.op_type} of the ONNX graph")
            raise

    def extra_repr(self) -> str:
        return f"{self.op_type}({', '.join(self.inputs)}) → {', '.join(self.outputs)}"


def _bound(body: Any, scope: Mapping[str, Any]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    return functools.partial(body.run, scope=scope)


class Graph(Module):
    """Nodes in order, and the initialisers they read."""

    def __init__(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        super().__init__()
        self.input_names, self.output_names = tuple(inputs), tuple(outputs)
        self.held: dict[str, tuple[Module, str]] = {}  # initialiser → the module that has it, and its name there
        self.constants: dict[str, np.ndarray] = {}
        self.nodes = ModuleDict()
        self.order: list[Operator] = []

    def add_initializer(self, name: str, array: np.ndarray, trained: bool) -> None:
        """Floats become parameters, unless they are settings of an operator; few whole numbers stay constants."""
        if array.dtype not in dtype.by_numpy or (array.dtype.kind in "iub" and array.size <= SMALL):
            self.constants[name] = array
            return
        home, leaf = self._home(name)
        tensor = wrap(array)
        if trained and tensor.is_floating_point():
            home.register_parameter(leaf, Parameter(tensor))
        else:
            home.register_buffer(leaf, tensor)
        self.held[name] = home, leaf

    def _home(self, name: str) -> tuple[Module, str]:
        """The module under which `layer.0.weight` is found as such, and the last part of the name."""
        home, (*path, leaf) = self, name.split(".")
        for part in path:
            inner = home._modules.get(part)
            if not part or (inner is None and hasattr(home, part)) or isinstance(inner, (Operator, ModuleDict)):
                return self, self._flat(name)
            if inner is None:
                inner = Module()
                home.add_module(part, inner)
            home = inner
        return (self, self._flat(name)) if not leaf or hasattr(home, leaf) else (home, leaf)

    def _flat(self, name: str) -> str:
        leaf = name.replace(".", "_") or "unnamed"
        while hasattr(self, leaf):
            leaf += "_"
        return leaf

    def add_node(self, node: Operator, names: Names) -> None:
        self.nodes[names(node.title.replace(".", "_"))] = node
        self.order.append(node)

    def run(self, inputs: Sequence[Any], scope: Mapping[str, Any]) -> tuple[Any, ...]:
        """The outputs for these inputs; names that are not made here are looked up in `scope`."""
        made: dict[str, Any] = dict(self.constants)
        for name, (home, leaf) in self.held.items():
            made[name] = getattr(home, leaf)
        made.update(zip(self.input_names, inputs, strict=False))
        values = ChainMap(made, scope) if scope else made
        for node in self.order:
            given = [values[name] if name else None for name in node.inputs]
            found = node(*given, scope=values) if node.rule is None or node.bodies else node(*given)
            for name, value in zip(node.outputs, found, strict=False):
                if name:
                    made[name] = value
        return tuple(values[name] for name in self.output_names)


class OnnxModule(Graph):
    """A model that was read from an ONNX file: call it with its inputs in order, or by name.

    Its parameters are the floating-point initialisers under their own names, `nodes` has an `Operator` for every node,
    so that hooks, summaries and optimisers see what they see of any module. `defaults` are inputs with initialisers.
    """

    def __init__(self, inputs: Sequence[str], outputs: Sequence[str], proto: ModelProto) -> None:
        super().__init__(inputs, outputs)
        self.proto = proto
        self.opset = next((int(entry.version) for entry in proto.opset_import if not entry.domain), 0)
        self.optional: frozenset[str] = frozenset()

    def forward(self, *args: Any, **named: Any) -> Any:
        """The single output, or a tuple of all; NumPy arrays are taken as well."""
        given = self._given(args, named)
        found = self.run(list(given.values()), {}) if len(given) == len(self.input_names) else self._run_some(given)
        outputs = tuple(wrap(x) if known(x) else x for x in found)
        return outputs[0] if len(outputs) == 1 else outputs

    def _run_some(self, given: dict[str, Any]) -> tuple[Any, ...]:
        """With initialisers in the place of inputs that were not given."""
        defaults = {name: self._default(name) for name in self.input_names if name not in given}
        values = {**given, **defaults}
        return self.run([values[name] for name in self.input_names], {})

    def _default(self, name: str) -> Any:
        if name in self.constants:
            return self.constants[name]
        home, leaf = self.held[name]
        return getattr(home, leaf)

    def _given(self, args: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
        if len(args) > len(self.input_names):
            raise ArgumentError(f"expected at most {len(self.input_names)} inputs {self.input_names}, got {len(args)}")
        given = dict(zip(self.input_names, args, strict=False))
        for name, value in named.items():
            if name not in self.input_names or name in given:
                raise ArgumentError(f"no input {name!r} is left to give; the inputs are {self.input_names}")
            given[name] = value
        missing = [name for name in self.input_names if name not in given and name not in self.optional]
        if missing:
            raise ArgumentError(f"inputs {missing} are missing; the inputs are {list(self.input_names)}")
        return {name: _taken(given[name], name) for name in self.input_names if name in given}


def _taken(value: Any, name: str) -> Any:
    """A tensor for an array of numbers; arrays of strings and narrow types, sequences and None as they are."""
    if isinstance(value, Tensor) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return [_taken(x, name) for x in value]
    array = np.asarray(value)
    if array.dtype.kind in "US":
        return array.astype(object)
    if known(array):
        return wrap(array)
    if array.dtype.kind in "OV" or "float" in array.dtype.name or "int" in array.dtype.name:
        return array
    raise UnsupportedError(f"input {name!r}: no tensor can be made of {type(value).__name__} with {array.dtype}")
