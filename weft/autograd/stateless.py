"""Modules as functions of their parameters, so that transforms can differentiate and batch over those."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import ArgumentError, InvalidValueError, TransformError
from ..ops.core.batching import stacked
from ..tensor import Tensor

__all__ = ["functional_call", "stack_module_state"]


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`module(*args, **kwargs)` with the given tensors in the place of its parameters and buffers.

    Names are those of `state_dict`; what is not given stays the module's own. The module is left as
    it was, except for buffers of its own that its forward writes into. `tie_weights`: a tensor given
    for one of several names of a shared parameter serves all of them. `strict`: all must be given.
    """
    given = _merged(parameter_and_buffer_dicts)
    places = _places(module)
    if strict:
        missing, unknown = sorted(places.keys() - given.keys()), sorted(given.keys() - places.keys())
        if missing or unknown:
            raise TransformError(
                f"functional_call: in strict mode all parameters and buffers of {type(module).__name__} must be given: "
                f"missing {missing}, unexpected {unknown}"
            )
    given = {name: x for name, x in given.items() if name in places}
    if tie_weights:
        given = _tied(places, given)
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(places, given):
        return module(*arguments, **(kwargs or {}))


def _merged(dicts: Any) -> dict[str, Tensor]:
    merged: dict[str, Tensor] = {}
    for part in (dicts,) if isinstance(dicts, Mapping) else dicts:
        repeated = sorted(merged.keys() & part.keys())
        if repeated:
            raise InvalidValueError(
                f"functional_call: {repeated} appeared in multiple dictionaries; give each name once"
            )
        merged.update(part)
    for name, x in merged.items():
        if not isinstance(x, Tensor):
            raise ArgumentError(f"functional_call: {name!r} must be a tensor, got {type(x).__name__}")
    return merged


def _places(module: Any) -> dict[str, tuple[dict[str, Any], str]]:
    """Where each parameter and buffer is kept: its table and its name there."""
    found = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for table in (part._parameters, part._buffers):
            for name, value in table.items():
                if value is not None:
                    found[f"{prefix}.{name}" if prefix else name] = (table, name)
    return found


def _tied(places: Mapping[str, Any], given: dict[str, Tensor]) -> dict[str, Tensor]:
    """The given tensors under all names of the parameters that they replace."""
    owners: dict[int, list[str]] = {}
    for name, (table, key) in places.items():
        owners.setdefault(id(table[key]), []).append(name)
    whole = {}
    for names in owners.values():
        tensors = {id(given[name]): given[name] for name in names if name in given}
        if len(tensors) > 1:
            raise InvalidValueError(
                f"functional_call: got multiple values for keys {sorted(n for n in names if n in given)}, which are tied; "
                "consider using tie_weights=False"
            )
        whole |= dict.fromkeys(names, *tensors.values()) if tensors else {}
    return whole


@contextlib.contextmanager
def _replaced(places: Mapping[str, Any], given: Mapping[str, Tensor]) -> Iterator[None]:
    before = [(table, key, table[key]) for table, key in (places[name] for name in given)]
    try:
        for name, x in given.items():
            table, key = places[name]
            table[key] = x
        yield
    finally:
        for table, key, x in before:
            table[key] = x


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and the buffers of models of one class, each stacked along a new first dimension.

    With `functional_call` and `vmap` an ensemble runs as one:
    vmap(lambda p, b, x: functional_call(base, (p, b), x), in_dims=(0, 0, None))(params, buffers, x).
    """
    models = list(models)
    if not models:
        raise TransformError("stack_module_state: expected at least one model, got 0")
    if len({type(m) for m in models}) > 1:
        raise TransformError("stack_module_state: expected all models to be of the same class")
    if len({m.training for m in models}) > 1:
        raise TransformError("stack_module_state: expected all models to have the same training/eval mode")
    parameters = {
        name: stacked([dict(m.named_parameters())[name].detach() for m in models]).requires_grad_(x.requires_grad)
        for name, x in models[0].named_parameters()
    }
    buffers = {
        name: stacked([dict(m.named_buffers())[name].detach() for m in models]) for name, _ in models[0].named_buffers()
    }
    return parameters, buffers
