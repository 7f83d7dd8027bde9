"""Learning with few labels or with poor ones: labelling functions and what can be made of their votes; encoders that learn
without any label, and probes that tell what their features are good for."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "diagnosis": ("Diagnosis", "diagnose"),
    "label_model": ("LabelModel",),
    "ladder": ("Combinator", "LadderNetwork"),
    "labelling": ("ABSTAIN", "LFAnalysis", "LFApplier", "LabelingFunction", "labeling_function"),
    "base": ("follower", "update_momentum"),
    "byol": ("BYOL",),
    "collapse": ("effective_rank", "std_of_l2_normalized"),
    "episodes": ("EpisodicSampler", "draw_pairs", "support_and_query"),
    "heads": ("ProjectionHead",),
    "hiding": ("hidden_count", "hidden_places"),
    "masked_images": ("MaskedAutoencoder", "PatchEncoder", "Reconstruction", "patchify", "unpatchify"),
    "masked_tables": ("MaskedTable", "TableEncoder"),
    "memory_bank": ("MemoryBank",),
    "moco": ("MoCo",),
    "probes": ("KNNProbe", "LinearProbe", "features", "frozen", "knn_probe", "linear_probe"),
    "prototypical": ("PrototypicalNetwork",),
    "redundancy": ("BarlowTwins", "VICReg"),
    "siamese": ("SiameseNetwork",),
    "simclr": ("SimCLR",),
    "simsiam": ("SimSiam",),
    "training": ("ViewTraining",),
    "view_losses": ("BarlowTwinsLoss", "NTXentLoss", "NegativeCosineSimilarity", "VICRegLoss"),
    "voting": ("MajorityLabelVoter", "independent_vote"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
