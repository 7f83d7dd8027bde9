"""Ways to train that go with any model: pruning, curricula, ensembles, several tasks, transfer, adapters, attacks; and
`active`, who chooses what to label.

>>> from weft.train import methods
>>> methods.add_lora(model, "*.attention.*", rank=4)
"""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "pruning": (
        *("IterativePruning", "custom_from_mask", "global_unstructured", "identity", "is_pruned", "l1_unstructured"),
        *("ln_structured", "masks", "prunable", "random_structured", "random_unstructured", "remove", "sparsity"),
    ),
    "lottery": ("Lottery", "lottery_ticket"),
    "curriculum": ("CurriculumSampler", "difficulty", "linear_pacing", "root_pacing", "stair_pacing"),
    "ensembles": (
        *("BootstrapSampler", "Ensemble", "EnsemblePrediction", "ambiguity", "bagging", "deep_ensemble"),
        *("gaussian_mixture", "out_of_bag_mean", "variance_of_mean"),
    ),
    "multitask": ("FixedWeighting", "MultiHead", "MultiTask", "UncertaintyWeighting"),
    "transfer": (
        *("GradualUnfreezing", "KeepInEval", "count_parameters", "freeze", "layer_groups", "replace_head", "unfreeze"),
    ),
    "lora": (
        *("LoRA", "add_lora", "lora_state_dict", "load_lora_state_dict", "merge_lora", "remove_lora", "unmerge_lora"),
    ),
    "adapters": ("Adapter", "add_adapters"),
    "adversarial": ("AdversarialTraining", "Robustness", "fgsm", "pgd", "robustness"),
}

__all__ = [name for names in _NAMES.values() for name in names]

_MODULES = ("active", "semi")

__getattr__, __dir__ = _later(__name__, _MODULES, _NAMES)
