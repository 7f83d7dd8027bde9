"""`weft.onnx.export`: a model as an ONNX file, from traces."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import weft

from ..compiler.program import ARGUMENT, COPY, OBJECT, OUTPUT
from ..errors import ArgumentError, InvalidValueError, OptionError, TraceError, UnsupportedError
from ..io.atomic import Path
from ..nn import Module
from ..tape.modes import no_grad
from ..tensor import Tensor
from ..utils.pytree import tree_flatten
from . import saving
from .module import OnnxModule
from .schema import (
    Dimension,
    GraphProto,
    ModelProto,
    OperatorSetIdProto,
    TensorShapeProto,
    TensorTypeProto,
    TypeProto,
    ValueInfoProto,
)
from .tensors import to_proto, type_number
from .wire import encode
from .writer import composites, control, layers, pointwise, shaping  # noqa: F401  they enter their rules
from .writer.builder import WRITERS, Builder
from .writer.capture import Sample, sample_as_given, samples_of
from .writer.sizes import Size, Sizes
from .writer.unify import Step, Var, unified

__all__ = ["export"]

OLDEST, NEWEST, USUAL = 17, 23, 20
IR_VERSIONS = {17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}
_SOURCES = {"Argument", "Captured"}


def export(
    model: Module | Callable[..., Any],
    args: Sequence[Any] | Tensor = (),
    path: Path | None = None,
    *,
    kwargs: dict[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_shapes: Any = None,
    dynamic_axes: Any = None,
    opset_version: int | None = None,
    training: bool = False,
    verify: bool = False,
    external_data: bool | None = None,
) -> bytes:
    """The ONNX model that computes model(*args, **kwargs), written to `path` if there is one; its bytes are returned.

    The model is traced in eval mode (unless `training`): Python runs once and leaves a graph. Parameters become
    initialisers under their names. Axes are fixed at the sizes of `args`, except for those named in `dynamic_shapes` (for
    each argument, by position or name, {axis: symbol}) or `dynamic_axes` ({input name: {axis: symbol}}, as PyTorch has it); for
    them the model is traced at three sizes, and what depends on a size otherwise than by arithmetic is refused with the line that
    does. `opset_version` is 17 to 23. `external_data` puts weights into a file beside `path`, which files over 2 GB need;
    then the bytes returned are those of the graph. `verify` runs ONNX Runtime, or onnx's reference, on `args` and compares.
    Equal models give equal bytes, and what `load` made of a file exports as it came.

    >>> import weft
    >>> model = weft.nn.Sequential(weft.nn.Linear(4, 3), weft.nn.ReLU())
    >>> content = weft.onnx.export(model, (weft.ones(2, 4),), dynamic_shapes=({0: "batch"},))
    >>> weft.onnx.load(content)(weft.ones(5, 4)).shape
    weft.Size([5, 3])
    """
    args = (args,) if isinstance(args, Tensor) else tuple(args)
    request = _Request(model, args, kwargs or {}, input_names, output_names, opset_version, training)
    request.set_axes(dynamic_shapes, dynamic_axes)
    proto = request.proto()
    content = saving.write(proto, path, external_data)
    if verify:
        from .verifying import compare

        compare(content if path is None else path, request)
    return content


class _Request:
    """One export: the model with its arguments, names, and what was asked for."""

    def __init__(
        self,
        model: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        input_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
        opset: int | None,
        training: bool,
    ) -> None:
        if opset is not None and not OLDEST <= opset <= NEWEST:
            raise OptionError(f"onnx.export: opset_version is {OLDEST} to {NEWEST}, got {opset}")
        self.model, self.args, self.kwargs = model, args, kwargs
        self.asked, self.opset, self.training = opset, opset or USUAL, training
        self.leaves, self.spec = tree_flatten((args, kwargs))
        self.tensors = [x for x in self.leaves if isinstance(x, Tensor)]
        if not self.tensors:
            raise ArgumentError("onnx.export: a model without tensors among its arguments; give some as `args`")
        self.input_names = self._names(input_names)
        self.output_names = None if output_names is None else list(output_names)
        self.axes: list[dict[int, str]] = [{} for _ in self.tensors]

    def _names(self, given: Sequence[str] | None) -> list[str]:
        """Names of the inputs: those given, else those of the parameters of `forward`."""
        parameters = _parameters(self.model)
        names: list[str] = []
        self.owners: list[Any] = []  # for every tensor: position or name of the argument
        for key, value in [*enumerate(self.args), *self.kwargs.items()]:
            leaves = [x for x in tree_flatten(value)[0] if isinstance(x, Tensor)]
            stem = key if isinstance(key, str) else parameters[key] if key < len(parameters) else f"input_{key}"
            names += [stem if len(leaves) == 1 else f"{stem}_{k}" for k in range(len(leaves))]
            self.owners += [(key, stem, k) for k in range(len(leaves))]
        names = [*(given or ()), *names[len(given or ()) :]]
        if len(set(names)) != len(names) or len(names) != len(self.tensors):
            raise InvalidValueError(
                f"onnx.export: {len(self.tensors)} inputs need as many different names, got {names}"
            )
        return names

    # ------------------------------------------------------------------------------- dynamic axes
    def set_axes(self, shapes: Any, axes: Any) -> None:
        """Take dynamic axes in either form."""
        if shapes is not None and axes is not None:
            raise ArgumentError("onnx.export: give dynamic_shapes or dynamic_axes, not both")
        if axes is not None:
            unknown = set(axes) - set(self.input_names) - set(self.output_names or ()) - {"output"}
            if unknown:
                raise InvalidValueError(
                    f"onnx.export: dynamic_axes names {sorted(unknown)}; inputs are {self.input_names}"
                )
        for number, name in enumerate(self.input_names):
            found = axes.get(name) if axes is not None else self._shape_of(shapes, number)
            self.axes[number] = self._symbols(found, name, self.tensors[number].ndim)

    def _shape_of(self, shapes: Any, number: int) -> Any:
        if shapes is None:
            return None
        key, stem, part = self.owners[number]
        if isinstance(shapes, dict):
            found = shapes.get(self.input_names[number], shapes.get(stem, shapes.get(key)))
        else:
            found = shapes[key] if isinstance(key, int) and key < len(shapes) else None
        several = (
            isinstance(found, (tuple, list)) and len(found) and isinstance(found[0], (dict, tuple, list, type(None)))
        )
        return found[part] if several and part < len(found) else found

    def _symbols(self, found: Any, name: str, rank: int) -> dict[int, str]:
        """{axis: symbol} from a dictionary, a list of axes, or one entry for every dimension."""
        if found is None:
            return {}
        if isinstance(found, dict):
            pairs = list(found.items())
        elif all(isinstance(n, int) and not isinstance(n, bool) for n in found):
            pairs = [(n, True) for n in found]
        else:
            pairs = [(n, word) for n, word in enumerate(found) if word is not None]
        made = {}
        for axis, word in pairs:
            if not -rank <= axis < rank:
                raise InvalidValueError(f"onnx.export: axis {axis} of input {name!r}, which has {rank} dimensions")
            text = getattr(word, "__name__", None) or (word if isinstance(word, str) else f"{name}_dim_{axis % rank}")
            made[axis % rank] = text
        return made

    # ------------------------------------------------------------------------------------- writing
    def proto(self) -> ModelProto:
        if isinstance(self.model, OnnxModule) and self.asked in (None, self.model.opset):
            return saving.rewritten(self.model)
        has_rule = lambda op: getattr(op, "title", "") in WRITERS
        with self._mode():
            samples = samples_of(self.model, self.leaves, self.spec, self.axes, has_rule)
            own = sample_as_given(self.model, self.leaves, self.spec, self.axes, has_rule)
        steps, outputs = unified(samples)
        written = _Written(self, steps, outputs, samples[0].program.results)
        written.builder.sampled = [sample.symbols for sample in samples]
        proto = written.model()
        if own is not None:
            self._check_given(proto, samples, own)
        return proto

    @contextlib.contextmanager
    def _mode(self) -> Iterator[None]:
        """The model in the mode in which it is exported."""
        held = self.model.training if isinstance(self.model, Module) else self.training
        if held == self.training:
            yield
            return
        self.model.train(self.training)
        try:
            yield
        finally:
            self.model.train(held)

    def _check_given(self, proto: ModelProto, samples: list[Sample], own: Sample) -> None:
        """The sizes that were given are no others in the graph either, as `if len(x) == 2` makes them.

        A trace that looks different at them may well be the same function (sizes that are equal by chance need no
        expansion): then values decide.
        """
        try:
            unified([*samples, own])
        except TraceError as error:
            from .load import load

            with self._mode(), no_grad():
                wanted = [x for x in tree_flatten(self.model(*self.args, **self.kwargs))[0] if isinstance(x, Tensor)]
            found = tree_flatten(load(b"".join(encode(proto)))(*self.tensors))[0]
            for one, other in zip(found, wanted, strict=False):
                if one.shape != other.shape or not (self.training or weft.allclose(one, other, 1e-3, 1e-3, True)):
                    raise error


def _parameters(model: Any) -> list[str]:
    function = model.forward if isinstance(model, Module) else model
    try:
        signature = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in signature if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


class _Written:
    """The graph on its way to messages."""

    def __init__(self, request: _Request, steps: list[Step], outputs: list[Var], results: list[Any]) -> None:
        self.request, self.steps, self.outputs, self.results = request, steps, outputs, results
        symbols: dict[str, tuple[str, int]] = {}
        for name, axes in zip(request.input_names, request.axes, strict=True):
            for axis, symbol in axes.items():
                symbols.setdefault(symbol, (name, axis))
        self.builder = Builder(request.opset, symbols)
        self.builder.taken.update(request.input_names)
        self.known = _tensor_names(request.model)

    def model(self) -> ModelProto:
        builder, request = self.builder, self.request
        for step in self.steps:
            if step.title in _SOURCES:
                self._source(step)
            else:
                builder.write(step)
        names, values = self._returned()
        nodes = builder.finish_nodes(names)
        graph = GraphProto(name=type(request.model).__name__, node=nodes)
        graph.initializer = [to_proto(array, name) for name, array in builder.initializers.items()]
        graph.input = [
            _info(name, x.dtype.np, tuple(axes.get(k, n) for k, n in enumerate(x.shape)))
            for name, x, axes in zip(request.input_names, request.tensors, request.axes, strict=True)
        ]
        graph.output = [_info(name, kind, shape) for name, (kind, shape) in zip(names, values, strict=True)]
        return ModelProto(
            ir_version=IR_VERSIONS[request.opset],
            producer_name="weft",
            graph=graph,
            opset_import=[OperatorSetIdProto(domain="", version=request.opset)],
        )

    def _source(self, step: Step) -> None:
        if step.title == "Argument":
            self.builder.names[step.output] = self.request.input_names[step.content]
            return
        tensor = step.content
        name = self.known.get(id(tensor)) or self._shared_name(tensor)
        while name in self.builder.taken and name not in self.builder.initializers:
            name += "_"
        self.builder.taken.add(name)
        self.builder.initializers[name] = np.asarray(tensor.array)
        self.builder.names[step.output] = name

    def _shared_name(self, tensor: Tensor) -> str:
        """A tensor that is no parameter: the memory of one, or something from outside."""
        return self.builder.fresh("tensor")

    def _returned(self) -> tuple[list[str], list[tuple[np.dtype, Sizes]]]:
        """Names, element types and sizes of the outputs; what is no tensor is left out."""
        chosen = [
            (kind, what) for kind, what in self.results if kind in (OUTPUT, COPY, ARGUMENT) or isinstance(what, Tensor)
        ]
        given = self.request.output_names or []
        names = [
            *given,
            *(["output"] if len(chosen) == 1 else [f"output_{k}" for k in range(len(chosen))])[len(given) :],
        ]
        if len(given) > len(chosen) or len(set(names)) != len(names):
            raise InvalidValueError(f"onnx.export: {len(chosen)} outputs need as many different names, got {names}")
        values = []
        for name, (kind, what) in zip(names, chosen, strict=True):
            inner, element, shape = self._result(kind, what)
            self.builder.scope = ""
            self.builder.add("Identity", [inner], [name], {})
            values.append((element, shape))
        self._merge_identities(names)
        return names, values

    def _result(self, kind: str, what: Any) -> tuple[str, np.dtype, Sizes]:
        if kind in (OUTPUT, COPY):
            var = self.outputs[what]
            return self.builder.names[var], var.dtype, var.shape
        if kind == ARGUMENT:
            x, axes = self.request.tensors[what], self.request.axes[what]
            shape = tuple(Size(((1, (axes[k],)),)) if k in axes else n for k, n in enumerate(x.shape))
            return self.request.input_names[what], x.dtype.np, shape
        if kind != OBJECT:
            raise UnsupportedError("onnx.export: the model returns a number that Python computes; return a tensor")
        name = self.known.get(id(what)) or self.builder.fresh("tensor")
        self.builder.initializers[name] = np.asarray(what.array)
        return name, what.dtype.np, tuple(what.shape)

    def _merge_identities(self, names: Sequence[str]) -> None:
        """The node that makes an output gives it its name at once, where nobody else knows it under another."""
        builder = self.builder
        makers = {out: node for node in builder.nodes for out in node.output}
        for name in names:
            identity = makers[name]
            inner = identity.input[0]
            node = makers.get(inner)
            inside = any(inner in other.seen for other in builder.nodes)  # type: ignore[attr-defined]
            if node is None or inner in names or node.op_type == "Constant" or inside:
                continue
            for other in builder.nodes:
                other.input = [name if n == inner else n for n in other.input]
            node.output = [name if n == inner else n for n in node.output]
            builder.nodes.remove(identity)
            makers[name] = node


def _tensor_names(model: Any) -> dict[int, str]:
    """Parameters and buffers by identity; one that has several names goes by the first."""
    if not isinstance(model, Module):
        return {}
    found: dict[int, str] = {}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        found.setdefault(id(tensor), name)
    return found


def _info(name: str, kind: np.dtype, shape: Sequence[Any]) -> ValueInfoProto:
    dims = [
        Dimension(dim_value=int(n)) if isinstance(n, (int, np.integer)) else Dimension(dim_param=_word(n))
        for n in shape
    ]
    inner = TensorTypeProto(elem_type=type_number(kind), shape=TensorShapeProto(dim=dims))
    return ValueInfoProto(name=name, type=TypeProto(tensor_type=inner))


def _word(size: Any) -> str:
    return size if isinstance(size, str) else size.symbol or str(size)
