"""FlexMatch (Zhang et al. 2021): classes that are learned slowly get lower thresholds."""

from __future__ import annotations

from typing import Any

import weft

from ....errors import OptionError
from ....nn.module import Module
from ....tape.modes import no_grad
from ....tensor import Tensor
from .fixmatch import FixMatch
from .pseudo_label import confident
from .streams import SemiBatch

__all__ = ["FlexMatch"]


class FlexMatch(FixMatch):
    """FixMatch with a threshold of each class, τ_c = p_cutoff · β_c / (2 − β_c),  β_c = σ_c / max σ.

    σ_c counts the unlabelled examples whose last confident label is c; as long as most have none, the number of those
    stands in the maximum as well (`thresh_warmup`), which keeps thresholds low in the beginning.

    num_classes: C; ulb_dest_len: how many unlabelled examples there are (`SemiLoader.ulb_dest_len`)
    options: those of `FixMatch`

    >>> task = FlexMatch(nn.Linear(2, 3), num_classes=3, ulb_dest_len=1000)
    """

    selected: Tensor

    def __init__(
        self, model: Module, *, num_classes: int, ulb_dest_len: int, thresh_warmup: bool = True, **options: Any
    ) -> None:
        super().__init__(model, num_classes=num_classes, **options)
        if ulb_dest_len < 1:
            raise OptionError(f"FlexMatch: expected ulb_dest_len ≥ 1, got {ulb_dest_len}")
        self.thresh_warmup = thresh_warmup
        self.register_buffer("selected", weft.full((ulb_dest_len,), -1, dtype=weft.int64))

    def choose(self, p: Tensor, batch: SemiBatch) -> tuple[Tensor, Tensor]:
        beta = self.progress()
        largest, said = p.max(-1)
        mask = (largest >= self.p_cutoff * (beta / (2 - beta))[said]).to(p.dtype)
        with no_grad():
            _, sure = confident(p, self.p_cutoff)
            self.selected[batch.idx_ulb] = weft.where(sure > 0, said, self.selected[batch.idx_ulb])
        return said, mask

    def progress(self) -> Tensor:
        """β: (C)"""
        classes = weft.arange(self.num_classes)
        counts = (self.selected[:, None] == classes).sum(0).float()  # (N, C) → (C)
        most = counts.max()
        if self.thresh_warmup:
            most = weft.maximum(most, (self.selected < 0).sum().float())
        return counts / most.clamp(min=1)
