"""Models of sequences and of words for bench/models.py: Weft's beside the plain PyTorch programs of `models_peers`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from models_vision import Trained

WORDS = 1000


def peers(library: Any) -> Any:
    """The module with the models: Weft's own, or the same in PyTorch."""
    return importlib.import_module("weft.models.supervised" if library.__name__ == "weft" else "models_peers")


def naming(library: Any, scores: Callable[[], Any], high: int, *shape: int) -> Callable[[], Any]:
    """Cross entropy of scores (*shape, high) with labels of this shape."""
    labels = library.randint(0, high, shape).flatten()
    return lambda: library.nn.functional.cross_entropy(scores().reshape(-1, high), labels)


def tokens(library: Any, *shape: int, high: int = WORDS) -> Any:
    return library.randint(1, high, shape)


# ------------------------------------------------------------------------------------------- recurrent models


def gru_classifier(library: Any) -> Trained:
    model, x = peers(library).SequenceClassifier(28, 128, 10, cell="gru"), library.randn(64, 28, 28)
    return model, naming(library, lambda: model(x), 10, 64)


def lstm_tagger(library: Any) -> Trained:
    """Two bidirectional LSTM layers over embeddings, a label for every token."""
    model = peers(library).SequenceTagger(64, 128, 12, vocabulary=WORDS, num_layers=2, bidirectional=True)
    x = tokens(library, 32, 40)
    return model, naming(library, lambda: model(x), 12, 32, 40)


def word_model(library: Any) -> Trained:
    """Two LSTM layers with dropout and tied weights."""
    model = peers(library).RecurrentLanguageModel(2 * WORDS, 128, 128, num_layers=2, dropout=0.2, tie_weights=True)
    x = tokens(library, 16, 35, high=2 * WORDS)
    return model, naming(library, lambda: model(x)[0], 2 * WORDS, 16, 35)


def character_model(library: Any) -> Trained:
    model = peers(library).RecurrentLanguageModel(65, 32, 256, cell="gru")
    x = tokens(library, 32, 64, high=65)
    return model, naming(library, lambda: model(x)[0], 65, 32, 64)


def forecaster(library: Any) -> Trained:
    model = peers(library).RecurrentForecaster(4, 64, 12)
    past, future = library.randn(64, 48, 4), library.randn(64, 12, 4)
    return model, lambda: library.nn.functional.mse_loss(model(past), future)


def deepar(library: Any, likelihood: str = "gaussian") -> Trained:
    model = peers(library).DeepAR(4, 40, likelihood=likelihood)
    z, x = library.randint(0, 9, (64, 60)).float(), library.randn(64, 60, 4)
    return model, lambda: model.loss(z, x)


deepar_student = partial(deepar, likelihood="student-t")
deepar_counts = partial(deepar, likelihood="negative-binomial")


# ------------------------------------------------------------------------------------------- convolutions in time


def tcn(library: Any) -> Trained:
    model = peers(library).TCN(4, [32] * 4, 4, kernel_size=3, dropout=0.1)
    x, y = library.randn(32, 128, 4), library.randn(32, 128, 4)
    return model, lambda: library.nn.functional.mse_loss(model(x), y)


def wavenet(library: Any) -> Trained:
    model, x = peers(library).WaveNet(256, 32, 64, layers=8), tokens(library, 4, 512, high=256)
    return model, naming(library, lambda: model(x), 256, 4, 512)


# ------------------------------------------------------------------------------------------- encoder–decoder


def seq2seq(library: Any, attention: str | None = None) -> Trained:
    """A bidirectional GRU reads, a GRU writes."""
    model = peers(library).Seq2Seq(WORDS, WORDS, 64, 128, attention=attention)
    source, target = tokens(library, 32, 20), tokens(library, 32, 20)
    return model, naming(library, lambda: model(source, target)[0], WORDS, 32, 20)


bahdanau, luong = partial(seq2seq, attention="bahdanau"), partial(seq2seq, attention="luong")


def translation(library: Any) -> Trained:
    """Three layers of encoder and decoder, as multi30k-transformer's."""
    sizes = {"d_model": 128, "nhead": 4, "num_encoder_layers": 3, "num_decoder_layers": 3, "dim_feedforward": 512}
    model = peers(library).TranslationTransformer(WORDS, WORDS, **sizes, dropout=0.0, norm_first=True)
    source, target = tokens(library, 16, 24), tokens(library, 16, 24)
    return model, naming(library, lambda: model(source, target), WORDS, 16, 24)


# ------------------------------------------------------------------------------------------- images and words


def captioner(library: Any) -> Trained:
    """Three convolutions to 64 regions, an LSTM with Bahdanau's attention."""
    made = peers(library)
    model = made.Captioner(made.small_encoder(3, (32, 64, 64)), 64, WORDS, 64, 128)
    images, words = library.randn(16, 3, 64, 64), tokens(library, 16, 12)
    return model, naming(library, lambda: model(images, words)[0], WORDS, 16, 12)


def sequence_to_image(library: Any) -> Trained:
    model, x = peers(library).SequenceToImage(20, 1, (64, 32), side=7), tokens(library, 32, 10, high=20)
    y = library.rand(32, 1, 28, 28)
    return model, lambda: library.nn.functional.binary_cross_entropy_with_logits(model(x), y)


def word2vec(library: Any, loss: str = "negative", window: int = 0) -> Trained:
    """Skip-gram, or CBOW with 2 · window words around; word k occurs as often as Zipf's law says."""
    counts = [1 + 100_000 // (k + 1) for k in range(5 * WORDS)]
    model = peers(library).Word2Vec(counts, 100, loss=loss)
    given = tokens(library, *((512, 2 * window) if window else (512,)), high=len(counts))
    target = tokens(library, 512, high=len(counts))
    return model, lambda: model(given, target)


cbow, skipgram_tree = partial(word2vec, window=4), partial(word2vec, loss="hierarchical")
