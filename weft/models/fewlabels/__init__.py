"""Learning with few labels or with poor ones: labelling functions and what can be made of their votes."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "label_model": ("LabelModel",),
    "labelling": ("ABSTAIN", "LFAnalysis", "LFApplier", "LabelingFunction", "labeling_function"),
    "voting": ("MajorityLabelVoter", "independent_vote"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
