"""Flows: noise through invertible maps, exact densities of real numbers (N1 §10)."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "base": ("Flow", "FlowDistribution"),
    "bijector": ("Bijector", "Chain", "Inverted", "Transformed"),
    "coupling": ("ContextMLP", "Coupling", "RowCoupling"),
    "iaf": ("IAF",),
    "linear": ("ActNorm", "BatchNorm", "InvertibleLinear", "LULinear", "Permutation", "Scaling"),
    "maf": ("MAF",),
    "masked": ("MaskedBijector", "MaskedNetwork"),
    "neural_spline": ("CircularSplineFlow", "NeuralSplineFlow"),
    "nice": ("NICE",),
    "noise": ("GaussianNoise", "LogisticNoise", "Noise", "UniformNoise"),
    "planar": ("Planar",),
    "radial": ("Radial",),
    "realnvp": ("RealNVP",),
    "spline": ("CircularSpline", "RationalQuadraticSpline"),
    "sylvester": ("Sylvester",),
    "univariate": ("Affine", "Shift", "Univariate"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
