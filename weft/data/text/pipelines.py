"""Pipelines of the `tokenizers` library that several tokenisers share: GPT-2's bytes, BERT's words, tokens put around."""

from __future__ import annotations

from typing import Any

from ...runtime.extras import extra

__all__ = ["bert", "byte_level", "library_of_tokenizers", "surround", "word_ends"]


def library_of_tokenizers() -> Any:
    return extra("tokenizers", "subword tokenisers need")


def byte_level(library: Any, backend: Any, space_before: bool = False) -> dict[str, Any]:
    """GPT-2's pipeline: every byte is a character of an alphabet of 256, a space belongs to the word after it."""
    backend.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=space_before)
    backend.decoder = library.decoders.ByteLevel()
    return {"initial_alphabet": library.pre_tokenizers.ByteLevel.alphabet()}


def word_ends(library: Any, backend: Any) -> dict[str, Any]:
    """The pipeline of Sennrich et al.: words between spaces, their last piece marked."""
    backend.pre_tokenizer = library.pre_tokenizers.WhitespaceSplit()
    backend.decoder = library.decoders.BPEDecoder(suffix="</w>")
    return {"end_of_word_suffix": "</w>"}


def bert(library: Any, backend: Any, lower: bool, **options: Any) -> None:
    """BERT's: punctuation and Chinese characters are words of their own; lower: lower case, no accents."""
    backend.normalizer = library.normalizers.BertNormalizer(lowercase=lower, **options)
    backend.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    backend.decoder = library.decoders.WordPiece()


def surround(library: Any, backend: Any, before: str | None, after: str | None, doubled: bool = False) -> None:
    """Put a token before each text and one after it, and after the second of a pair.

    doubled: as RoBERTa has it, two tokens between the texts of a pair and one segment for both.
    """
    added = [token for token in (before, after) if token is not None]
    if not added:
        return
    first, second = (f"{before} " if before else ""), (f" {after}" if after else "")
    pair = f"{first}$A{second}{second} $B{second}" if doubled else f"{first}$A{second} $B:1{second and second + ':1'}"
    backend.post_processor = library.processors.TemplateProcessing(
        single=f"{first}$A{second}",
        pair=pair,
        special_tokens=[(token, backend.token_to_id(token)) for token in dict.fromkeys(added)],
    )
