"""Graphs: what they are, their matrices and spectra, classical methods on them, tasks and samples for training.

Names are PyTorch Geometric's where it has the thing. An edge_index is (2, E): sources above targets; the matrix A of a
graph has the weight of i → j at A[i, j]. Message passing layers are in `weft.graphs.nn`, models in `weft.models.graphs`.

    >>> graph = weft.graphs.Data(edge_index=weft.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    >>> weft.graphs.degree(graph.edge_index[0]).tolist()
    [1.0, 2.0, 1.0]
"""

from ..data.graph import Graph
from ..data.graph_batch import Batch
from ..runtime.lazy import later as _later

Data = Graph

_NAMES: dict[str, tuple[str, ...]] = {
    "centrality": (
        *("betweenness_centrality", "closeness_centrality", "degree_centrality", "eigenvector_centrality"),
        "katz_centrality",
    ),
    "checks": ("check_equivariant", "check_split", "permuted"),
    "clustering": (
        *("conductance", "cut_size", "eigengap", "modularity", "normalized_cut", "ratio_cut", "spectral_clustering"),
    ),
    "convert": (
        *("from_dense", "from_edge_list", "from_networkx", "from_scipy", "read_pyg", "to_dense_adj"),
        *("to_edge_list", "to_networkx", "to_scipy"),
    ),
    "drawing": ("GraphPicture", "circular_layout", "draw", "force_layout", "spectral_layout"),
    "edges": (
        *("add_remaining_self_loops", "add_self_loops", "coalesce", "degree", "k_hop_subgraph", "remove_self_loops"),
        *("subgraph", "to_undirected"),
    ),
    "folds": ("Fold", "NestedResult", "nested_evaluation", "nested_folds", "read_folds"),
    "generators": (
        *("barabasi_albert", "complete", "erdos_renyi", "grid", "path", "ring", "stochastic_block_model"),
        "watts_strogatz",
    ),
    "kinds.dynamic": ("TemporalData",),
    "kinds.hetero": ("HeteroData",),
    "loader": ("DataLoader",),
    "matrices": ("adjacency", "incidence", "laplacian"),
    "motifs": ("clustering_coefficient", "motif_counts", "motif_significance", "rewired", "triangles"),
    "negatives": ("negative_sampling",),
    "nn.readout": ("to_dense_batch",),
    "padding": ("PaddedBatches", "padded", "rounded_size"),
    "propagation": ("harmonic_labels", "label_propagation"),
    "ranking": ("Hits", "hits", "pagerank"),
    "sampling": ("NeighborLoader", "sample_neighbors"),
    "signals": (
        *("GraphFourier", "chebyshev_coefficients", "chebyshev_filter", "dft_matrix", "heat_filter", "high_pass"),
        *("largest_eigenvalue", "low_pass", "quadratic_form", "rayleigh_quotient", "spectral_convolution"),
    ),
    "similarity": ("knn_graph", "radius_graph", "similarity_graph"),
    "spectra": (
        *("Spectrum", "connected_components", "fiedler_vector", "spectral_embedding", "spectrum"),
        "subspace_distance",
    ),
    "splits": ("RandomLinkSplit", "RandomNodeSplit"),
    "stored": ("StoredGraph", "write_graph"),
    "walk_embeddings": ("deepwalk", "node2vec"),
    "walks": ("RandomWalk", "random_walk"),
}

__all__ = ["Batch", "Data", "Graph", *(name for names in _NAMES.values() for name in names)]

__getattr__, __dir__ = _later(__name__, ("nn", "segment"), _NAMES)
