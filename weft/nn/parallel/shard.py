"""fully_shard: parameters, gradients and optimiser state cut over ranks (ZeRO, stage 3), whole only while a module computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...distributed.groups import require_group
from ...distributed.shards import Cut, gathered
from ...errors import EntryError, OptionError, StateError
from ...runtime.cluster.group import Group
from ...tape.modes import is_grad_enabled, mode, no_grad
from ...tape.saved import saved_tensors_hooks
from ...tensor import Tensor
from ..container import ModuleDict, ModuleList
from ..module import Module
from ..parameter import Parameter
from .distributed import check_alike, share_from_first

__all__ = ["cut_of", "fully_shard", "load_whole_state_dict", "whole_state_dict"]


@dataclass
class Place:
    """Where a parameter belongs: modules that have it, under their names for it."""

    parameter: Parameter
    cut: Cut
    owners: list[tuple[Module, str]]


def cut_of(parameter: Tensor) -> Cut | None:
    """How a parameter is cut over ranks; None for one that is whole."""
    return getattr(parameter, "_cut", None)


def fully_shard(
    module: Module,
    *,
    mesh: Group | None = None,
    reshard_after_forward: bool = True,
    process_group: Group | None = None,
) -> Module:
    """Cut the parameters of a module over N ranks; each keeps 1/N of them, of their gradients and of what optimisers keep.

    Before a forward pass the module's parameters are gathered by one call, and let go after it; the backward pass gathers
    them again when it comes to the module, and lets them go when it has used them. Gradients come back as each rank's part of
    their mean. Call it on inner modules first, block by block, then on the whole: each call takes the parameters that are not
    cut yet, and a rank holds those of one call at a time. Make optimisers afterwards; those that treat elements one by one
    compute what they would on whole parameters. Alone it changes nothing.

    The module is changed in place and returned. `whole_state_dict` gathers a state dict with whole parameters.
    reshard_after_forward: False keeps what was gathered until the backward pass has run, for one call less
    mesh, process_group: the ranks; all of them by default
    """
    if not isinstance(module, Module):
        raise OptionError(f"fully_shard: expected a module, got {type(module).__name__}")
    if isinstance(module, (ModuleList, ModuleDict)):
        raise OptionError(f"fully_shard: a {type(module).__name__} is never called; cut each of its modules")
    group = require_group(mesh if process_group is None else process_group, "fully_shard")
    if group.size == 1:
        return module
    places = _places(module, group)
    if not places:
        raise StateError("fully_shard: the module has no parameter that is not cut already")
    whole = [place.parameter for place in places]
    check_alike(module, group)
    share_from_first([*whole, *module.buffers()], group)
    for place in places:
        place.parameter = _cut_down(place, group)
    unit = Unit(places, group, reshard_after_forward)
    module.register_forward_pre_hook(unit.gather)
    module.register_forward_hook(unit.release, always_call=True)
    return module


def _places(module: Module, group: Group) -> list[Place]:
    found: dict[int, Place] = {}
    for owner in module.modules():
        for name, parameter in owner._parameters.items():
            if parameter is None or cut_of(parameter) is not None:
                continue
            cut = Cut(tuple(parameter.shape), group.rank, group.size)
            found.setdefault(id(parameter), Place(parameter, cut, [])).owners.append((owner, name))
    return list(found.values())


def _cut_down(place: Place, group: Group) -> Parameter:
    """Put the part of this rank in the place of a parameter."""
    with no_grad():
        part = place.cut.filled(place.cut.part(place.parameter.detach())).clone()
    parameter = Parameter(part, requires_grad=place.parameter.requires_grad)
    parameter._cut, parameter._ranks = place.cut, group
    for owner, name in place.owners:
        owner._parameters[name] = parameter
    return parameter


class Unit:
    """Parameters that are gathered together, before the forward pass of one module and in its backward pass."""

    def __init__(self, places: Sequence[Place], group: Group, let_go: bool = True) -> None:
        self.places, self.group, self.let_go = places, group, let_go
        self.open: list[saved_tensors_hooks] = []  # of forward passes under way

    def gathered(self) -> list[Tensor]:
        """Whole parameters, in the order of the places: one call for each element type."""
        kinds: dict[Any, list[Place]] = {}
        for place in self.places:
            kinds.setdefault(place.parameter.dtype, []).append(place)
        found: dict[int, Tensor] = {}
        for same in kinds.values():
            wholes = gathered([p.parameter for p in same], [p.cut for p in same], self.group, "avg")
            found.update({id(place): whole for place, whole in zip(same, wholes, strict=True)})
        return [found[id(place)] for place in self.places]

    def gather(self, module: Module, args: Any) -> None:
        """Let the owners see whole parameters."""
        wholes = self.gathered()
        for place, whole in zip(self.places, wholes, strict=True):
            for owner, name in place.owners:
                owner.__dict__[name] = whole
        if self.let_go and is_grad_enabled():
            self.open.append(Kept(self, wholes).hooks())
            self.open[-1].__enter__()

    def release(self, module: Module, args: Any, output: Any) -> None:
        """Let the owners see their parts again."""
        if self.open:
            self.open.pop().__exit__()
        for place in self.places:
            for owner, name in place.owners:
                owner.__dict__.pop(name, None)

    def __deepcopy__(self, memo: Any) -> Unit:
        raise StateError("a module that was cut by fully_shard cannot be copied; copy it before")


class Kept:
    """What one forward pass of a unit keeps for its backward pass: of whole parameters only which they are."""

    def __init__(self, unit: Unit, wholes: Sequence[Tensor]) -> None:
        self.unit, self.before = unit, mode.saved_hooks
        self.numbers = {_memory_of(whole): number for number, whole in enumerate(wholes)}
        self.uses = self.left = 0
        self.wholes: list[Tensor] | None = None

    def hooks(self) -> saved_tensors_hooks:
        return saved_tensors_hooks(self.pack, self.unpack)

    def pack(self, x: Tensor) -> Any:
        number = self.numbers.get(_memory_of(x))
        if number is not None:
            self.uses += 1
            return number
        return [x if self.before is None else self.before[0](x)]

    def unpack(self, kept: Any) -> Tensor:
        if isinstance(kept, list):
            return kept[0] if self.before is None else self.before[1](kept[0])
        if self.wholes is None:
            with no_grad():
                self.wholes, self.left = self.unit.gathered(), self.uses
        whole, self.left = self.wholes[kept], self.left - 1
        if not self.left:
            self.wholes = None
        return whole


def _memory_of(x: Tensor) -> Any:
    """Where a tensor lies, and how."""
    array = x.array
    return array.__array_interface__["data"][0], array.shape, array.strides


@no_grad()
def whole_state_dict(module: Module) -> dict[str, Tensor]:
    """The state dict with whole parameters, on every rank; all ranks call it."""
    found = {}
    for name, value in module.state_dict(keep_vars=True).items():
        cut = cut_of(value)
        found[name] = value.detach() if cut is None else gathered([value.detach()], [cut], value._ranks)[0]
    return found


@no_grad()
def load_whole_state_dict(module: Module, state: dict[str, Tensor]) -> None:
    """Take whole parameters and buffers: every rank keeps its part."""
    own = module.state_dict(keep_vars=True)
    if own.keys() != state.keys():
        missing, more = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
        raise EntryError(f"load_whole_state_dict: keys differ; missing {missing[:5]}, not known {more[:5]}")
    for name, value in own.items():
        cut = cut_of(value)
        value.detach().copy_(state[name] if cut is None else cut.filled(cut.part(state[name])))
