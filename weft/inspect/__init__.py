"""Looking into models: what they are made of, what they compute, what they learn and where they look.

Every tool returns data, and the data draw themselves: `.figure()` is a matplotlib figure, `.save(path)` a PNG file.
"""

from ..runtime.lazy import later as _later
from .summary import Row, Summary, summary

_NAMES: dict[str, tuple[str, ...]] = {
    "theory.counts": ("LayerCount", "ParameterCounts", "mlp_parameters", "parameter_counts", "parameters_of_widths"),
    "theory.bounds": ("RegionBounds", "cells_of_arrangement", "region_bounds", "zigzag_network"),
    "theory.regions": ("LineRegions", "PlaneRegions", "line_regions", "plane_regions", "plane_through"),
    "theory.construction": (
        *("Approximation", "approximate_by_lines", "approximate_by_towers", "bump_bound", "bump_network"),
        *("cells_needed", "tower_bound", "tower_network"),
    ),
    "theory.symmetry": ("Symmetries", "canonical", "flip_signs", "permute_units", "symmetries", "symmetry_count"),
    "theory.commuting": (
        *("Symmetry", "equivariance", "invariance", "permutation_equivariance", "permutation_invariance"),
        *("translation_equivariance", "translation_invariance"),
    ),
    "theory.paths": ("LayerCost", "ScoreScale", "dependence", "layer_costs", "path_length", "score_scales"),
    "theory.stretch": (
        *("LayerNormBound", "Lipschitz", "PowerIteration", "jacobian_norms", "jacobian_norms_by_power", "jacobians"),
        *("lipschitz", "power_iteration"),
    ),
    "theory.convex": (
        *("Convexity", "CounterExample", "HullCertificate", "convex_counterexample", "convexity"),
        *("hull_certificate", "jensen_gap", "set_counterexample"),
    ),
    "theory.depth": (
        *("Degradation", "DepthAgainstWidth", "deep_network", "degradation", "depth_against_width"),
        *("expected_gradient_correlation", "gradient_correlation", "sensitivity_over_time"),
    ),
    "theory.graphs": ("GraphBound", "GraphLipschitz", "graph_line_regions", "graph_lipschitz"),
    "signals": (
        *("ActivationStatistics", "GradientFlow", "LayerActivations", "LayerGradient", "UpdateWatch"),
        *("activation_statistics", "gradient_flow"),
    ),
    "feature_maps": ("ActivationMaps", "Filters", "activation_maps", "filters"),
    "attribution": ("ClassMaps", "cam", "grad_cam", "saliency"),
    "attending": ("AttentionMaps", "attention_maps"),
    "receptive": ("ReceptiveField", "receptive_field"),
    "projection": ("Projection", "pca", "svd_projection"),
    "neighbours": (
        *("Embedding", "barnes_hut_gradient", "exact_gradient", "joint_probabilities", "kl_divergence"),
        *("neighbour_probabilities", "perplexity_search", "trustworthiness", "tsne"),
    ),
    "latent": ("ImageGrid", "interpolation_grid", "latent_manifold", "latent_traversal"),
    "landscape": (
        *("Landscape", "between", "loss_landscape", "loss_line", "random_direction", "trajectory_directions"),
    ),
}

__all__ = ["Row", "Summary", "summary", *(name for names in _NAMES.values() for name in names)]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
