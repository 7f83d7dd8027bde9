"""Tokenisers: text to numbers and back. Here characters and words; `subword.py` has BPE and WordPiece.

All of them share `Tokenizer`'s interface. Special tokens have roles: pad, unk, bos, eos, sep, cls, mask.
"""

from __future__ import annotations

import io
import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import weft

from ...errors import OptionError
from ...io.atomic import open_regular
from ...tensor import Tensor
from .padding import PaddedBatch, pad_batch
from .vocabulary import Path, Vocabulary, write_json

__all__ = ["ROLES", "CharTokenizer", "Encoding", "Tokenizer", "WordTokenizer", "special_tokens", "texts_only"]

ROLES = ("pad", "unk", "bos", "eos", "sep", "cls", "mask")
FORMAT = "weft.tokenizer"
WORDS = r"\w+(?:['’]\w+)*"  # don't is one word
WORDS_AND_PUNCTUATION = WORDS + r"|[^\w\s]"
CLOSING = frozenset(".,;:!?%)]}…")  # written without a space before

Special = Mapping[str, str] | Sequence[str]


@dataclass(frozen=True)
class Encoding:
    """One text as tokens. offsets: (start, end) of each in the text, (0, 0) for special tokens that were added.

    segments: 0 for the first text, 1 for the second of a pair. special: whether the token was added.
    """

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    segments: list[int]
    special: list[bool]

    def __len__(self) -> int:
        return len(self.ids)


class Tokenizer(ABC):
    """What every tokeniser can do. `special` is role → token; len() is the number of tokens it knows."""

    special: dict[str, str]

    @classmethod
    def train(cls, texts: Iterable[str], **options: Any) -> Tokenizer:
        """A tokeniser for texts like these."""
        raise OptionError(f"{cls.__name__} only loads files; train a Char-, Word-, BPE- or WordPieceTokenizer")

    @abstractmethod
    def encoding(self, text: str, add_special_tokens: bool = True) -> Encoding:
        """The tokens of a text with their places in it."""

    @abstractmethod
    def encode_batch(
        self, texts: Sequence[str], add_special_tokens: bool = True, max_length: int | None = None
    ) -> list[list[int]]:
        """The numbers of the tokens of many texts, each cut to `max_length` with the special tokens kept."""

    @abstractmethod
    def decode(self, ids: Iterable[int] | Tensor, skip_special_tokens: bool = True) -> str:
        """The text of numbers."""

    @abstractmethod
    def token_to_id(self, token: str) -> int | None:
        """The number of a token, None if there is no such token."""

    @abstractmethod
    def id_to_token(self, number: int) -> str | None:
        """The token with a number, None if there is no such number."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write a file that ends in .json, or else a folder with a `tokenizer.json`; `load_tokenizer` reads both."""

    @classmethod
    def train_files(cls, files: Iterable[Path], **options: Any) -> Tokenizer:
        """A tokeniser for the lines of UTF-8 text files; options as in `train`."""
        return cls.train(_lines(files), **options)

    def encode(self, text: str, add_special_tokens: bool = True, max_length: int | None = None) -> list[int]:
        """The numbers of the tokens of a text."""
        return self.encode_batch([text], add_special_tokens, max_length)[0]

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text, nothing added."""
        return self.encoding(text, add_special_tokens=False).tokens

    def tensor(self, text: str, add_special_tokens: bool = True) -> Tensor:
        """The numbers as an int64 tensor. Shape: (T,)"""
        return weft.tensor(self.encode(text, add_special_tokens), dtype=weft.int64)

    def decode_batch(self, batch: Iterable[Iterable[int]] | Tensor, skip_special_tokens: bool = True) -> list[str]:
        """The texts of many rows of numbers."""
        return [self.decode(ids, skip_special_tokens) for ids in batch]

    def batch(
        self, texts: Sequence[str], add_special_tokens: bool = True, max_length: int | None = None, multiple: int = 1
    ) -> PaddedBatch:
        """The numbers of many texts, padded: data (B, T), lengths (B,), mask (B, T)."""
        if self.pad_id is None:
            raise OptionError(f"{type(self).__name__}.batch: there is no token for padding; train with special=['pad']")
        return pad_batch(self.encode_batch(texts, add_special_tokens, max_length), self.pad_id, multiple=multiple)

    def special_id(self, role: str) -> int | None:
        """The number of the special token with this role, None if there is none."""
        return self.token_to_id(self.special[role]) if role in self.special else None

    pad_id, unk_id, bos_id, eos_id, sep_id, cls_id, mask_id = (
        property(lambda self, role=role: self.special_id(role), doc=f"The number of the {role} token, or None.")
        for role in ROLES
    )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} tokens, special={self.special})"


class _VocabularyTokenizer(Tokenizer):
    """A tokeniser with a `Vocabulary`: subclasses say where tokens are and how they are put together."""

    kind: str

    def __init__(self, vocabulary: Vocabulary, special: Special = ()) -> None:
        self.vocabulary, self.special = vocabulary, special_tokens(special)
        missing = [token for token in self.special.values() if token not in vocabulary]
        if missing:
            raise OptionError(f"{type(self).__name__}: the special token {missing[0]!r} is not in the vocabulary")
        self._before, self._after = ([self.special_id(role)] * (role in self.special) for role in ("bos", "eos"))

    @abstractmethod
    def _spans(self, text: str) -> Iterator[tuple[str, int, int]]:
        """Token, start and end of each."""

    @abstractmethod
    def _split(self, text: str) -> Iterable[str]:
        """The tokens alone."""

    @abstractmethod
    def _join(self, tokens: list[str]) -> str: ...

    @abstractmethod
    def _options(self) -> dict[str, Any]:
        """What the constructor takes besides the vocabulary and the special tokens."""

    def encoding(self, text: str, add_special_tokens: bool = True) -> Encoding:
        spans = list(self._spans(text))
        before, after = (self._before, self._after) if add_special_tokens else ([], [])
        ids = [*before, *self.vocabulary.encode(token for token, _, _ in spans), *after]
        tokens = [*map(self.vocabulary.token, before), *(s[0] for s in spans), *map(self.vocabulary.token, after)]
        offsets = [*[(0, 0)] * len(before), *((start, end) for _, start, end in spans), *[(0, 0)] * len(after)]
        special = [*[True] * len(before), *[False] * len(spans), *[True] * len(after)]
        return Encoding(ids, tokens, offsets, [0] * len(ids), special)

    def encode_batch(
        self, texts: Sequence[str], add_special_tokens: bool = True, max_length: int | None = None
    ) -> list[list[int]]:
        before, after = (self._before, self._after) if add_special_tokens else ([], [])
        room = room_for(max_length, len(before) + len(after), type(self).__name__)
        return [[*before, *self.vocabulary.encode(self._split(text))[:room], *after] for text in texts_only(texts)]

    def decode(self, ids: Iterable[int] | Tensor, skip_special_tokens: bool = True) -> str:
        hidden = self.vocabulary.specials if skip_special_tokens else ()
        return self._join([token for token in self.vocabulary.decode(ids) if token not in hidden])

    def token_to_id(self, token: str) -> int | None:
        return self.vocabulary.ids.get(token)

    def id_to_token(self, number: int) -> str | None:
        return self.vocabulary.tokens[number] if 0 <= number < len(self) else None

    def __len__(self) -> int:
        return len(self.vocabulary)

    def save(self, path: Path) -> None:
        fields = {"special": self.special, **self._options(), **self.vocabulary.fields()}
        write_json(file_of(path), {"format": FORMAT, "kind": self.kind, **fields})

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], path: Path) -> _VocabularyTokenizer:
        """The tokeniser with the fields of a file."""
        known = {"format", "kind", "special", "tokens", "specials", "unknown"}
        options = {name: value for name, value in fields.items() if name not in known}
        return cls(Vocabulary.from_fields(fields, path), fields.get("special", {}), **options)


class CharTokenizer(_VocabularyTokenizer):
    """Each character is a token.

    Special tokens `bos` and `eos`, where there are any, are put around each text; `unk` stands for other characters.

    Example:
        >>> from weft.data.text import CharTokenizer
        >>> tokenizer = CharTokenizer.train(["hello world"])
        >>> tokenizer.encode("hold"), tokenizer.decode([3, 2, 4, 4, 5])
        ([3, 5, 4, 1], 'hello')
    """

    kind = "char"

    @classmethod
    def train(cls, texts: Iterable[str], special: Special = (), min_freq: int = 1) -> CharTokenizer:
        """The characters seen at least `min_freq` times, in the order of their code points, after the special tokens."""
        special = special_tokens(special)
        counts: Counter[str] = Counter()
        for text in texts_only(texts):
            counts.update(text)
        characters = sorted(character for character, count in counts.items() if count >= min_freq)
        return cls(Vocabulary(characters, special.values(), special.get("unk")), special)

    def _split(self, text: str) -> Iterable[str]:
        return list(text)

    def _spans(self, text: str) -> Iterator[tuple[str, int, int]]:
        return ((character, place, place + 1) for place, character in enumerate(text))

    def _join(self, tokens: list[str]) -> str:
        return "".join(tokens)

    def _options(self) -> dict[str, Any]:
        return {}


class WordTokenizer(_VocabularyTokenizer):
    """The matches of a regular expression are tokens: words and, unless left out, each punctuation mark.

    lower: tokens are in lower case; offsets are places in the text as it was. Decoding puts spaces between tokens, none
    before marks that close (. , ! …).

    Example:
        >>> from weft.data.text import WordTokenizer
        >>> tokenizer = WordTokenizer.train(["To be, or not to be!"])
        >>> tokenizer.tokenize("Not to be?"), tokenizer.decode(tokenizer.encode("not to be, be!"))
        (['not', 'to', 'be', '?'], 'not to be, be!')
    """

    kind = "word"

    def __init__(
        self,
        vocabulary: Vocabulary,
        special: Special = (),
        lower: bool = True,
        pattern: str = WORDS_AND_PUNCTUATION,
    ) -> None:
        super().__init__(vocabulary, special)
        self.lower, self.pattern, self._expression = lower, pattern, _compiled(pattern)

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        special: Special = ("pad", "unk"),
        min_freq: int = 1,
        max_size: int | None = None,
        lower: bool = True,
        punctuation: bool = True,
        pattern: str | None = None,
    ) -> WordTokenizer:
        """The words of texts, the most frequent first; options as in `Vocabulary.from_counts`.

        punctuation: whether marks are tokens; pattern: a regular expression of your own, for which it does not count.
        """
        special = special_tokens(special)
        if pattern is None:
            pattern = WORDS_AND_PUNCTUATION if punctuation else WORDS
        empty = cls(Vocabulary((), special.values()), special, lower, pattern)
        words = (empty._split(text) for text in texts_only(texts))
        options = {"min_freq": min_freq, "max_size": max_size, "unknown": special.get("unk")}
        return cls(Vocabulary.from_tokens(words, specials=special.values(), **options), special, lower, pattern)

    def _split(self, text: str) -> Iterable[str]:
        return [token for token, _, _ in self._spans(text)]

    def _spans(self, text: str) -> Iterator[tuple[str, int, int]]:
        for match in self._expression.finditer(text):
            word = match.group()
            if word:
                yield (word.lower() if self.lower else word), match.start(), match.end()

    def _join(self, tokens: list[str]) -> str:
        attached = CLOSING if self.pattern == WORDS_AND_PUNCTUATION else ()
        return "".join(token if token in attached else f" {token}" for token in tokens).removeprefix(" ")

    def _options(self) -> dict[str, Any]:
        return {"lower": self.lower, "pattern": self.pattern}


# ------------------------------------------------------------------------------------------- helpers


def special_tokens(special: Special) -> dict[str, str]:
    """role → token; roles alone get tokens like <pad>."""
    if isinstance(special, str):
        raise OptionError(f"special: expected a list of roles or a mapping role → token, got the string {special!r}")
    named = dict(special) if isinstance(special, Mapping) else {role: f"<{role}>" for role in special}
    unknown = [role for role in named if role not in ROLES]
    if unknown:
        raise OptionError(f"special: expected roles among {', '.join(ROLES)}, got {unknown[0]!r}")
    return named


def texts_only(texts: Iterable[str]) -> Iterable[str]:
    """The texts, unless one text was given in place of many."""
    if isinstance(texts, str):
        raise OptionError(f"expected several texts, got the string {texts[:20]!r}; put it into a list")
    return texts


def room_for(max_length: int | None, added: int, name: str) -> int | None:
    """How many tokens of a text may stay beside those that are added."""
    if max_length is None:
        return None
    if max_length < added:
        raise OptionError(f"{name}: max_length={max_length} has no room for {added} special tokens")
    return max_length - added


def file_of(path: Path) -> str:
    """Where a tokeniser is written: the path itself if it ends in .json, else tokenizer.json in that folder."""
    path = os.fspath(path)
    if path.endswith(".json"):
        return path
    os.makedirs(path, exist_ok=True)
    return os.path.join(path, "tokenizer.json")


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise OptionError(f"WordTokenizer: {pattern!r} is no regular expression: {error}") from None


def _lines(files: Iterable[Path]) -> Iterator[str]:
    """The lines of text files, ends of lines included."""
    if isinstance(files, (str, os.PathLike)):
        files = [files]
    for path in files:
        with io.TextIOWrapper(open_regular(path), encoding="utf-8", newline="") as file:
            yield from file
