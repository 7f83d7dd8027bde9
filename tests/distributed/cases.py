"""Small models, their batches and optimisers, as every rank makes them: what ranks train together and one process alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft import nn
from weft.nn import functional as F

STEPS, WHOLE = 20, 12  # steps, and examples of a joined batch: 1, 2, 3 and 4 ranks have equal parts


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(7, 16), nn.Tanh(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return self.net(x)


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 4, 3, stride=2)
        self.norm, self.last = nn.SyncBatchNorm(6), nn.Linear(36, 3)

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return self.last(self.second(self.norm(self.first(x)).relu()).flatten(1))  # (B, 4, 3, 3) → (B, 36)


class Gpt(nn.Module):
    """Two blocks of causal attention over 8 tokens of 11 kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 12), nn.Parameter(weft.randn(8, 12) * 0.1)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(12, 2, 24, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(2)
        )
        self.norm, self.head = nn.LayerNorm(12), nn.Linear(12, 11)

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(8).to(self.places.dtype)
        h = self.tokens(x) + self.places  # (B, 8, 12)
        for block in self.blocks:
            h = block(h, src_mask=mask, is_causal=True)
        return self.head(self.norm(h))


def pictures(kind: Any, *shape: int) -> list[tuple[weft.Tensor, weft.Tensor]]:
    weft.manual_seed(5)
    return [(weft.randn(WHOLE, *shape, dtype=kind), weft.randint(0, 3, (WHOLE,))) for _ in range(STEPS)]


def texts(kind: Any) -> list[tuple[weft.Tensor, weft.Tensor]]:
    weft.manual_seed(6)
    drawn = [weft.randint(0, 11, (WHOLE, 9)) for _ in range(STEPS)]
    return [(x[:, :-1], x[:, 1:]) for x in drawn]


CASES: dict[str, tuple[Callable, Callable, Callable]] = {
    "mlp": (Mlp, lambda kind: pictures(kind, 7), lambda p: weft.optim.AdamW(p, lr=1e-2)),
    "cnn": (Cnn, lambda kind: pictures(kind, 2, 7, 7), lambda p: weft.optim.SGD(p, lr=5e-2, momentum=0.9)),
    "gpt": (Gpt, texts, lambda p: weft.optim.SGD(p, lr=0.1, momentum=0.9)),  # see docs/cluster.md: no Adam
}


def loss_of(model: nn.Module, x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
    out = model(x)
    return F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))


def part(x: weft.Tensor, rank: int, size: int) -> weft.Tensor:
    """The rows of one rank."""
    rows = len(x) // size
    return x[rank * rows : (rank + 1) * rows].clone()
