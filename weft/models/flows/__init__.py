"""Flows: noise through invertible maps, exact densities of real numbers (N1 §10)."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "base": ("Flow", "FlowDistribution"),
    "bijector": ("Bijector", "Chain", "Inverted", "Transformed"),
    "continuous": (*("Continuous", "ContinuousFlow", "VectorField", "exact_divergence", "hutchinson_divergence"),),
    "coupling": ("ContextMLP", "Coupling", "RowCoupling"),
    "dequantise": ("Dequantised", "Squash"),
    "distillation": ("distil",),
    "glow": ("ConvNet", "Glow", "MultiScale", "Squeeze", "inpaint"),
    "iaf": ("IAF",),
    "integral_transform": ("IntegralTransform", "between", "normal_conditionals"),
    "linear": ("ActNorm", "BatchNorm", "InvertibleLinear", "LULinear", "Permutation", "Scaling"),
    "maf": ("MAF", "MaskedAutoregressiveFlow"),
    "masked": ("MaskedBijector", "MaskedNetwork"),
    "neural_spline": ("CircularSplineFlow", "NeuralSplineFlow"),
    "nice": ("NICE",),
    "noise": ("GaussianNoise", "LogisticNoise", "Noise", "PowerNoise", "UniformNoise"),
    "planar": ("Planar",),
    "radial": ("Radial",),
    "realnvp": ("RealNVP",),
    "residual": ("LipschitzLinear", "Residual", "ResidualFlow", "exact_log_det", "roulette_log_det"),
    "sequences": ("SequenceBijector", "SequenceFlow"),
    "spline": ("CircularSpline", "RationalQuadraticSpline"),
    "sylvester": ("Sylvester",),
    "univariate": ("Affine", "Shift", "Univariate"),
    "wasserstein": (
        *("jko_normal", "jko_step", "kernel_score", "normal_score", "ornstein_uhlenbeck", "particle_flow"),
    ),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
