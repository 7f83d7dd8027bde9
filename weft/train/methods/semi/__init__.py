"""Semi-supervised learning: a frame for two streams of examples, and methods in the names of USB (N1 §14).

>>> rows = labelled_subset(y, 100, seed=0)
>>> loader = SemiLoader(x, y, rows, batch_size=64, uratio=7, weak=RandomCrop(28, padding=2), strong=RandAugment(2, 10))
>>> Trainer(max_epochs=20).fit(FixMatch(model, p_cutoff=0.95, ema_m=0.999), loader, validation)
"""

from ....runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "streams": ("SemiBatch", "SemiLoader", "labelled_subset"),
    "base": ("SemiSupervised", "ema_teacher"),
    "parts": ("PseudoLabelQuality", "Ramp", "sharpen"),
    "pseudo_label": ("PseudoLabel",),
    "pi_model": ("PiModel",),
    "temporal_ensembling": ("TemporalEnsembling",),
    "vat": ("VAT", "virtual_adversary"),
    "mean_teacher": ("MeanTeacher",),
    "distillation": ("Distillation", "distillation_loss"),
    "alignment": ("DistributionAlignment",),
    "mixmatch": ("MixMatch",),
    "remixmatch": ("ReMixMatch",),
    "fixmatch": ("FixMatch",),
    "uda": ("UDA",),
    "flexmatch": ("FlexMatch",),
    "freematch": ("FreeMatch",),
    "ladder": ("Denoises", "Ladder"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
