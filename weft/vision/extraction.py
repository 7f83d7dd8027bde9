"""Outputs from inside of a model: torchvision's `create_feature_extractor` and `IntermediateLayerGetter`.

torchvision cuts its graph of a model; here the model runs as it is and the modules that are named are listened to. So nodes are
modules, "layer1.0.relu", and what the model does between them has no name.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from .. import nn
from ..errors import ArgumentError, OptionError

__all__ = ["IntermediateLayerGetter", "create_feature_extractor", "get_graph_node_names"]


def get_graph_node_names(model: nn.Module, *args: Any, **options: Any) -> tuple[list[str], list[str]]:
    """The names that may be asked for, in training and in evaluation: those of all modules."""
    names = [name for name, _ in model.named_modules() if name]
    return names, list(names)


def create_feature_extractor(
    model: nn.Module,
    return_nodes: Sequence[str] | Mapping[str, str] | None = None,
    train_return_nodes: Any = None,
    eval_return_nodes: Any = None,
    **options: Any,
) -> nn.Module:
    """A model that shares all parts of `model` and gives {name: output of the module} for the modules that are named.

    return_nodes: names of modules, or {name of a module: name in the result}; a prefix that ends a block is the block's.
    train_return_nodes, eval_return_nodes: different ones for the two ways to run.
    """
    chosen = [eval_return_nodes if return_nodes is None else return_nodes]
    chosen.append(train_return_nodes if return_nodes is None else return_nodes)
    if any(nodes is None for nodes in chosen):
        raise ArgumentError("create_feature_extractor: expected return_nodes, or both train_ and eval_return_nodes")
    tables = [dict(nodes) if isinstance(nodes, Mapping) else {str(n): str(n) for n in nodes} for nodes in chosen]
    known = {name for name, _ in model.named_modules() if name}
    unknown = sorted({name for table in tables for name in table} - known)
    if unknown:
        raise OptionError(f"create_feature_extractor: no modules {', '.join(unknown)}; nodes are names of modules")
    kind = type(model)
    made: Any = copy.copy(model)
    made.__class__ = type(f"{kind.__name__}Features", (_Listening, kind), {"_kind": kind, "_tables": tables})
    return made


class _Listening:
    """Runs a model and gathers outputs of its modules; abstract."""

    _kind: Any
    _tables: list[dict[str, str]]

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        table, found = self._tables[self.training], {}  # type: ignore[attr-defined]

        def listen(name: str) -> Any:
            def hook(module: Any, inputs: Any, output: Any) -> None:
                found[name] = output

            return self.get_submodule(name).register_forward_hook(hook)  # type: ignore[attr-defined]

        handles = [listen(name) for name in table]
        try:
            self._kind.forward(self, *args, **kwargs)
        finally:
            for handle in handles:
                handle.remove()
        return OrderedDict((word, found[name]) for name, word in table.items())


class IntermediateLayerGetter(nn.ModuleDict):
    """The children of a model one after the other, up to the last that is named: {word: output} of those named.

    return_layers: {name of a child: name in the result}
    """

    def __init__(self, model: nn.Module, return_layers: dict[str, str]) -> None:
        children = dict(model.named_children())
        if not set(return_layers) <= set(children):
            raise OptionError(
                f"IntermediateLayerGetter: expected children among {list(children)}, got {list(return_layers)}"
            )
        last = max(list(children).index(name) for name in return_layers)
        super().__init__(OrderedDict(list(children.items())[: last + 1]))
        self.return_layers = {str(name): str(word) for name, word in return_layers.items()}

    def forward(self, x: Any) -> dict[str, Any]:
        found = OrderedDict()
        for name, module in self.items():
            x = module(x)
            if name in self.return_layers:
                found[self.return_layers[name]] = x
        return found
