"""LoRA: fine-tuning by a low-rank change of weights that themselves stay as they are (Hu et al. 2022).

W′ = W + (α / r) B A with A (r, in) random and B (out, r) zero at first, so that training starts at W. It is a
parametrisation of the weight: every layer that reads `module.weight` takes part, attention and convolutions included.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import weft

from ...errors import OptionError, ShapeError
from ...nn import init
from ...nn.module import Module
from ...nn.modules.attention import MultiheadAttention
from ...nn.modules.conv import Conv2d
from ...nn.modules.linear import Linear
from ...nn.parameter import Parameter
from ...nn.utils.parametrize import is_parametrized, register_parametrization, remove_parametrizations
from ...tensor import Tensor
from .parts import Patterns, listed, matching
from .transfer import freeze, unfreeze

__all__ = [
    "LoRA",
    "add_lora",
    "load_lora_state_dict",
    "lora_state_dict",
    "merge_lora",
    "remove_lora",
    "unmerge_lora",
]


class LoRA(Module):
    """W ↦ W + s B A for a weight (out, in) or (out, in, k, k), taken as (out, in·k·k); s = alpha / rank, 0 once merged.

    parts: how many matrices of their own the weight holds one above the other, as `in_proj_weight` of attention holds
    those of query, key and value; each has a pair (A, B). A (parts · rank, in), B (out, rank).
    """

    def __init__(self, weight: Tensor, rank: int = 4, alpha: float | None = None, parts: int = 1) -> None:
        super().__init__()
        outputs, inputs = weight.shape[0], weight[0].numel()
        if not 1 <= rank <= min(outputs // parts, inputs):
            raise OptionError(
                f"LoRA: expected 1 ≤ rank ≤ {min(outputs // parts, inputs)} for a weight of shape {tuple(weight.shape)}"
                f", got {rank}"
            )
        self.parts, self.scaling = parts, (rank if alpha is None else alpha) / rank
        self.A = Parameter(weft.empty(parts * rank, inputs, dtype=weight.dtype))
        self.B = Parameter(weft.zeros(outputs, rank, dtype=weight.dtype))
        self.register_buffer("scale", weft.tensor(self.scaling, dtype=weight.dtype))
        init.kaiming_uniform_(self.A, a=math.sqrt(5))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.scale * self.change().reshape(weight.shape)

    def change(self) -> Tensor:
        """B A of each part, one above the other: (out, in)."""
        b = self.B.unflatten(0, (self.parts, -1))  # (out, r) → (parts, out / parts, r)
        a = self.A.unflatten(0, (self.parts, -1))  # (parts · r, in) → (parts, r, in)
        return (b @ a).flatten(0, 1)  # (parts, out / parts, in) → (out, in)

    def extra_repr(self) -> str:
        return f"rank={self.B.shape[1]}, scaling={self.scaling:g}, parts={self.parts}"


def add_lora(
    model: Module,
    patterns: Patterns = "*",
    rank: int = 4,
    alpha: float | None = None,
    train_also: Patterns = (),
) -> list[str]:
    """Give every Linear, Conv2d and MultiheadAttention whose name matches a LoRA; the names of the weights.

    All other parameters are frozen, but those that match `train_also` (a new head, biases). alpha: rank if None. Make
    the optimiser after this.

    >>> add_lora(model, "*attn*", rank=8, train_also="head.*")
    >>> Trainer(max_epochs=3).fit(Classification(model, lr=1e-3), loader)
    """
    targets = {name: place for name, place in _weights(model, patterns)}
    if not targets:
        raise OptionError(f"add_lora: {listed(patterns)} matches no Linear, Conv2d or MultiheadAttention")
    for name, (module, weight, _) in targets.items():
        if is_parametrized(module, weight):
            raise OptionError(f"add_lora: {name} has a parametrisation already; remove it first (remove_lora)")
    freeze(model)
    if listed(train_also):
        unfreeze(model, train_also)
    for module, weight, parts in targets.values():
        register_parametrization(module, weight, LoRA(getattr(module, weight), rank, alpha, parts))
    return list(targets)


def _weights(model: Module, patterns: Patterns) -> Iterator[tuple[str, tuple[Module, str, int]]]:
    """Name, module, name of the weight and number of matrices in it, for the modules that match."""
    modules = dict(model.named_modules())
    for path in matching(modules, patterns, "add_lora"):
        module, dot = modules[path], "." if path else ""
        if isinstance(module, (Linear, Conv2d)):
            yield f"{path}{dot}weight", (module, "weight", 1)
        elif isinstance(module, MultiheadAttention):
            yield f"{path}{dot}out_proj.weight", (module.out_proj, "weight", 1)
            for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
                if getattr(module, name) is not None:
                    yield f"{path}{dot}{name}", (module, name, 3 if name.startswith("in") else 1)


# ------------------------------------------------------------------------------------------- merging


def merge_lora(model: Module) -> None:
    """W ← W + s B A in place: no further cost at each call. What is merged already stays as it is."""
    with weft.no_grad():
        for original, change in _pairs(model):
            if change.scale.item():
                original.add_(change.scaling * change.change().reshape(original.shape))
                change.scale.zero_()


def unmerge_lora(model: Module) -> None:
    """W ← W − s B A: the weights as they were, up to rounding, and B A beside them again."""
    with weft.no_grad():
        for original, change in _pairs(model):
            if not change.scale.item():
                original.sub_(change.scaling * change.change().reshape(original.shape))
                change.scale.fill_(change.scaling)


def remove_lora(model: Module, merge: bool = True) -> Module:
    """Ordinary weights again: with the change, or (merge=False) without it."""
    if not merge:
        unmerge_lora(model)
    for _, module, weight, _ in list(_adapted(model)):
        remove_parametrizations(module, weight, leave_parametrized=merge)
    return model


def _pairs(model: Module) -> Iterator[tuple[Tensor, LoRA]]:
    for name, module, weight, change in _adapted(model):
        if len(module.parametrizations[weight]) > 1:
            raise OptionError(f"LoRA: {name} has further parametrisations, with which it cannot be merged")
        yield module.parametrizations[weight].original, change


def _adapted(model: Module) -> Iterator[tuple[str, Module, str, LoRA]]:
    """Name of the weight, its module, its name there, its LoRA."""
    for path, module in model.named_modules():
        for weight in list(module.parametrizations) if is_parametrized(module) else ():
            for part in module.parametrizations[weight]:
                if isinstance(part, LoRA):
                    yield f"{path}.{weight}" if path else weight, module, weight, part


# ------------------------------------------------------------------------------------------- state


def lora_state_dict(model: Module, also: Patterns = ()) -> dict[str, Tensor]:
    """What was learned and nothing else: `name.weight.lora_A`, `name.weight.lora_B`, and parameters that match `also`.

    >>> weft.save(lora_state_dict(model, also="head.*"), "change.weft")
    """
    found = {name: value.detach() for name, value in _learned(model).items()}
    parameters = dict(model.named_parameters())
    names = matching(parameters, also, "lora_state_dict") if listed(also) else []
    return found | {name: parameters[name].detach() for name in names}


def load_lora_state_dict(model: Module, state: Mapping[str, Tensor]) -> None:
    """Take what `lora_state_dict` gave, into a model that `add_lora` has prepared in the same way and not merged."""
    places = _learned(model) | dict(model.named_parameters())
    missing = sorted(set(_learned(model)) - set(state))
    unknown = sorted(set(state) - set(places))
    if missing or unknown:
        raise OptionError(
            f"load_lora_state_dict: missing {missing}, without a place {unknown}; call add_lora alike first"
        )
    for name, value in state.items():
        if tuple(value.shape) != tuple(places[name].shape):
            raise ShapeError(f"load_lora_state_dict: {name} is {tuple(value.shape)}, here {tuple(places[name].shape)}")
    with weft.no_grad():
        for name, value in state.items():
            places[name].copy_(value)


def _learned(model: Module) -> dict[str, Parameter]:
    return {f"{name}.lora_{part}": getattr(lora, part) for name, _, _, lora in _adapted(model) for part in "AB"}
