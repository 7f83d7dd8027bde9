"""A vocabulary: tokens and their numbers, both ways."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...errors import OptionError
from ...io.atomic import replacing
from ...io.bounded import load_json
from ...io.errors import FileFormatError

__all__ = ["Vocabulary", "read_json", "write_json"]

Path = str | os.PathLike[str]
FORMAT = "weft.vocabulary"


class Vocabulary:
    """Distinct tokens numbered 0, 1, …: the specials first, then the others in the order given.

    unknown: the token that stands for tokens that are not there; without one they raise an error.

    Example:
        >>> from weft.data.text import Vocabulary
        >>> words = Vocabulary.from_counts({"be": 2, "to": 2, "or": 1}, specials=["<pad>", "<unk>"], unknown="<unk>")
        >>> words.tokens
        ('<pad>', '<unk>', 'be', 'to', 'or')
        >>> words.encode(["to", "sleep"]), words.decode([3, 1]), "or" in words
        ([3, 1], ['to', '<unk>'], True)
    """

    def __init__(self, tokens: Iterable[str] = (), specials: Iterable[str] = (), unknown: str | None = None) -> None:
        self.specials = tuple(dict.fromkeys(specials))
        self.tokens = (*self.specials, *(token for token in tokens if token not in self.specials))
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        self.unknown = unknown
        self._check()

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[str, int],
        specials: Iterable[str] = (),
        min_freq: int = 1,
        max_size: int | None = None,
        unknown: str | None = None,
    ) -> Vocabulary:
        """The tokens seen at least `min_freq` times, the most frequent first, equals in alphabetical order.

        max_size: at most so many tokens, the specials included.
        """
        specials = tuple(dict.fromkeys(specials))
        room = None if max_size is None else max_size - len(specials)
        if room is not None and room < 0:
            raise OptionError(f"Vocabulary: max_size={max_size} has no room for {len(specials)} special tokens")
        frequent = [token for token, count in counts.items() if count >= min_freq and token not in specials]
        return cls(sorted(frequent, key=lambda token: (-counts[token], token))[:room], specials, unknown)

    @classmethod
    def from_tokens(cls, sequences: Iterable[Iterable[str]], **options: Any) -> Vocabulary:
        """The vocabulary of tokenised texts; options as in `from_counts`."""
        counts: Counter[str] = Counter()
        for sequence in sequences:
            counts.update(sequence)
        return cls.from_counts(counts, **options)

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: object) -> bool:
        return token in self.ids

    def __iter__(self) -> Iterator[str]:
        return iter(self.tokens)

    def __getitem__(self, token: str) -> int:
        """The number of a token; that of `unknown` if it is not there."""
        number = self.ids.get(token)
        if number is None:
            number = self._unknown_id(token)
        return number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.fields() == other.fields()

    __hash__ = None

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens, specials={self.specials}, unknown={self.unknown!r})"

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """The numbers of tokens."""
        if isinstance(tokens, str):
            raise OptionError(f"Vocabulary.encode: expected a list of tokens, got the string {tokens[:20]!r}")
        tokens = list(tokens)
        try:
            return list(map(self.ids.__getitem__, tokens))  # five times faster than asking for each with a default
        except KeyError:
            return [self[token] for token in tokens]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The tokens with these numbers (a list, an array or a tensor of integers)."""
        return [self.token(number) for number in as_list(ids)]

    def token(self, number: int) -> str:
        """The token with this number."""
        if not 0 <= number < len(self.tokens):
            raise OptionError(f"Vocabulary: expected a number in 0 … {len(self) - 1}, got {number}")
        return self.tokens[number]

    def save(self, path: Path) -> None:
        """Write the vocabulary as JSON, atomically."""
        write_json(path, {"format": FORMAT, **self.fields()})

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """The vocabulary that `save` wrote."""
        return cls.from_fields(read_json(path, FORMAT), path)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], path: Path) -> Vocabulary:
        """The vocabulary with the fields of a file, which is named when they are wrong."""
        tokens, specials = fields.get("tokens"), fields.get("specials")
        if not _are_strings(tokens) or not _are_strings(specials):
            raise FileFormatError(f"{os.fspath(path)}: expected lists of strings named tokens and specials")
        try:
            made = cls(tokens, specials, fields.get("unknown"))
        except OptionError as error:
            raise FileFormatError(f"{os.fspath(path)}: {error}") from None
        if list(made.tokens) != tokens:
            raise FileFormatError(f"{os.fspath(path)}: expected the special tokens to come first")
        return made

    def fields(self) -> dict[str, Any]:
        """What a file holds of it; `from_fields` is the way back."""
        return {"tokens": list(self.tokens), "specials": list(self.specials), "unknown": self.unknown}

    def _check(self) -> None:
        if len(self.ids) != len(self.tokens):
            repeated = [token for token, count in Counter(self.tokens).items() if count > 1]
            raise OptionError(f"Vocabulary: expected distinct tokens, got {repeated[0]!r} more than once")
        if self.unknown is not None and self.unknown not in self.ids:
            raise OptionError(
                f"Vocabulary: the unknown token {self.unknown!r} is not in the vocabulary; make it special"
            )

    def _unknown_id(self, token: object) -> int:
        if self.unknown is None:
            raise OptionError(
                f"Vocabulary: {token!r} is not among the {len(self)} tokens, and there is no token for unknown ones; "
                "make the vocabulary with unknown='<unk>'"
            )
        return self.ids[self.unknown]


def as_list(ids: Any) -> list[int]:
    """Numbers of tokens as Python's integers."""
    return ids.tolist() if hasattr(ids, "tolist") else [int(number) for number in ids]


def write_json(path: Path, fields: Mapping[str, Any]) -> None:
    """Write a JSON file, atomically; characters beyond ASCII are escaped, so that unpaired surrogates survive."""
    text = json.dumps(fields, indent=1)
    with replacing(path) as file:
        file.write(text.encode())


def read_json(path: Path, kind: str) -> dict[str, Any]:
    """The fields of a JSON file whose field `format` is `kind`."""
    name = os.fspath(path)
    try:
        fields = load_json(path)
    except FileFormatError as error:
        raise FileFormatError(
            f"{name}: expected a JSON file of format {kind!r}, got something else ({error})"
        ) from None
    if not isinstance(fields, dict) or fields.get("format") != kind:
        found = fields.get("format") if isinstance(fields, dict) else type(fields).__name__
        raise FileFormatError(f"{name}: expected a JSON file of format {kind!r}, found {found!r}")
    return fields


def _are_strings(values: object) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str) and all(isinstance(v, str) for v in values)
