"""Graph networks: what they say of vertices, edges and whole graphs, and models that draw graphs (N2 §7)."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "autoencoders": ("GAE", "VGAE", "InnerProductDecoder", "VariationalGCNEncoder", "sampled_graph"),
    "convolutional": ("APPNPNet", "GAT", "GCN", "SGC"),
    "explain": ("Explanation", "GNNExplainer", "attention_on_edges"),
    "generation": ("GraphRows", "breadth_first", "rows_of"),
    "selfsupervised": ("DGI", "GraphMAE", "scaled_cosine_error"),
    "weisfeiler_leman": ("wl_colours", "wl_features", "wl_kernel"),
    "wholes": ("GIN", "MPNN", "DeepSets", "GraphSAGE", "GraphTransformer"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
