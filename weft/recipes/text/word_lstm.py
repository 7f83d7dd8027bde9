"""word-lstm: a word-level LSTM on WikiText-2 beside order-3 Markov models over the same words.

Of WikiText-2 two small texts are at hand: the model learns from one (the "test" file, 0.24 million words) and is
measured on the other (the "valid" file). Words that the training text does not have twice are <unk> for everybody.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft

from ... import nn, optim
from ...data.sources import WikiText2
from ...data.text import BPTTDataset, Vocabulary
from ...models.sequences.recurrent_models import RecurrentLanguageModel
from ...models.text.decoding import sample
from ...models.text.markov import MarkovModel
from ...tensor import Tensor
from ...train import TruncatedBPTT
from ..base import Goal, Root, Trained
from ..settings import TrainSettings, option
from ..shared import one_cycle
from .words import UNKNOWN, TextSplits, Words

F = nn.functional
ORDER, HELD = 3, 0.05  # order of the Markov models; share of the training text kept for validation


@dataclass(kw_only=True)
class WordLSTMSettings(TrainSettings):
    """Settings of word-lstm."""

    epochs: int = 10
    batch_size: int = 32
    lr: float = 4e-3
    weight_decay: float = option(0.05, "decay of the weights (AdamW)", at_least=0)
    words: int = option(6000, "largest size of the vocabulary", at_least=10)
    length: int = option(35, "words that gradients go back", at_least=1)
    width: int = option(128, "features of a word, and units of the LSTM", at_least=1)
    dropout: float = option(0.4, "share of features left out", at_least=0, at_most=0.9)
    limit: int | None = option(None, "use only so many training words", at_least=1000)


class WikiSplits(TextSplits):
    """Loaders and vocabulary, and what Markov models reach on the test text (additive, Kneser–Ney), computed once."""

    @functools.cached_property
    def markov(self) -> list[float]:
        return markov_entropies(self, len(self.vocabulary))


class WordModel(TruncatedBPTT):
    """The language model with its vocabulary and what the Markov models reach on the test text."""

    def __init__(self, settings: WordLSTMSettings, splits: WikiSplits | None) -> None:
        model = RecurrentLanguageModel(
            settings.words, settings.width, settings.width, dropout=settings.dropout, tie_weights=True
        )
        super().__init__(
            model,
            cross_entropy,
            settings.batch_size,
            optimizer=lambda p: optim.AdamW(p, settings.lr, weight_decay=settings.weight_decay),
            scheduler=one_cycle(settings, splits, warm_up=0.2),
        )
        self.words = Words(splits.vocabulary if splits else None)
        self.register_buffer("markov", weft.full((2,), math.nan))  # nats a word: additive, Kneser–Ney
        if splits is not None:
            self.markov.copy_(weft.tensor(splits.markov))

    def measured(self, prediction: Tensor, y: Tensor, stage: str) -> Tensor:
        """Loss and perplexity, every word counted once; in tests the gain over the Markov models."""
        loss, count = cross_entropy(prediction, y), y.numel()
        self.log(f"{stage}_loss", loss, prog_bar=True, batch_size=count)
        if stage == "test":
            additive, kneser_ney = self.markov.unbind()
            self.log("test_gain", kneser_ney - loss, batch_size=count)
            self.log("test_gain_over_additive", additive - loss, batch_size=count)
            self.log("test_kneser_ney_loss", kneser_ney, batch_size=count)
        return loss


class WordLSTM(Trained):
    """One LSTM layer, tied weights, dropout; gradients through 35 words."""

    title = "WikiText-2's test file, a word LSTM beside Markov models"
    Settings = WordLSTMSettings
    goal = Goal(
        "test_loss",
        at_most=4.75,
        data="the validation file (trained on the test file), in nats a word",
        baseline="the best order-3 Markov model (Kneser–Ney)",
        margin=0.1,
    )
    example = "the beginning of a sentence, such as: The game was"

    def data(self, settings: WordLSTMSettings, root: Root = None) -> WikiSplits:
        text, other = (WikiText2(root, split, download=root is None).tokens for split in ("test", "valid"))
        text = text[: settings.limit]
        words = Vocabulary.from_tokens(
            [text], specials=[UNKNOWN, "<eos>"], unknown=UNKNOWN, min_freq=2, max_size=settings.words
        )
        numbers, test = (np.array(words.encode(part), np.int64) for part in (text, other))
        border = int(len(numbers) * (1 - HELD))
        rows = settings.batch_size
        parts = [BPTTDataset(part, rows, settings.length) for part in (numbers[:border], numbers[border:], test)]
        return WikiSplits(*parts, words)

    def task(self, settings: WordLSTMSettings, splits: WikiSplits | None = None) -> WordModel:
        return WordModel(settings, splits)

    def baseline(self, settings: WordLSTMSettings, splits: WikiSplits) -> float:
        return min(splits.markov)

    def trainer_options(self, settings: WordLSTMSettings) -> dict[str, Any]:
        return {"gradient_clip_val": 0.5}

    def predict(self, task: WordModel, input: Any) -> Any:
        words = task.words.vocabulary
        tokens = weft.tensor([words.encode(str(input).split() or ["<eos>"])])
        generator = weft.Generator().manual_seed(0)
        task.eval()
        written = sample(
            _without(task.model.step, words[UNKNOWN], len(words)),
            tokens,
            max_new_tokens=40,
            temperature=0.8,
            generator=generator,
        )
        return " ".join(words.decode(written[0])).replace("<eos>", "\n")


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Mean over all words, in nats: (B, T, V), (B, T) → ()."""
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def markov_entropies(splits: TextSplits, vocabulary: int) -> list[float]:
    """Mean −ln P of the test words under order-3 models: additive and Kneser–Ney, each with the amount of smoothing that
    suits the validation text best."""
    train, held, test = (part.streams.reshape(-1) for part in (splits.train, splits.validation, splits.test))
    found = []
    for smoothing, amounts in (("additive", (1e-4, 1e-3, 1e-2, 0.1)), ("kneser-ney", (0.6, 0.75, 0.9))):
        models = [MarkovModel(ORDER, vocabulary, smoothing, amount).fit(train) for amount in amounts]
        best = max(models, key=lambda model: model.log_likelihood(held))
        found.append(float(-best.log_prob(test).mean()))
    return found


def _without(step: Any, token: int, size: int) -> Any:
    """A step that never gives a token, nor rows of the table beyond the vocabulary."""

    def quiet(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits, state = step(tokens, state)
        barred = (weft.arange(logits.shape[-1]) >= size) | (weft.arange(logits.shape[-1]) == token)
        return logits.masked_fill(barred, float("-inf")), state

    return quiet


recipe = WordLSTM()
