"""Models that factorise, p(x) = Πᵢ p(xᵢ | x_<i): exact likelihoods, samples drawn one element after the other (N1 §6, N2 §5.4)."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "base": ("Autoregressive",),
    "causal_conv": ("CausalConv2d", "VerticalConv2d"),
    "fvsbn": ("FVSBN",),
    "gated_pixelcnn": ("GatedPixelCNN",),
    "heads": (
        *("BernoulliHead", "CategoricalHead", "ContinuousBernoulliHead", "GaussianHead", "GaussianMixtureHead", "Head"),
        *("LaplaceMixtureHead", "LogisticMixtureHead"),
    ),
    "images": ("ConvolutionalImages", "Images"),
    "made": ("MADE", "MaskedLinear"),
    "nade": ("NADE", "RNADE"),
    "orderless": ("OrderlessNADE",),
    "pixelcnn": ("PixelCNN",),
    "pixelrnn": ("DiagonalBiLSTM", "PixelRNN", "RowLSTM"),
    "series": ("SeriesDensity", "TokenDensity"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
