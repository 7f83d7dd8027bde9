"""Variational models: p(x) = ∫ p(x | z) p(z) dz with a q(z | x) that bounds log p(x) from below (N0 §8.2, N1 §8, N3)."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "base": ("DenseVAE", "Draws", "LatentVariableModel", "VAE"),
    "collapse": (*("CodeReport", "CollapseMonitor", "active_units", "check_elbo", "code_report", "kl_per_dimension"),),
    "conditional": ("ConditionalVAE",),
    "conditions": ("ClassCondition", "Conditions", "Joined", "VectorCondition"),
    "flow_posteriors": ("FlowPosterior", "flow_posterior"),
    "gradient_estimators": ("DReG", "STL", "path_draws"),
    "gumbel": ("DenseGumbelVAE", "GumbelVAE", "RelaxedELBO", "gumbel_noise"),
    "hierarchical": ("HierarchicalVAE", "Levels", "MarkovVAE"),
    "info_vae": ("InfoELBO",),
    "ladder": ("LadderVAE",),
    "likelihoods": ("Likelihood", "SharedVariance"),
    "linear": ("LinearVAE",),
    "objectives": ("BetaELBO", "CIWAE", "ELBO", "IWAE", "MIWAE", "Objective", "WarmUp", "log_mean_exp"),
    "posteriors": ("DiagonalGaussian", "FullGaussian", "Posterior"),
    "priors": ("ConditionalNormal", "Prior", "StandardNormal"),
    "probabilistic_pca": ("ProbabilisticPCA",),
    "samplers": ("FlowSampler", "GaussianMixture", "MixtureSampler", "PriorSampler", "Sampler"),
    "semi_supervised": ("DenseSemiSupervisedVAE", "SemiSupervisedVAE"),
    "total_correlation": ("BetaTC", "Decomposition"),
    "quantizers": ("LearnedQuantizer", "Quantized", "Quantizer", "ResidualQuantizer", "VectorQuantizer"),
    "vade": ("MixturePrior", "VaDE"),
    "vamp_prior": ("DenseVampVAE", "VampPrior"),
    "vq_vae": ("VQVAE", "CodePrior", "ConvolutionalVQVAE", "UniformCodes"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
