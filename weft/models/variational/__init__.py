"""Variational models: p(x) = ∫ p(x | z) p(z) dz with a q(z | x) that bounds log p(x) from below (N0 §8.2, N1 §8, N3)."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "base": ("DenseVAE", "Draws", "LatentVariableModel", "VAE"),
    "conditions": ("ClassCondition", "Conditions", "Joined", "VectorCondition"),
    "likelihoods": ("Likelihood", "SharedVariance"),
    "objectives": ("BetaELBO", "CIWAE", "ELBO", "IWAE", "MIWAE", "Objective", "log_mean_exp"),
    "posteriors": ("DiagonalGaussian", "FullGaussian", "Posterior"),
    "priors": ("ConditionalNormal", "Prior", "StandardNormal"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
