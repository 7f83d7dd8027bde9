"""Which edges and features a prediction rests on: masks that keep it (Ying et al. 2019, GNNExplainer), and attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import weft

from ... import nn, optim
from ...errors import ArgumentError
from ...graphs.nn.gat import Attention
from ...nn import functional as F
from ...tensor import Tensor

__all__ = ["Explanation", "GNNExplainer", "attention_on_edges"]


class Explanation(NamedTuple):
    """How much each edge, (E,), and each feature, (F,), matters, from 0 to 1; and the prediction with the masks on."""

    edge_mask: Tensor
    node_mask: Tensor
    prediction: Tensor


class GNNExplainer:
    """Masks in (0, 1) of edges and of features, as small as they can be while the prediction stays.

        min over masks:  −log p(class | masked graph) + edge_size Σ m + edge_ent H(m) + feature_size mean f + feature_ent H(f)

    The masked graph has σ(m) as weights of its edges, so `model(x, edge_index, edge_weight)` must take weights; loops that a layer
    adds are not masked. The weights of the model are not touched.

    >>> from weft.models.graphs import GCN
    >>> explainer = GNNExplainer(epochs=2)
    >>> explainer(GCN(3, 8, 2), weft.ones(3, 3), weft.tensor([[0, 1], [1, 0]]), index=0).edge_mask.shape
    weft.Size([2])
    """

    def __init__(
        self,
        epochs: int = 100,
        lr: float = 0.05,
        edge_size: float = 0.005,
        edge_ent: float = 1.0,
        feature_size: float = 1.0,
        feature_ent: float = 0.1,
    ) -> None:
        self.epochs, self.lr = epochs, lr
        self.edge_size, self.edge_ent, self.feature_size, self.feature_ent = (
            edge_size,
            edge_ent,
            feature_size,
            feature_ent,
        )

    def __call__(
        self,
        model: Callable[..., Tensor],
        x: Tensor,
        edge_index: Tensor,
        *,
        index: int | Tensor | None = None,
        target: Tensor | None = None,
        generator: weft.Generator | None = None,
        **known: Any,
    ) -> Explanation:
        """The masks for what is said of one vertex or several (index), or of all rows; target: classes, by default the model's."""
        if isinstance(model, nn.Module):
            model.eval()
        rows = slice(None) if index is None else [index] if isinstance(index, int) else index
        with weft.no_grad():
            told = model(x, edge_index, weft.ones(edge_index.shape[1], dtype=x.dtype), **known)[rows].argmax(1)
        classes = told if target is None else target.reshape(-1)
        draw = lambda count, std: (std * weft.randn(count, generator=generator)).requires_grad_()
        edges, features = draw(edge_index.shape[1], 0.1), draw(x.shape[1], 0.1)
        optimizer = optim.Adam([edges, features], lr=self.lr)
        for _ in range(self.epochs):
            m, f = edges.sigmoid(), features.sigmoid()
            said = model(x * f, edge_index, m, **known)[rows]
            loss = F.cross_entropy(said, classes) + self.edge_size * m.sum() + self.edge_ent * _entropy(m)
            loss = loss + self.feature_size * f.mean() + self.feature_ent * _entropy(f)
            edges.grad, features.grad = weft.autograd.grad(loss, [edges, features])
            optimizer.step()
        with weft.no_grad():
            m, f = edges.sigmoid(), features.sigmoid()
            return Explanation(m, f, model(x * f, edge_index, m, **known)[rows])


def _entropy(m: Tensor) -> Tensor:
    """The mean of −m log m − (1 − m) log (1 − m)."""
    if not m.numel():
        return m.sum()
    return -(m * (m + 1e-15).log() + (1 - m) * (1 - m + 1e-15).log()).mean()


def attention_on_edges(model: nn.Module, *inputs: Any) -> list[tuple[Tensor, Tensor]]:
    """Edges and the weights that every layer of attention gives them, in the order the layers are called: (2, E), (E, H) each.

    >>> from weft.models.graphs import GAT
    >>> found = attention_on_edges(GAT(3, 4, 2, heads=2), weft.ones(2, 3), weft.tensor([[0, 1], [1, 0]]))
    >>> [alpha.shape for edges, alpha in found]
    [weft.Size([4, 2]), weft.Size([4, 1])]
    """
    layers = [part for part in model.modules() if isinstance(part, Attention)]
    if not layers:
        raise ArgumentError(f"attention_on_edges: {type(model).__name__} has no layer of attention")
    found: list[tuple[Tensor, Tensor]] = []
    for layer in layers:
        layer.watch = found.append
    try:
        model.eval()
        with weft.no_grad():
            model(*inputs)
    finally:
        for layer in layers:
            layer.watch = None
    return found
