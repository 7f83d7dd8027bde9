"""Flows: noise through invertible maps, exact densities of real numbers (N1 §10)."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "base": ("Flow", "FlowDistribution"),
    "bijector": ("Bijector", "Chain", "Inverted", "Transformed"),
    "iaf": ("IAF",),
    "maf": ("MAF",),
    "masked": ("MaskedBijector", "MaskedNetwork"),
    "noise": ("GaussianNoise", "LogisticNoise", "Noise", "UniformNoise"),
    "planar": ("Planar",),
    "radial": ("Radial",),
    "univariate": ("Affine", "Shift", "Univariate"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
