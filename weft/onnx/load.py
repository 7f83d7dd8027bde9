"""`weft.onnx.load`: an ONNX file as a module, every name and every length checked on the way."""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import MissingFileError, UnsupportedError
from ..io.atomic import Source, contents
from ..io.bounded import brief
from ..io.errors import HeaderError, OversizeError, TruncatedError
from ..runtime.extras import extra
from .freezing import freeze
from .module import Graph, Names, OnnxModule, Operator
from .operators import find
from .schema import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, attribute_value
from .tensors import External, from_proto
from .wire import decode, encode

__all__ = ["load", "read_model"]

OLDEST = 7  # opsets before broadcasting became NumPy's are converted by the onnx package
MOST_NODES = 500_000
DEEPEST = 40  # functions and graphs inside of each other


def load(source: Source | bytes, *, frozen: bool = False) -> OnnxModule:
    """A module that computes what the ONNX file `source` (a path, bytes or an open file) describes.

    Initialisers that are floats are its parameters, under their names in the file; running statistics and settings of
    operators are buffers. It trains, compiles and can be watched like any module. Reading needs no other package, runs nothing
    of the file, and refuses what is damaged (`weft.io.FileFormatError`). Files of opsets before 7 are converted by the
    `onnx` package, where that is installed. An operator that is not there is named, with its opset and node. `frozen`: for
    use alone; weights become constants, and what depends on nothing else is computed once, here.

    >>> import weft
    >>> model = weft.nn.Sequential(weft.nn.Linear(4, 3), weft.nn.Tanh())
    >>> content = weft.onnx.export(model, (weft.ones(2, 4),))
    >>> loaded = weft.onnx.load(content)
    >>> weft.allclose(loaded(weft.ones(2, 4)), model(weft.ones(2, 4)))
    True
    """
    model, external = read_model(source)
    if _opsets(model.opset_import).get("", OLDEST) < OLDEST:
        model = _converted(model)
    made = _Loader(model, external).module()
    return freeze(made) if frozen else made


def read_model(source: Source | bytes) -> tuple[ModelProto, External]:
    """The messages of a file, and where its external data lie; nothing is checked but that it is ONNX."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        source = io.BytesIO(source)
    elif not hasattr(source, "read") and not os.path.exists(source):  # type: ignore[arg-type]
        raise MissingFileError(f"{os.fspath(source)}: no such file")  # type: ignore[arg-type]
    data, name = contents(source)
    if not len(data):
        raise TruncatedError(f"{name}: an empty file; expected an ONNX model")
    model = decode(ModelProto, data, name)
    if model.graph is None or not model.opset_import:
        raise HeaderError(f"{name}: expected an ONNX model, found no {'opset' if model.graph else 'graph'} in it")
    folder = None if hasattr(source, "read") else Path(os.path.dirname(os.path.abspath(source)))  # type: ignore[arg-type]
    return model, External(folder, name)


def _opsets(imports: Sequence[Any]) -> dict[str, int]:
    return {("" if entry.domain in (None, "ai.onnx") else entry.domain): int(entry.version or 0) for entry in imports}


def _converted(model: ModelProto) -> ModelProto:
    """The model at an opset that the table of operators knows."""
    onnx = extra("onnx", "ONNX files of opsets before 7 need")
    converter = extra("onnx.version_converter", "ONNX files of opsets before 7 need")
    given = onnx.load_model_from_string(b"".join(bytes(piece) for piece in encode(model)))
    try:
        found = converter.convert_version(given, 13).SerializeToString()
    except Exception as error:
        raise UnsupportedError(f"an ONNX file of opset {_opsets(model.opset_import)['']}: {error}") from None
    return decode(ModelProto, found, "converted model")


class _Loader:
    """One file on its way to a module."""

    def __init__(self, model: ModelProto, external: External) -> None:
        self.model, self.external, self.name = model, external, external.name
        self.opsets = _opsets(model.opset_import)
        self.functions = {(f.domain or "", f.name, f.overload or ""): f for f in model.functions}
        self.nodes = 0
        self.path: list[Any] = []  # the functions and graphs that are being read

    def module(self) -> OnnxModule:
        graph = self.model.graph
        assert graph is not None
        initialized = {t.name or "" for t in graph.initializer}
        needed = [v.name for v in graph.input if v.name not in initialized]
        made = OnnxModule(needed, [v.name for v in graph.output], self.model)
        overridden = [v.name for v in graph.input if v.name in initialized]
        made.input_names, made.optional = (*needed, *overridden), frozenset(overridden)
        self._fill(made, graph, frozenset(), self.opsets)
        if overridden:
            made.optional = frozenset(n for n in overridden if n in made.constants or n in made.held)
        return made

    # -------------------------------------------------------------------------------------- graphs
    def _fill(self, made: Graph, graph: GraphProto, outer: Collection[str], opsets: dict[str, int]) -> None:
        """Initialisers and nodes of a graph; `outer` are the names that it can see around it."""
        fixed = _settings(graph.node, opsets)
        seen = _Scope(set(made.input_names), outer, self.name)
        for tensor in graph.initializer:
            seen.known.add(tensor.name or "")
            made.add_initializer(tensor.name or "", from_proto(tensor, self.external), tensor.name not in fixed)
        for sparse in graph.sparse_initializer:
            name, array = self._dense(sparse)
            seen.known.add(name)
            made.add_initializer(name, array, name not in fixed)
        self._add_nodes(made, graph.node, seen, opsets, {})
        for name in made.output_names:
            seen.check(name, "the graph returns")

    def _dense(self, sparse: Any) -> tuple[str, np.ndarray]:
        """A sparse initialiser written out, if what it announces is in proportion to what it holds."""
        if sparse.values is None or sparse.indices is None:
            raise HeaderError(f"{self.name}: a sparse initialiser without values or indices")
        values, indices = from_proto(sparse.values, self.external), from_proto(sparse.indices, self.external)
        shape = tuple(map(int, sparse.dims))
        count = int(np.prod(np.array(shape, object))) if shape else 1
        if count > 1 << 28 or min(shape, default=0) < 0 or len(values) != len(indices):
            raise OversizeError(f"{self.name}: a sparse initialiser of sizes {brief(shape)}; refused")
        places = np.ravel_multi_index(tuple(indices.T), shape) if indices.ndim == 2 else indices
        if places.size and (places.min() < 0 or places.max() >= count):
            raise HeaderError(f"{self.name}: a sparse initialiser with elements outside of {brief(shape)}")
        dense = np.zeros(count, values.dtype)
        dense[places] = values
        return sparse.values.name or "", dense.reshape(shape)

    def _add_nodes(
        self, made: Graph, nodes: Sequence[NodeProto], seen: _Scope, opsets: dict[str, int], bound: dict[str, Any]
    ) -> None:
        names = Names()
        for node in nodes:
            self.nodes += 1
            if self.nodes > MOST_NODES:
                raise OversizeError(f"{self.name}: more than {MOST_NODES} nodes, functions written out; refused")
            for name in node.input:
                seen.check(name, f"node {brief(node.name or node.op_type)} reads")
            made.add_node(self._operator(node, seen, opsets, bound), names)
            seen.define(node.output)

    # --------------------------------------------------------------------------------------- nodes
    def _operator(self, node: NodeProto, seen: _Scope, opsets: dict[str, int], bound: dict[str, Any]) -> Operator:
        domain = "" if node.domain in (None, "ai.onnx") else node.domain
        title = node.name or f"{node.op_type}_{node.output[0] if node.output else ''}"
        attributes = {a.name: _resolved(a, bound) for a in node.attribute}
        attributes = {name: a for name, a in attributes.items() if a is not None}
        function = self.functions.get((domain, node.op_type, node.overload or ""))
        if function is not None:
            return Operator(title, node.op_type, node.input, node.output, self._function(function, attributes))
        rule = find(domain, node.op_type, opsets.get(domain, 1))
        if rule is None:
            raise UnsupportedError(self._unknown(domain, node.op_type, opsets, title))
        made = Operator(title, node.op_type, node.input, node.output, rule)
        for name, attribute in attributes.items():
            self._give(made, name, attribute, seen, opsets, bound)
        if rule.counts:
            made.options["outputs"] = len(node.output)
        return made

    def _unknown(self, domain: str, op_type: str, opsets: dict[str, int], title: str) -> str:
        home = f" of domain {brief(domain)}" if domain else ""
        return (
            f"{self.name}: operator {brief(op_type)}{home} at opset {opsets.get(domain, 'not imported')}, in node "
            f"{brief(title)}, is not there; write it as a function of the file, or in operators that are"
        )

    def _give(
        self, made: Operator, name: str, attribute: AttributeProto, seen: _Scope, opsets: dict[str, int], bound: Any
    ) -> None:
        """One attribute: a number, a text, an array, or a graph that becomes a part of the node."""
        assert made.rule is not None
        if name not in made.rule.options:
            if name in _WITHOUT_MEANING:
                return
            raise UnsupportedError(
                f"{self.name}: attribute {brief(name)} of operator {made.op_type} in node {brief(made.title)} is not known"
            )
        value = attribute_value(attribute)
        if isinstance(value, GraphProto):
            made.bodies[name] = self._body(value, seen, opsets, bound)
        else:
            made.options[name] = from_proto(value, self.external) if attribute.type == 4 else value

    def _body(self, graph: GraphProto, seen: _Scope, opsets: dict[str, int], bound: dict[str, Any]) -> Graph:
        made = Graph([v.name for v in graph.input], [v.name for v in graph.output])
        self._enter("a graph")
        inner = graph if not bound else _rebound(graph, bound)
        self._fill(made, inner, seen.everything(), opsets)
        self.path.pop()
        return made

    def _function(self, function: FunctionProto, attributes: dict[str, AttributeProto]) -> Graph:
        """A function of the file, written out with the attributes of the node that calls it."""
        if function in self.path:
            raise HeaderError(f"{self.name}: function {brief(function.name)} calls itself; refused")
        self._enter(function)
        bound = {a.name: a for a in function.attribute_proto} | attributes
        made = Graph(function.input, function.output)
        seen = _Scope(set(function.input), frozenset(), self.name)
        self._add_nodes(made, function.node, seen, {**self.opsets, **_opsets(function.opset_import)}, bound)
        for name in function.output:
            seen.check(name, f"function {brief(function.name)} returns")
        self.path.pop()
        return made

    def _enter(self, what: Any) -> None:
        if len(self.path) >= DEEPEST:
            raise HeaderError(f"{self.name}: graphs and functions more than {DEEPEST} deep; refused")
        self.path.append(what)


_WITHOUT_MEANING = {"consumed_inputs", "training_mode_unused"}


class _Scope:
    """The names that a node may read: each is made once, before it is read, so that there are no cycles."""

    def __init__(self, known: set[str], outer: Collection[str], file: str) -> None:
        self.known, self.outer, self.file = known, outer, file

    def check(self, name: str, who: str) -> None:
        if name and name not in self.known and name not in self.outer:
            raise HeaderError(
                f"{self.file}: {who} {brief(name)}, which nothing before it makes (a cycle, or no such value)"
            )

    def define(self, names: Sequence[str]) -> None:
        for name in names:
            if name and name in self.known:
                raise HeaderError(f"{self.file}: {brief(name)} is made twice")
            self.known.add(name)

    def everything(self) -> frozenset[str]:
        return frozenset(self.known) | frozenset(self.outer)


def _settings(nodes: Sequence[NodeProto], opsets: dict[str, int]) -> set[str]:
    """Names of values that some node reads as a setting (a scale, running statistics), and none as a weight."""
    settings: set[str] = set()
    weights: set[str] = set()
    for node in nodes:
        rule = find(
            "" if node.domain in (None, "ai.onnx") else node.domain, node.op_type, opsets.get(node.domain or "", 1)
        )
        for position, name in enumerate(node.input):
            (settings if rule is not None and position in rule.fixed else weights).add(name)
    return settings - weights


def _resolved(attribute: AttributeProto, bound: dict[str, Any]) -> AttributeProto | None:
    """The attribute itself, or the one of the calling node that it stands for."""
    if not attribute.ref_attr_name:
        return attribute
    found = bound.get(attribute.ref_attr_name)
    if found is None:
        return None
    values = {field.name: getattr(found, field.name) for field in AttributeProto.fields.values()}
    return AttributeProto(**{**values, "name": attribute.name, "ref_attr_name": None})


def _rebound(graph: GraphProto, bound: dict[str, Any]) -> GraphProto:
    """A graph inside of a function, with the attributes of the call put in."""
    made = GraphProto(**{field.name: getattr(graph, field.name) for field in GraphProto.fields.values()})
    made.node = []
    for node in graph.node:
        copy = NodeProto(**{field.name: getattr(node, field.name) for field in NodeProto.fields.values()})
        resolved = [_resolved(a, bound) for a in node.attribute]
        copy.attribute = [a if a.g is None else _with_graph(a, bound) for a in resolved if a is not None]
        made.node.append(copy)
    return made


def _with_graph(attribute: AttributeProto, bound: dict[str, Any]) -> AttributeProto:
    values = {field.name: getattr(attribute, field.name) for field in AttributeProto.fields.values()}
    return AttributeProto(**{**values, "g": _rebound(values["g"], bound)})
