"""word2vec-shakespeare: vectors of words from Tiny Shakespeare by negative sampling, and what they know of new text.

Skip-gram learns which words stand near which: at its optimum u_o·v_c = ln P(o | c) − ln k q(o), q the distribution that wrong
words are drawn from (O. Levy, Y. Goldberg, 2014). So P(o | c) ∝ q(o) exp(u_o·v_c), and the figure is −ln P of the words near
each other in text that nothing was learnt or chosen from. A pair that never occurred has a probability because its words are
like others: that is what vectors add to counts. The baseline is the counts themselves, smoothed as suits other text best.
Seen at seeds 101 to 103, which nothing was chosen with: 5.939 to 5.941 nats against 5.965.

Vectors are used for similarity as well: for pairs that belong together (man and woman, may and might …), how many words are
nearer to the first than the second is? There counts are the better ones on a text this small: PPMI with an SVD, its window
and length chosen with other pairs, has a median rank of 3, skip-gram one of 9 to 17. Both are printed; they are not the goal.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import weft

from ... import nn, optim
from ...data.sources import TinyShakespeare
from ...data.text import Vocabulary
from ...data.text.tokenizers import WORDS
from ...models.text.word2vec import Word2Vec, skipgram_pairs
from ...models.text.word_vectors import WordVectors
from ...tensor import Tensor
from ...train import Task
from .. import pictures
from ..base import Goal, Recipe, Root, Run
from ..baselines import ppmi, svd_vectors
from ..settings import TrainSettings, option
from ..shared import loaders, one_cycle
from .words import UNKNOWN, TextSplits, Words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

F = nn.functional
CHOSEN_BY = (  # pairs that window and length of PPMI with an SVD are chosen with
    *(("king", "queen"), ("brother", "sister"), ("father", "mother"), ("lord", "lady"), ("he", "she"), ("his", "her")),
    *(("day", "night"), ("is", "was"), ("shall", "will"), ("go", "come"), ("heaven", "god"), ("son", "daughter")),
    *(
        ("wife", "husband"),
        ("love", "hate"),
        ("eyes", "tears"),
        ("duke", "king"),
        ("sword", "blood"),
        ("life", "death"),
    ),
    *(("sun", "moon"), ("hand", "arm"), ("great", "little"), ("give", "take"), ("see", "look"), ("am", "are")),
    *(("thy", "your"), ("my", "our"), ("now", "then"), ("never", "ever"), ("joy", "grief"), ("two", "three")),
)
PAIRS = (  # pairs that nothing was chosen with
    *(("man", "woman"), ("men", "women"), ("heart", "soul"), ("head", "face"), ("eye", "ear"), ("good", "bad")),
    *(("old", "young"), ("first", "last"), ("true", "false"), ("sweet", "fair"), ("live", "die"), ("speak", "hear")),
    *(("think", "know"), ("was", "were"), ("hath", "have"), ("doth", "did"), ("may", "might"), ("should", "would")),
    *(("can", "cannot"), ("thou", "you"), ("thee", "me"), ("him", "them"), ("here", "there"), ("up", "down")),
    *(("before", "after"), ("more", "less"), ("many", "few"), ("this", "that"), ("friend", "enemy"), ("war", "peace")),
    *(("rich", "poor"), ("house", "home"), ("sea", "land"), ("bring", "send"), ("call", "name"), ("hope", "fear")),
)
Pairs = tuple[tuple[str, str], ...]
LENGTHS = (50, 100, 200)  # of the baseline's vectors
SHOWN = ("king", "brother", "mother", "love", "day", "tongue", "she", "thou", "is", "shall", "go", "fear")


@dataclass(kw_only=True)
class Word2VecSettings(TrainSettings):
    """Settings of word2vec-shakespeare."""

    epochs: int = 4
    batch_size: int = 1024
    lr: float = 2e-2
    weight_decay: float = option(1e-5, "strength of the penalty on squared weights", at_least=0)
    words: int = option(2000, "the most frequent words get vectors, the others are left out", at_least=10)
    dim: int = option(32, "length of the vectors", at_least=1)
    window: int = option(3, "words on each side", at_least=1)
    negatives: int = option(5, "words drawn for each right one", at_least=1)
    limit: int | None = option(None, "use only so many characters of the text", at_least=1000)


@dataclass
class WordSplits(TextSplits):
    """Pairs, the words, how often each occurs, and the texts for training, choosing and testing as numbers."""

    counts: np.ndarray
    text: np.ndarray
    chosen_by: np.ndarray
    fresh: np.ndarray


class Vectors(Task):
    """The model with its words."""

    def __init__(self, settings: Word2VecSettings, splits: WordSplits | None) -> None:
        super().__init__()
        self.settings, self.splits = settings, splits
        self.words = Words(splits.vocabulary if splits else None)
        counts = splits.counts if splits else np.ones(settings.words)
        self.model = Word2Vec(counts, settings.dim, negatives=settings.negatives)

    def training_step(self, batch: Any) -> Tensor:
        return self.model(*batch)

    def validation_step(self, batch: Any) -> Tensor:
        self.log("val_nats", self.nats(*batch))
        return self.model(*batch)

    def test_step(self, batch: Any) -> Tensor:
        self.log("test_nats", self.nats(*batch))
        for name, pairs in (("pairs_median_rank", PAIRS), ("chosen_by_median_rank", CHOSEN_BY)):
            self.log(name, ranks(self.both(), self.words.vocabulary, pairs).median())
        return self.model(*batch)

    def nats(self, given: Tensor, near: Tensor) -> Tensor:
        """Mean −ln P(near | given), P(o | c) ∝ q(o) exp(u_o·v_c). Shape: (B,), (B,) → ()"""
        scores = F.linear(self.model.hidden(given), self.model.outputs.weight)  # (B, V)
        return F.cross_entropy(scores + self.model.proposal.probability.log(), near)

    def both(self) -> Tensor:
        """(v, u) of each word: words are alike when they have like neighbours and stand near like words. Shape: (V, 2 D)"""
        rows = len(self.words.vocabulary)
        return weft.cat([self.model.vectors.weight[:rows], self.model.outputs.weight[:rows]], -1)

    def configure_optimizers(self) -> Any:
        optimizer = optim.Adam(self.parameters(), lr=self.settings.lr, weight_decay=self.settings.weight_decay)
        return {"optimizer": optimizer, "lr_scheduler": one_cycle(self.settings, self.splits, 0.1)(optimizer)}

    def vectors(self) -> WordVectors:
        """The vectors of all words."""
        return WordVectors(self.words.vocabulary.tokens[1:], self.both()[1:])


class Word2VecShakespeare(Recipe):
    """Leaves `vectors.vec` and a table of neighbours in its folder."""

    title = "Tiny Shakespeare, vectors of words (word2vec)"
    Settings = Word2VecSettings
    goal = Goal(
        "test_nats",
        at_most=5.95,
        data="51,252 pairs of near words in fresh text (nats a pair; word frequencies alone have 6.02)",
        baseline="smoothed counts of the pairs",
        margin=0.015,
    )
    example = "a word, such as king"

    def data(self, settings: Word2VecSettings, root: Root = None) -> WordSplits:
        train, rest = (
            _words(TinyShakespeare(root, part, download=root is None).text[: settings.limit])
            for part in ("train", "val")
        )
        known = Vocabulary.from_counts(Counter(train), specials=[UNKNOWN], max_size=settings.words)
        numbers, others = ([known.ids[word] for word in part if word in known.ids] for part in (train, rest))
        texts = np.array(numbers), *np.array_split(np.array(others), 2)
        splits = loaders(settings, *(skipgram_pairs(text, settings.window) for text in texts))
        # every row may be drawn, those without a word hardly ever
        counts = np.maximum(np.bincount(numbers, minlength=settings.words), 1e-6)
        return WordSplits(splits.train, splits.validation, splits.test, known, counts, *texts)

    def task(self, settings: Word2VecSettings, splits: WordSplits | None = None) -> Vectors:
        return Vectors(settings, splits)

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        splits = self.data(run.settings, run.root)
        task = self.task(run.settings, splits)
        trainer = run.trainer()
        trainer.fit(task, splits.train, splits.validation, resume=run.resume)
        task.vectors().save(run.folder.path / "vectors.vec")
        run.draw(lambda: neighbours_picture(task.vectors()))
        figures = self.judged(trainer.test(task, splits.test), run.settings, splits)
        return figures | {"ppmi_svd_median_rank": ppmi_svd_rank(splits)}, task

    def baseline(self, settings: Word2VecSettings, splits: WordSplits) -> float:
        texts = splits.text, splits.chosen_by, splits.fresh
        return smoothed_counts_nats(*(near_counts(text, settings.words, settings.window) for text in texts))

    def predict(self, task: Vectors, input: Any) -> Any:
        near = task.vectors().most_similar(str(input).strip().lower(), topn=8)
        return [{"word": word, "similarity": round(similarity, 3)} for word, similarity in near]


def ranks(vectors: Tensor, known: Vocabulary, pairs: Pairs = PAIRS) -> Tensor:
    """For each pair that the vocabulary has, how many words are nearer to the first than the second. Shape: (P,)"""
    numbers = weft.tensor([[known[a], known[b]] for a, b in pairs if a in known and b in known] or [[0, 0]])
    unit = F.normalize(vectors, dim=-1)
    scores = unit[numbers[:, 0]] @ unit.T  # (P, V)
    own = scores.gather(1, numbers[:, 1:])
    return (scores > own).sum(1).float() - 1  # the word itself is nearer than any other


def median_rank(vectors: Tensor, known: Vocabulary, pairs: Pairs = PAIRS) -> float:
    return ranks(vectors, known, pairs).median().item()


def ppmi_svd_rank(splits: WordSplits) -> float:
    """The rank by vectors that come from counting: PPMI, then SVD; window and length as suits the other pairs best."""
    found = []
    for window in (2, 3, 5):
        every = svd_vectors(ppmi(splits.text, len(splits.vocabulary), window), max(LENGTHS))
        for length in LENGTHS:
            vectors = weft.tensor(np.ascontiguousarray(every[:, :length]))  # the leading ones of an SVD are its first
            found.append([median_rank(vectors, splits.vocabulary, pairs) for pairs in (CHOSEN_BY, PAIRS)])
    return min(found, key=lambda both: both[0])[1]


def near_counts(text: np.ndarray, size: int, window: int) -> np.ndarray:
    """How often each word stands within `window` words of each other one. Shape: (N,) → (V, V)"""
    counts = np.zeros((size, size))
    for distance in range(1, window + 1):
        pairs = np.bincount(text[:-distance] * size + text[distance:], minlength=size**2).reshape(size, size)
        counts += pairs + pairs.T
    return counts


def smoothed_counts_nats(train: np.ndarray, chosen_by: np.ndarray, test: np.ndarray) -> float:
    """Mean −ln P over pairs of fresh text, given as counts n (V, V) of pairs, where with a discount δ and a prior of weight μ

        P(o | c) = (max(n_co − δ, 0) + r_c p(o)) / (n_c + μ),   p(o) the share of o,   r_c what then is left

    δ and μ are those that suit the second text best; δ = 0 is Dirichlet's prior, μ = 0 absolute discounting.
    """
    total, share = train.sum(1, keepdims=True), (train.sum(0) + 0.5) / (train.sum() + 0.5 * len(train))
    found = []
    for discount in (0.0, 0.25, 0.5, 0.75):
        kept = np.maximum(train - discount, 0)
        for weight in (100, 200, 400, 800, 1600, 3200, 6400):
            left = total - kept.sum(1, keepdims=True) + weight
            log_p = np.log((kept + left * share) / (total + weight))
            found.append([-(counts * log_p).sum() / counts.sum() for counts in (chosen_by, test)])
    return float(min(found, key=lambda both: both[0])[1])


def _words(text: str) -> list[str]:
    """Words in lower case, without punctuation."""
    return re.findall(WORDS, text.lower())


def neighbours_picture(vectors: WordVectors) -> Figure:
    """The six nearest words of a few, shaded by similarity."""
    shown = [word for word in SHOWN if word in vectors]
    near = [vectors.most_similar(word, topn=6) for word in shown]
    figure, axes = pictures.blank("word2vec-shakespeare: nearest neighbours", width=8, height=0.36 * len(shown) + 1)
    axes.imshow([[s for _, s in row] for row in near], cmap="Blues", vmin=0, vmax=1.4, aspect="auto")
    for y, row in enumerate(near):
        for x, (word, similarity) in enumerate(row):
            axes.text(x, y, f"{word} {similarity:.2f}", ha="center", va="center", fontsize=8)
    axes.set_yticks(range(len(shown)), shown)
    axes.set_xticks([])
    return figure


recipe = Word2VecShakespeare()
