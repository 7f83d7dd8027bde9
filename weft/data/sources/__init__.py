"""Sources of real data: the canonical files of well-known sets, tables, text, graphs and series.

Every set takes `root=`, a folder, and without it looks into $WEFT_DATA and the cache (~/.cache/weft/data); with
`download=True` it fetches what is missing. Files are verified by their digests, also local ones: another file is
refused, unless `trusted()`. An error says which file belongs where.

    >>> train = sources.MNIST("data", download=True).as_tensors()  # doctest: +SKIP
"""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "errors": ("DigestError", "DownloadError", "MissingExtraError", "SourceError", "SourceWarning"),
    "fetch": ("cache_folder", "download", "find"),
    "trust": ("noting", "trusted"),
    "files": ("unpack",),
    "idx": ("MNIST", "FashionMNIST", "KMNIST", "read_idx"),
    "binarized": ("BinarizedMNIST",),
    "cifar": ("CIFAR10", "CIFAR100"),
    "image_folder": ("ImageFolder", "ImageNet"),
    "tables": ("Column", "Table"),
    "read_tables": ("read_table",),
    "ratings": ("Ratings", "read_ratings"),
    "tabular": (
        *("airline_passengers", "boston_housing", "breast_cancer", "california_housing", "daily_min_temperatures"),
        *("diabetes", "iris", "pima_diabetes", "sonar", "uci", "wine"),
    ),
    "text": ("Multi30k", "Names", "ParallelText", "SST2", "TREC", "TextFile", "TinyShakespeare", "WikiText2"),
    "graphs": ("Graph", "Planetoid", "TUDataset", "karate_club"),
    "series": ("JSBChorales", "Scaler", "Windows", "piano_roll", "split_by_time"),
}

# What `weft.data` offers of it: the sets themselves and tables, not how files are found and trusted.
_PARTS = (
    "idx",
    "binarized",
    "cifar",
    "image_folder",
    "tables",
    "read_tables",
    "tabular",
    "text",
    "graphs",
    "series",
    "ratings",
)
SETS = tuple(name for part in _PARTS for name in _NAMES[part])

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, ("catalogue",), _NAMES)
