"""Games of two networks: one draws, the other tells its draws from data (N1 §9, Goodfellow et al. 2014). No likelihoods."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "augment": ("Augment",),
    "base": ("AdversarialModel",),
    "conditional": (
        *("AuxiliaryClassifier", "AuxiliaryClassifierGAN", "ConcatenationDiscriminator", "ConcatenationGenerator"),
        "ProjectionDiscriminator",
    ),
    "cyclegan": ("CycleGAN", "History"),
    "dcgan": ("DCDiscriminator", "DCGenerator"),
    "gan": ("GAN",),
    "gsn": ("GenerativeStochasticNetwork",),
    "infogan": ("InfoGAN",),
    "losses": (
        *("LOSSES", "AdversarialLoss", "hinge_discriminator", "hinge_generator", "least_squares_discriminator"),
        *("least_squares_generator", "logistic_discriminator", "minimax_generator", "non_saturating_generator"),
        *("wasserstein_discriminator", "wasserstein_generator"),
    ),
    "rows": ("mlp",),
    "pacgan": ("Packed",),
    "penalties": ("GradientPenalty", "ZeroPenalty", "gradient_penalty", "r1_penalty", "r2_penalty"),
    "theory": ("game_value", "jensen_shannon", "optimal_discriminator", "wasserstein_1d", "wasserstein_of_cdfs"),
    "training": ("AdversarialTraining",),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
