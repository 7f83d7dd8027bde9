"""Text: files of lines, labelled sentences, parallel corpora. Tokens and vocabularies are in `weft.data.text`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import OptionError
from ...io.errors import LayoutError
from ...tensor import wrap
from ..dataset import Dataset
from .catalogue import FILES, Source
from .errors import SourceError
from .fetch import Folder, find
from .files import text

__all__ = ["SST2", "TREC", "Multi30k", "Names", "ParallelText", "TextFile", "TinyShakespeare", "WikiText2"]


def _chosen(name: str, split: str, splits: Sequence[str]) -> str:
    if split not in splits:
        raise OptionError(f"{name}: split must be one of {', '.join(splits)}, got {split!r}")
    return split


def _lines(characters: str) -> list[str]:
    """Lines end with a line feed, with or without a carriage return; other separators belong to the text."""
    found = characters.split("\n")
    if found[-1] == "":
        found.pop()
    return [line.removesuffix("\r") for line in found]


class Lines(Dataset[str]):
    """Text as a whole (`text`), and its lines as samples."""

    def __init__(self, characters: str) -> None:
        self.text = characters
        self.lines = _lines(characters)

    @property
    def alphabet(self) -> list[str]:
        """The characters that occur, in order; line feeds among them if there are any."""
        return sorted(set(self.text))

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> str:
        return self.lines[index]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.lines)} lines, {len(self.text)} characters)"


class TextFile(Lines):
    """A text file, packed by gzip or not: `file.text` is all of it, `file[i]` line i without its end.

    Example:
        >>> TextFile("poems.txt")[0]  # doctest: +SKIP
        'From fairest creatures we desire increase,'
    """

    def __init__(self, path: str | os.PathLike[str], encoding: str = "utf-8") -> None:
        self.path = Path(path).expanduser()
        if not self.path.is_file():
            raise SourceError(f"TextFile: there is no file {self.path}")
        super().__init__(text(self.path, encoding))


class TinyShakespeare(Lines):
    """1.1 million characters of Shakespeare's plays in 65 different ones (Karpathy's char-rnn).

    split: "train" is the first nine tenths of the text, "val" the rest, "all" both
    """

    def __init__(self, root: Folder = None, split: str = "all", download: bool = False) -> None:
        _chosen("TinyShakespeare", split, ("train", "val", "all"))
        whole = text(find("tinyshakespeare/input.txt", root, download))
        border = int(len(whole) * 0.9)
        super().__init__({"train": whole[:border], "val": whole[border:], "all": whole}[split])


class Names(Lines):
    """32,033 first names in lower case, the most frequent first (Karpathy's makemore)."""

    def __init__(self, root: Folder = None, download: bool = False) -> None:
        super().__init__(text(find("makemore/names.txt", root, download)))


class WikiText2(Lines):
    """Wikipedia articles with rare words as <unk> (Merity et al. 2016): split "train", "valid" or "test".

    `tokens` are the words, with <eos> at the end of each line.
    """

    def __init__(self, root: Folder = None, split: str = "train", download: bool = False) -> None:
        _chosen("WikiText2", split, ("train", "valid", "test"))
        path = f"wikitext-2/{split}.txt"
        super().__init__(text(find(FILES.get(path) or Source(path), root, download)))

    @property
    def tokens(self) -> list[str]:
        return [token for line in self.lines for token in (*line.split(), "<eos>")]


# ------------------------------------------------------------------------------------------ labelled sentences
class Sentences(Dataset[tuple[Any, Any]]):
    """Sentences with a class each; sample i is (sentence, class)."""

    classes: tuple[str, ...] = ()

    def __init__(self, sentences: list[str], labels: list[int], transform: Callable[[str], Any] | None) -> None:
        self.sentences, self.targets = sentences, wrap(np.array(labels, np.int64))
        self.transform = transform

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        sentence = self.sentences[index]
        return sentence if self.transform is None else self.transform(sentence), int(self.targets[index])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} sentences, {len(self.classes)} classes)"


class SST2(Sentences):
    """Sentences and phrases of film reviews, negative (0) or positive (1) (Socher et al. 2013).

    split: "train", "dev" or "test"; the files have a row of names and a tab between sentence and label.
    """

    classes = ("negative", "positive")

    def __init__(
        self,
        root: Folder = None,
        split: str = "train",
        transform: Callable[[str], Any] | None = None,
        download: bool = False,
    ) -> None:
        path = find(f"sst2/{_chosen('SST2', split, ('train', 'dev', 'test'))}.tsv", root, download)
        header, *lines = _lines(text(path)) or [""]
        if header.split("\t") != ["sentence", "label"]:
            raise LayoutError(f"{path}, line 1: expected 'sentence<tab>label', got {header[:60]!r}")
        rows = [line.rpartition("\t") for line in lines]
        for number, (_, tab, label) in enumerate(rows, 2):
            if not tab or label not in ("0", "1"):
                raise LayoutError(f"{path}, line {number}: expected a sentence, a tab and 0 or 1")
        super().__init__([sentence.strip() for sentence, _, _ in rows], [int(row[2]) for row in rows], transform)


class TREC(Sentences):
    """Questions by what they ask for (Li & Roth 2002): 5452 for training, 500 for testing, 6 coarse classes.

    split: "train" or "test"; fine: classes such as `NUM:dist`, numbered in alphabetical order of the training file
    """

    coarse_classes = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
    files = {"train": "train_5500.label", "test": "TREC_10.label"}  # noqa: RUF012

    def __init__(
        self,
        root: Folder = None,
        split: str = "train",
        transform: Callable[[str], Any] | None = None,
        download: bool = False,
        fine: bool = False,
    ) -> None:
        name = self.files[_chosen("TREC", split, tuple(self.files))]
        rows = _questions(find(f"trec6/{name}", root, download))
        self.classes = self.coarse_classes
        if fine:
            known = rows if split == "train" else _questions(find(f"trec6/{self.files['train']}", root, download))
            self.classes = tuple(sorted({label for label, _ in known}))
        codes = {label: i for i, label in enumerate(self.classes)}
        labels = [label if fine else label.partition(":")[0] for label, _ in rows]
        if unknown := sorted(set(labels) - set(codes)):
            raise LayoutError(f"trec6/{name}: unknown class {unknown[0]!r}; the classes are {', '.join(self.classes)}")
        super().__init__([question for _, question in rows], [codes[label] for label in labels], transform)


def _questions(path: Path) -> list[tuple[str, str]]:
    """Lines such as `NUM:dist How far is it from Denver to Aspen ?`, in Latin-1."""
    rows = []
    for number, line in enumerate(_lines(text(path, "latin-1")), 1):
        label, blank, question = line.partition(" ")
        if not blank or ":" not in label:
            raise LayoutError(f"{path}, line {number}: expected 'CLASS:detail question', got {line[:60]!r}")
        rows.append((label, question))
    return rows


# ------------------------------------------------------------------------------------------ parallel corpora
class ParallelText(Dataset[tuple[str, ...]]):
    """Files whose lines are translations of each other, packed by gzip or not; sample i is a tuple of lines.

    Example:
        >>> ParallelText("train.en", "train.de")[0]  # doctest: +SKIP
        ('Two young, White males …', 'Zwei junge weiße Männer …')
    """

    def __init__(self, *paths: str | os.PathLike[str], encoding: str = "utf-8") -> None:
        if not paths:
            raise OptionError("ParallelText: at least one file is needed")
        self.sides = [_lines(text(path, encoding)) for path in paths]
        counts = [len(side) for side in self.sides]
        if len(set(counts)) > 1:
            listed = ", ".join(f"{Path(path).name}: {count}" for path, count in zip(paths, counts, strict=True))
            raise LayoutError(f"ParallelText: the files have different numbers of lines ({listed}); one is cut short")

    def __len__(self) -> int:
        return len(self.sides[0])

    def __getitem__(self, index: int) -> tuple[str, ...]:
        return tuple(side[index] for side in self.sides)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} lines in {len(self.sides)} files)"


class Multi30k(ParallelText):
    """Descriptions of pictures in English, German and French (Elliott et al. 2016): 29,000 / 1014 / 1000 lines.

    split: "train", "val" or "test" (test_2016_flickr); languages: of "en", "de", "fr", in the order wanted
    """

    files = {"train": "train", "val": "val", "test": "test_2016_flickr"}  # noqa: RUF012

    def __init__(
        self,
        root: Folder = None,
        split: str = "train",
        languages: Sequence[str] = ("en", "de"),
        download: bool = False,
    ) -> None:
        name = self.files[_chosen("Multi30k", split, tuple(self.files))]
        wrong = [language for language in languages if language not in ("en", "de", "fr")]
        if wrong or not languages:
            raise OptionError(f"Multi30k: languages are 'en', 'de' and 'fr', got {tuple(languages)}")
        self.languages = tuple(languages)
        super().__init__(*(find(f"multi30k/{name}.{language}.gz", root, download) for language in languages))
