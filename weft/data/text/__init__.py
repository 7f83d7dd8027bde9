"""Text as numbers: vocabularies, tokenisers, padded and packed batches, windows and corruptions for language models.

Example:
    >>> from weft.data.text import CharTokenizer, language_model_windows
    >>> tokenizer = CharTokenizer.train(["to be or not to be"])
    >>> inputs, targets = language_model_windows(tokenizer.tensor("to be or not"), length=4, stride=4)
    >>> [tokenizer.decode(row) for row in inputs], [tokenizer.decode(row) for row in targets]
    (['to b', 'e or'], ['o be', ' or '])
"""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "vocabulary": ("Vocabulary",),
    "tokenizers": ("CharTokenizer", "Encoding", "Tokenizer", "WordTokenizer"),
    "subword": ("BPETokenizer", "SubwordTokenizer", "WordPieceTokenizer"),
    "files": ("load_tokenizer",),
    "padding": ("PaddedBatch", "causal_mask", "length_mask", "pad_batch", "padding_mask"),
    "bucketing": ("BucketBatchSampler",),
    "packing": ("PackedRows", "next_token_targets", "pack_rows", "segment_mask", "unpack_rows"),
    "windows": ("BPTTDataset", "WindowDataset", "batchify", "language_model_windows"),
    "corruption": ("mask_tokens",),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
