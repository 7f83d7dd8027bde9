"""Autoencoders: x̂ = g(f(x)) with something in the way of copying: a narrow code, noise, a penalty, a prior (N1 §7.1)."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "adversarial": ("AdversarialAutoencoder",),
    "autoencoder": ("Autoencoder", "Penalty", "errors"),
    "contractive": ("Contraction", "SigmoidContraction", "jacobian_norm"),
    "convolutional": ("ConvolutionalAutoencoder",),
    "deep": ("DeepAutoencoder",),
    "denoising": ("GaussianNoise", "Masking", "SaltAndPepper"),
    "embedded_clustering": ("EmbeddedClustering", "soft_assignment", "target_distribution"),
    "features": ("EncoderClassifier",),
    "linear": ("LinearAutoencoder", "principal_angles"),
    "predictive_sparse": ("PredictiveSparseDecomposition",),
    "recurrent": ("RecurrentAutoencoder",),
    "regularised": ("RegularisedAutoencoder",),
    "sparse": ("KLSparsity", "L1Sparsity"),
    "stacked": ("StackedAutoencoder",),
    "threshold": ("ThresholdAutoencoder",),
    "tied": ("TiedAutoencoder",),
    "wasserstein": ("PriorMismatch", "WassersteinAutoencoder", "mmd"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
