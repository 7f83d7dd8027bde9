"""word2vec-shakespeare: vectors of words from Tiny Shakespeare by skip-gram with negative sampling; who is near whom.

Words that can stand in each other's place come close. The figure: twenty pairs that belong together (king and queen,
brother and sister …); among all words, how far down the list of the first one's neighbours is the second?
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import weft

from .. import optim
from ..data.sources import TinyShakespeare
from ..data.text import Vocabulary, WordTokenizer
from ..models.supervised.word2vec import Word2Vec, cbow_windows, skipgram_pairs, subsample
from ..models.supervised.word_vectors import WordVectors
from ..tensor import Tensor
from ..train import Task
from . import pictures
from .base import Goal, Recipe, Root, Run, Splits
from .settings import TrainSettings, option
from .shared import loaders, one_cycle
from .words import UNKNOWN, Words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAIRS = """king queen, brother sister, father mother, lord lady, he she, his her, thou thee, day night, hand heart,
is was, shall will, uncle cousin, duke king, go come, sword blood, heaven god, son daughter, wife husband, love hate,
eyes tears"""
SHOWN = ("king", "queen", "love", "death", "sword", "mother", "he", "thou", "heaven", "go")


@dataclass(kw_only=True)
class Word2VecSettings(TrainSettings):
    """Settings of word2vec-shakespeare."""

    epochs: int = 8
    batch_size: int = 1024
    lr: float = 5e-3
    dim: int = option(64, "length of the vectors", at_least=1)
    window: int = option(4, "words on each side", at_least=1)
    min_count: int = option(5, "rarer words are left out", at_least=1)
    threshold: float = option(1e-3, "words more frequent than this are thinned out", above=0)
    model: Literal["skip-gram", "cbow"] = option("skip-gram", "what is predicted from what")
    loss: Literal["negative", "hierarchical"] = option("negative", "in place of the whole softmax")
    limit: int | None = option(None, "use only so many words of the text", at_least=100)


class Vectors(Task):
    """The model with its words."""

    def __init__(self, settings: Word2VecSettings, splits: Splits | None) -> None:
        super().__init__()
        self.settings, self.splits = settings, splits
        counts = splits.train.counts if splits else [1, 1]
        self.words = Words(splits.train.vocabulary if splits else None)
        self.model = Word2Vec(counts, settings.dim, loss=settings.loss)

    def training_step(self, batch: Any) -> Tensor:
        return self.model(*batch)

    def test_step(self, batch: Any) -> Tensor:
        return self.model(*batch)

    def configure_optimizers(self) -> Any:
        optimizer = optim.Adam(self.parameters(), lr=self.settings.lr)
        return {"optimizer": optimizer, "lr_scheduler": one_cycle(self.settings, self.splits)(optimizer)}

    def vectors(self) -> WordVectors:
        """Vectors of all words but the unknown one."""
        return WordVectors(self.words.vocabulary.tokens[1:], self.model.vectors.weight[1:])
