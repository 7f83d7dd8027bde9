"""Words with their vectors: similarity, nearest neighbours, analogies, and the `.vec` text format."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...errors import OptionError, ShapeError
from ...io.atomic import replacing
from ...io.errors import FileFormatError
from ...tensor import Tensor

__all__ = ["WordVectors"]

Path = str | os.PathLike[str]


class WordVectors:
    """One vector a word; similarity is the cosine of two vectors.

    >>> vectors = WordVectors(["king", "queen", "man", "woman"], [[1, 1], [1, -1], [0.1, 1], [0.1, -1]])
    >>> vectors.analogy("man", "king", "woman", topn=1)[0][0]
    'queen'
    """

    def __init__(self, words: Sequence[str], vectors: Tensor | NDArray | Sequence[Sequence[float]]) -> None:
        array = np.asarray(vectors.detach() if isinstance(vectors, Tensor) else vectors, np.float32)
        if array.ndim != 2 or len(array) != len(words):
            raise ShapeError(f"WordVectors: expected {len(words)} vectors (V, D), got shape {array.shape}")
        self.words, self.vectors = list(words), array
        self.places = {word: place for place, word in enumerate(self.words)}
        if len(self.places) != len(self.words):
            raise OptionError("WordVectors: expected distinct words")
        norms = np.linalg.norm(array.astype(np.float64), axis=1, keepdims=True)  # float32 squares may overflow
        self._unit = (array / np.where(norms > 0, norms, 1)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.places

    def __getitem__(self, word: str) -> NDArray[np.float32]:
        return self.vectors[self._place(word)]

    def similarity(self, first: str, second: str) -> float:
        """cos(v, w), in [−1, 1]."""
        return float(self._unit[self._place(first)] @ self._unit[self._place(second)])

    def most_similar(
        self, positive: str | Sequence[str], negative: Sequence[str] = (), topn: int = 10
    ) -> list[tuple[str, float]]:
        """The words nearest to the sum of unit vectors of `positive` minus those of `negative`, these left out."""
        positive = [positive] if isinstance(positive, str) else list(positive)
        given = [self._place(word) for word in (*positive, *negative)]
        signs = np.array([1.0] * len(positive) + [-1.0] * len(negative), np.float32)
        wanted = signs @ self._unit[given]
        scores = self._unit @ (wanted / max(np.linalg.norm(wanted), 1e-12))
        scores[given] = -np.inf
        best = np.argsort(-scores, kind="stable")[: max(0, min(topn, len(self) - len(set(given))))]
        return [(self.words[place], float(scores[place])) for place in best]

    def analogy(self, a: str, b: str, c: str, topn: int = 10) -> list[tuple[str, float]]:
        """a is to b as c is to …: the words nearest to b − a + c."""
        return self.most_similar([b, c], [a], topn)

    def save(self, path: Path) -> None:
        """Write the `.vec` format of word2vec and fastText: a line `V D`, then a word and its numbers on each line."""
        for word in self.words:
            if not word or word.split() != [word]:
                raise OptionError(f"WordVectors.save: a .vec file cannot hold the word {word!r} with white space in it")
        lines = [f"{len(self)} {self.vectors.shape[1]}"]
        lines += [f"{w} " + " ".join(map(_shortest, v)) for w, v in zip(self.words, self.vectors, strict=True)]
        with replacing(path) as file:
            file.write(("\n".join(lines) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> WordVectors:
        """Read a `.vec` file."""
        name = os.fspath(path)
        with open(path, encoding="utf-8") as file:
            count, width = _header(file.readline(), name)
            words, rows = [], np.empty((count, width), np.float32)
            for number, line in enumerate(file):
                if number == count:
                    raise FileFormatError(f"{name}: the first line tells of {count} words, there are more")
                word, *numbers = line.rstrip().split(" ")
                words.append(word)
                rows[number] = _row(numbers, width, f"{name}, line {number + 2}")
        if len(words) != count:
            raise FileFormatError(
                f"{name}: the first line tells of {count} words, there are {len(words)}; it is cut short"
            )
        return cls(words, rows)

    def _place(self, word: str) -> int:
        if word not in self.places:
            close = difflib.get_close_matches(str(word), self.words, n=1)
            raise OptionError(
                f"WordVectors: there is no word {word!r}" + (f"; did you mean {close[0]!r}?" if close else "")
            )
        return self.places[word]


def _shortest(number: np.float32) -> str:
    """The shortest decimal that reads back as the same float32."""
    return np.format_float_positional(number, trim="-")


def _header(line: str, name: str) -> tuple[int, int]:
    parts = line.split()
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        raise FileFormatError(f"{name}, line 1: expected the numbers of words and dimensions, got {line[:60]!r}")
    return int(parts[0]), int(parts[1])


def _row(numbers: list[str], width: int, place: str) -> list[float]:
    try:
        row = [float(number) for number in numbers]
    except ValueError:
        raise FileFormatError(f"{place}: expected a word and {width} numbers") from None
    if len(row) != width:
        raise FileFormatError(f"{place}: expected {width} numbers, got {len(row)}")
    return row
