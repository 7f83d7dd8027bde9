"""Layers of graph networks, with PyTorch Geometric's names: message passing, convolutions, attention, pooling, readouts."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "aggregation": ("Aggregation", "AttentionalAggregation", "SoftmaxAggregation"),
    "batch_norm": ("BatchNorm",),
    "cheb": ("ChebConv",),
    "edge_conditioned": ("NNConv",),
    "gat": ("GATConv", "GATv2Conv"),
    "gcn": ("APPNP", "GCNConv", "SGConv"),
    "gin": ("GINConv", "GINEConv"),
    "hetero": ("HeteroConv",),
    "linear": ("Linear",),
    "message_passing": ("MessagePassing",),
    "normalize": ("gcn_matrix", "gcn_norm"),
    "pool": ("SAGPooling", "TopKPooling", "cluster_pool", "dense_diff_pool", "filter_adj", "topk"),
    "positions": ("SignInvariant", "laplacian_positions", "random_signs", "random_walk_positions"),
    "readout": (
        *("GlobalVertex", "Set2Set", "global_add_pool", "global_max_pool", "global_mean_pool", "to_dense_batch"),
    ),
    "recurrent": ("FixedPointConv", "GatedGraphConv"),
    "sage": ("SAGEConv",),
    "transformer": ("GPSConv",),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
