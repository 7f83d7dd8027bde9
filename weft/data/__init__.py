"""Data: sets and loaders, the canonical files of known sets, tables, text, augmentation, synthetic sets.

The parts are imported when they are first used. `load_digits()` needs no download; docs/data.md lists the other sets.

    >>> train = weft.data.MNIST("data", download=True)  # doctest: +SKIP
    >>> loader = weft.data.DataLoader(train.as_tensors(), batch_size=64, shuffle=True)  # doctest: +SKIP
"""

from ..runtime.lazy import later as _later
from .digits import load_digits
from .sources import SETS as _SETS

_NAMES: dict[str, tuple[str, ...]] = {
    "dataset": (
        "Dataset",
        "IterableDataset",
        "TensorDataset",
        "Subset",
        "ConcatDataset",
        "ChainDataset",
        "StackDataset",
        "random_split",
        "k_fold",
    ),
    "sampler": (
        "Sampler",
        "SequentialSampler",
        "RandomSampler",
        "SubsetRandomSampler",
        "WeightedRandomSampler",
        "BatchSampler",
        "DistributedSampler",
    ),
    "collate": ("default_collate", "default_convert"),
    "loader": ("DataLoader",),
    "workers": ("WorkerError", "get_worker_info"),
    "frames": ("FrameDataset", "from_frame"),
    "arrow": ("from_arrow", "from_hf", "from_parquet"),
    "mapped": ("ArrayWriter", "MappedArray", "MappedDataset"),
    "shards": ("ShardWriter", "ShardedDataset"),
    "sources": _SETS,
}
_MODULES = ("augment", "sources", "synthetic", "text")

__all__ = ["load_digits", *(name for names in _NAMES.values() for name in names)]

__getattr__, __dir__ = _later(__name__, _MODULES, _NAMES)
