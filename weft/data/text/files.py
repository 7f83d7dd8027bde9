"""Tokenisers from files, whatever their kind."""

from __future__ import annotations

import os

from ...io.bounded import load_json
from ...io.errors import FileFormatError
from .patterns import check_pattern
from .subword import BPETokenizer, SubwordTokenizer, WordPieceTokenizer
from .tokenizers import FORMAT, CharTokenizer, Tokenizer, WordTokenizer
from .vocabulary import Path

__all__ = ["load_tokenizer"]

KINDS = {cls.kind: cls for cls in (CharTokenizer, WordTokenizer)}


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokeniser that `save` wrote, or that of a Hugging Face folder or tokenizer.json.

    Example:
        >>> import tempfile
        >>> from weft.data.text import CharTokenizer, load_tokenizer
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     CharTokenizer.train(["weft"]).save(folder)
        ...     load_tokenizer(folder).encode("few")
        [1, 0, 3]
    """
    file = os.path.join(path, "tokenizer.json") if os.path.isdir(path) else os.fspath(path)
    fields = _fields(file) if os.path.isfile(file) or not os.path.isdir(path) else {}
    if fields.get("format") == FORMAT:
        return _from_fields(fields, file)
    backend = SubwordTokenizer.load(path)
    kinds = {cls.model: cls for cls in (BPETokenizer, WordPieceTokenizer)}
    return kinds.get(type(backend.backend.model).__name__, SubwordTokenizer)(backend.backend, backend.special)


def _fields(file: str) -> dict:
    try:
        fields = load_json(file)
    except FileFormatError as error:
        raise FileFormatError(f"{file}: expected the JSON file of a tokeniser, got something else ({error})") from None
    if not isinstance(fields, dict):
        raise FileFormatError(f"{file}: expected the JSON file of a tokeniser, found a {type(fields).__name__}")
    return fields


def _from_fields(fields: dict, file: str) -> Tokenizer:
    kind = fields.get("kind")
    if kind not in KINDS:
        raise FileFormatError(f"{file}: expected a tokeniser of kind {' or '.join(KINDS)}, found {kind!r}")
    if isinstance(fields.get("pattern"), str):
        check_pattern(fields["pattern"], file)
    try:
        return KINDS[kind].from_fields(fields, file)
    except FileFormatError:
        raise
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"{file}: {error}") from None
