"""sst2-lstm: is a review of a film good or bad? A bidirectional LSTM on the Stanford Sentiment Treebank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import weft

from ... import nn, optim
from ...data.sources import SST2
from ...data.text import Vocabulary
from ...models.sequences.recurrent_models import SequenceClassifier
from ...tensor import Tensor
from ...train import Classification
from ...train.supervised import accuracy
from ..base import Goal, Root, Trained
from ..baselines import naive_bayes_accuracy
from ..settings import TrainSettings, option
from ..shared import one_cycle
from .words import PAD, UNKNOWN, TextSplits, Words, collated, padded_loader


@dataclass(kw_only=True)
class SST2Settings(TrainSettings):
    """Settings of sst2-lstm."""

    epochs: int = 4
    batch_size: int = 64
    lr: float = 4e-3
    weight_decay: float = option(1e-4, "decay of the weights (AdamW)", at_least=0)
    words: int = option(10_000, "size of the vocabulary", at_least=10)
    width: int = option(64, "features of a word", at_least=1)
    hidden: int = option(64, "units of the LSTM in each direction", at_least=1)
    dropout: float = option(0.4, "share of features left out", at_least=0, at_most=0.9)
    limit: int | None = option(None, "use only so many training sentences", at_least=1)


class Reader(nn.Module):
    """Tokens (B, T), 0 at padding → scores (B, 2)."""

    def __init__(self, settings: SST2Settings) -> None:
        super().__init__()
        self.words = Words()
        options = {"bidirectional": True, "dropout": settings.dropout, "pooling": "max", "vocabulary": settings.words}
        self.network = SequenceClassifier(settings.width, settings.hidden, 2, padding_idx=0, **options)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.network(tokens, (tokens != 0).sum(1))


class SST2LSTM(Trained):
    """Embedding, one bidirectional LSTM, the largest of each feature over the sentence."""

    title = "Film reviews, a bidirectional LSTM"
    Settings = SST2Settings
    goal = Goal(
        "test_accuracy", at_least=0.80, data="872 sentences of SST-2", baseline="naive Bayes on the words", margin=0.01
    )
    example = "a sentence, such as: a warm , funny film"

    def data(self, settings: SST2Settings, root: Root = None) -> TextSplits:
        train, dev, test = (SST2(root, split, download=root is None) for split in ("train", "dev", "test"))
        words = Vocabulary.from_tokens(
            (sentence.split() for sentence in train.sentences),
            specials=[PAD, UNKNOWN],
            unknown=UNKNOWN,
            max_size=settings.words,
        )
        size, limit = settings.batch_size, settings.limit
        loaders = [
            padded_loader(*columns(part, words, most), batch_size=rows, shuffle=part is train, seed=settings.seed)
            for part, rows, most in ((train, size, limit), (dev, 256, limit), (test, 256, None))
        ]
        return TextSplits(*loaders, words)

    def task(self, settings: SST2Settings, splits: TextSplits | None = None) -> Classification:
        model = Reader(settings)
        if splits is not None:
            model.words.vocabulary = splits.vocabulary
        return Classification(
            model,
            optimizer=lambda p: optim.AdamW(p, settings.lr, weight_decay=settings.weight_decay),
            metrics={"accuracy": accuracy},
            scheduler=one_cycle(settings, splits),
        )

    def trainer_options(self, settings: SST2Settings) -> dict[str, Any]:
        return {"gradient_clip_val": 1.0}

    def baseline(self, settings: SST2Settings, splits: TextSplits) -> float:
        parts = (splits.train, splits.validation, splits.test)
        return naive_bayes_accuracy(*(list(part.dataset) for part in parts), len(splits.vocabulary))

    def predict(self, task: Classification, input: Any) -> Any:
        row = task.model.words.vocabulary.encode(str(input).lower().split() or [UNKNOWN])
        task.eval()
        with weft.no_grad():
            chance = task(collated([(row,)])[0]).softmax(-1)[0, 1].item()
        return {"label": SST2.classes[chance > 0.5], "positive": round(chance, 4)}


def columns(part: SST2, words: Vocabulary, most: int | None) -> tuple[list[list[int]], list[int]]:
    """Rows of tokens and labels."""
    rows = [words.encode(sentence.split()) for sentence in part.sentences[:most]]
    return rows, part.targets.tolist()[:most]


recipe = SST2LSTM()
