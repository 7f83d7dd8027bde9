"""Optimiser state cut over ranks (ZeRO, stage 1): each rank updates its part of every parameter and sends it to all."""

from __future__ import annotations

from typing import Any

from ..distributed.groups import require_group
from ..distributed.shards import Cut, gathered
from ..errors import StateError, UnsupportedError
from ..runtime.cluster.group import Group as Ranks
from ..tape.modes import no_grad
from ..tensor import Tensor
from .optimizer import Group, Optimizer, State

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer):
    """`optimizer_class` with its state cut over N ranks: each keeps 1/N of it, and updates 1/N of every parameter.

    Gradients must be the same on all ranks, as DistributedDataParallel leaves them; the updated parts are then gathered, so
    parameters stay equal bit for bit. What is computed is what `optimizer_class` computes, if that treats elements one by one;
    optimisers that look at whole matrices (Muon, Adafactor) or make their own steps (LBFGS) are refused.

    process_group: the ranks; all of them by default
    parameters_as_bucket_view, overlap_with_ddp: accepted for PyTorch's sake
    defaults: the options of `optimizer_class`

    >>> import weft.distributed as dist
    >>> dist.init_process_group()
    >>> w = nn.Parameter(weft.ones(2))
    >>> optimizer = dist.optim.ZeroRedundancyOptimizer([w], optim.SGD, lr=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.5, 0.5]
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Ranks | None = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        self.process_group = require_group(process_group, "ZeroRedundancyOptimizer")
        groups = list(params)
        self.rule = optimizer_class([dict(g) if isinstance(g, dict) else g for g in groups], **defaults)
        if self.rule._has_own_step() or not self.rule._elementwise:
            raise UnsupportedError(
                f"ZeroRedundancyOptimizer: {optimizer_class.__name__} does not treat elements one by one, so its state cannot "
                "be cut; use it with DistributedDataParallel alone"
            )
        self._counters, self._refuses_sparse = self.rule._counters, self.rule._refuses_sparse
        super().__init__(groups, self.rule.defaults)
        if any(p.is_complex() for p in self._parameters()):
            raise UnsupportedError("ZeroRedundancyOptimizer: complex parameters are not cut; use the optimiser itself")
        self.register_step_post_hook(_gather)

    def cut(self, parameter: Tensor) -> Cut:
        """Which elements of a parameter this rank updates."""
        return Cut(tuple(parameter.shape), self.process_group.rank, self.process_group.size)

    def _step_natively(self, groups: list[Group]) -> bool:
        return False

    def _start(self, parameter: Tensor, group: Group) -> State:
        return self.rule._start(self.cut(parameter).part(parameter.detach()), group)

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        cut, target = self.cut(parameter), parameter.detach()
        part = cut.part(target)
        self.rule._update(part, cut.part(gradient), state, group)
        if not target.is_contiguous():
            raise StateError("ZeroRedundancyOptimizer: parameters must be contiguous; call .contiguous() on their data")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take options and this rank's part of the state; groups stay the same objects, as schedules may hold them."""
        groups = self.__dict__["param_groups"]
        super().load_state_dict(state_dict)
        for own, new in zip(groups, self.__dict__["param_groups"], strict=True):
            own.update(new)
        self.__dict__["param_groups"] = groups

    @no_grad()
    def gather_parameters(self) -> None:
        """Every rank's part of every parameter, to all ranks: one call for each element type."""
        kinds: dict[Any, list[Tensor]] = {}
        for parameter in self._parameters():
            kinds.setdefault(parameter.dtype, []).append(parameter.detach())
        for same in kinds.values():
            cuts = [self.cut(p) for p in same]
            parts = [cut.filled(cut.part(p)) for cut, p in zip(cuts, same, strict=True)]
            for p, whole in zip(same, gathered(parts, cuts, self.process_group), strict=True):
                p.copy_(whole)


def _gather(optimizer: ZeroRedundancyOptimizer, args: Any, kwargs: Any) -> None:
    if optimizer.process_group.size > 1:
        optimizer.gather_parameters()
