"""What a model of data promises (`GenerativeModel`), and detectors that find what breaks a promise, on any model."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "baselines": ("BernoulliMixture", "FactorisedGaussian", "FullGaussian", "ProductOfBernoullis"),
    "checks": (
        *("binary_states", "check_autoregressive", "check_ema", "check_gradient_estimator", "check_invertible"),
        *("check_normalised", "grid", "influence"),
    ),
    "evaluation": ("BINARISATIONS", "Evaluation", "Likelihood", "evaluate", "rank", "split_hash"),
    "gan_checks": ("GANFound", "check_gan", "lipschitz_estimate"),
    "plans": ("Planned", "in_one_plan", "planned"),
    "protocol": ("Bound", "GenerativeModel", "PROTOCOL", "bound", "estimate", "exact"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
