"""Layers of graph networks, with PyTorch Geometric's names: message passing, convolutions, attention, pooling, readouts."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "aggregation": ("Aggregation", "AttentionalAggregation", "SoftmaxAggregation", "scatter", "softmax"),
    "gat": ("GATConv", "GATv2Conv"),
    "gcn": ("APPNP", "GCNConv", "SGConv"),
    "linear": ("Linear",),
    "message_passing": ("MessagePassing",),
    "normalize": ("gcn_matrix", "gcn_norm"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
