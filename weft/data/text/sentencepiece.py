"""Models of SentencePiece (Kudo and Richardson, 2018) as tokenisers: unigram and BPE, read from their protobuf files.

A file is a message: field 1, repeated, a piece (1 text, 2 score, 3 type), field 2 how it was trained (3 model type, 35
whether bytes stand for unknown characters, 40 the number of the unknown piece), field 3 how texts are normalised
(2 a table of characters, 3 whether a space goes before a text, 4 whether runs of spaces become one).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...errors import InvalidValueError, OptionError
from ...io.errors import FileFormatError
from .vocabulary import Path

__all__ = ["Piece", "SentencePieceModel", "read_sentencepiece"]

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)
UNIGRAM, BPE = 1, 2
SPACE = "▁"  # what stands for a space in pieces


@dataclass(frozen=True)
class Piece:
    """A token, its log-probability (unigram) or rank (BPE), and its type."""

    text: str
    score: float = 0.0
    kind: int = NORMAL


@dataclass(frozen=True)
class SentencePieceModel:
    """What a file says; characters: the library's table of replacements, empty if there is none."""

    pieces: list[Piece] = field(default_factory=list)
    kind: int = UNIGRAM
    unknown: int = 0
    bytes_for_unknown: bool = False
    characters: bytes = b""
    space_before: bool = True
    single_spaces: bool = True

    def backend(self, library: Any, pieces: list[Piece] | None = None, unknown: int | None = None) -> Any:
        """The tokeniser of the `tokenizers` library; pieces and unknown: others, where a model numbers them anew."""
        pieces, unknown = self.pieces if pieces is None else pieces, self.unknown if unknown is None else unknown
        if self.kind == UNIGRAM:
            table = [(piece.text, piece.score) for piece in pieces]
            model = library.models.Unigram(table, unknown, self.bytes_for_unknown)
        elif self.kind == BPE:
            numbers = {piece.text: number for number, piece in enumerate(pieces)}
            options = {"unk_token": pieces[unknown].text, "fuse_unk": True, "byte_fallback": self.bytes_for_unknown}
            model = library.models.BPE(numbers, _merges(pieces), **options)
        else:
            raise OptionError(f"SentencePiece: expected a unigram (1) or BPE (2) model, got model type {self.kind}")
        backend = library.Tokenizer(model)
        self._spaces(library, backend)
        added = [piece for piece in pieces if piece.kind in (UNKNOWN, CONTROL, USER)]
        for piece in added:  # they are found in texts as they stand
            token = library.AddedToken(piece.text, normalized=False, special=piece.kind != USER)
            (backend.add_tokens if piece.kind == USER else backend.add_special_tokens)([token])
        return backend

    def _spaces(self, library: Any, backend: Any) -> None:
        """Spaces become ▁, one before the text; back again when decoding."""
        norms, decoders = library.normalizers, library.decoders
        steps = [norms.Precompiled(self.characters)] if self.characters else []
        if self.single_spaces:
            steps += [norms.Replace(library.Regex(" {2,}"), " "), norms.Strip()]
        steps += [norms.Prepend(SPACE)] * self.space_before
        backend.normalizer = norms.Sequence([*steps, norms.Replace(" ", SPACE)])
        if self.kind == UNIGRAM and self.single_spaces:  # pieces do not go over spaces, and words are found again
            backend.pre_tokenizer = library.pre_tokenizers.Metaspace(prepend_scheme="never")
        back = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
        backend.decoder = decoders.Sequence(back + [decoders.Strip(" ", 1, 0)] * self.space_before)


def _merges(pieces: list[Piece]) -> list[tuple[str, str]]:
    """The pairs of pieces that make a piece, the best piece first."""
    known = {piece.text: number for number, piece in enumerate(pieces)}
    made = [piece for piece in pieces if piece.kind == NORMAL and len(piece.text) > 1]
    merges = []
    for piece in sorted(made, key=lambda piece: -piece.score):
        splits = ((piece.text[:cut], piece.text[cut:]) for cut in range(1, len(piece.text)))
        pairs = [(left, right) for left, right in splits if left in known and right in known]
        merges += sorted(pairs, key=lambda pair: (known[pair[0]], known[pair[1]]))
    return merges


# ------------------------------------------------------------------------------------------- files


def read_sentencepiece(path: Path) -> SentencePieceModel:
    """The model of a file such as spiece.model or tokenizer.model."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        return _model(data)
    except (ValueError, IndexError, struct.error) as error:
        raise FileFormatError(f"{path}: cannot be read as a model of SentencePiece ({error})") from None


def _model(data: bytes) -> SentencePieceModel:
    pieces, trained, normal = [], {}, {}
    for number, value in _fields(data):
        if number == 1:
            found = dict(_fields(value))
            score = struct.unpack("<f", found[2])[0] if 2 in found else 0.0
            pieces.append(Piece(found[1].decode(), score, found.get(3, NORMAL)))
        elif number == 2:
            trained = dict(_fields(value))
        elif number == 3:
            normal = dict(_fields(value))
    unknown = trained.get(40, 0)
    if not pieces or unknown >= len(pieces):
        raise InvalidValueError(f"{len(pieces)} pieces, the unknown one being number {unknown}")
    flags = bool(trained.get(35, 0)), normal.get(2, b""), bool(normal.get(3, 1)), bool(normal.get(4, 1))
    return SentencePieceModel(pieces, trained.get(3, UNIGRAM), unknown, *flags)


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a message: an integer, or bytes."""
    place = 0
    while place < len(data):
        key, place = _integer(data, place)
        kind = key & 7
        if kind == 0:
            value, place = _integer(data, place)
        elif kind in (1, 2, 5):
            size, place = _integer(data, place) if kind == 2 else ({1: 8, 5: 4}[kind], place)
            value, place = data[place : place + size], place + size
            if place > len(data):
                raise InvalidValueError(f"cut short: expected {place} bytes, found {len(data)}")
        else:
            raise InvalidValueError(f"a field of kind {kind} at byte {place}")
        yield key >> 3, value


def _integer(data: bytes, place: int) -> tuple[int, int]:
    """An integer in groups of seven bits, the lowest first, and the place after it."""
    value = shift = 0
    while True:
        byte = data[place]
        value, shift, place = value | (byte & 127) << shift, shift + 7, place + 1
        if byte < 128:
            return value, place
        if shift > 63:
            raise InvalidValueError(f"no integer at byte {place}")
