"""Between images and sequences: captions (CNN → RNN with attention), and images of sequences (RNN → CNN) (N1 §12).

The captioner is "Show, attend and tell" (Xu et al. 2015) with Bahdanau's decoder: a word looks at regions of the image.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..sequences.recurrent_models import SequenceClassifier
from ..sequences.seq2seq import BahdanauDecoder, DecoderState, Hidden
from .blocks import ConvNormActivation, fill, he_fan_out

__all__ = ["Captioner", "SequenceToImage", "coverage_penalty", "small_encoder"]


class Captioner(nn.Module):
    """P(words | image) = Π_t softmax(W f_t + b): an LSTM that attends to the regions of a feature map.

    encoder: any module (B, C, H, W) → (B, features, h, w), such as `small_encoder(3, (32, 64, 128))` or a ResNet
    without its last two parts; its h · w places are the regions. The decoder starts from tanh(W_0 · mean region + b_0).
    `forward` gives logits of the word after each of `words` (which begin with the start token), and where it looked.
    Shape: images (B, C, H, W), words (B, T) → logits (B, T, V), weights (B, T, h · w)

    >>> model = Captioner(small_encoder(1, (8, 16)), 16, vocabulary=12)
    >>> logits, weights = model(weft.zeros(2, 1, 28, 28), weft.ones(2, 5, dtype=weft.int64))
    >>> tuple(logits.shape), tuple(weights.shape)
    ((2, 5, 12), (2, 5, 49))
    """

    def __init__(
        self, encoder: nn.Module, features: int, vocabulary: int, embedding_dim: int = 64, hidden_size: int = 128
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.embedding = nn.Embedding(vocabulary, embedding_dim)
        self.bridge = nn.Linear(features, 2 * hidden_size)
        self.decoder = BahdanauDecoder(embedding_dim, features, hidden_size, "lstm")
        self.output = nn.Linear(self.decoder.out_features, vocabulary)

    def forward(self, images: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        features, weights, _ = self._read(words, self.start(images))
        return self.output(features), weights

    def start(self, images: Tensor) -> DecoderState:
        """The state of the decoder before the first word."""
        regions = self.encoder(images).flatten(2).mT  # (B, M, h, w) → (B, M, h·w) → (B, h·w, M)
        hidden = self.bridge(regions.mean(1)).tanh().chunk(2, dim=-1)
        return self.decoder.begin(hidden, regions, weft.ones(regions.shape[:2], dtype=weft.bool))

    def step(self, words: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Scores of the word after the last one, for the functions of `decoding`. Shape: (B, T) → (B, V)

        >>> words = greedy_search(model.step, begin, model.start(images), eos_token_id=1)  # begin: (B, 1)
        """
        features, _, state = self._read(words, state)
        return self.output(features[:, -1]), state

    def _read(self, words: Tensor, state: DecoderState) -> tuple[Tensor, Tensor, DecoderState]:
        """Features after every word and where each step looked: (B, T) → (B, T, F), (B, T, h·w)."""

        def step(carry: tuple[Hidden, Tensor], x: Tensor) -> tuple[Any, Any]:
            features, hidden, weights = self.decoder.step(x, state._replace(hidden=carry[0]))
            return (hidden, weights), (features, weights)

        embedded = self.embedding(words).transpose(0, 1)  # (B, T, E) → (T, B, E)
        (hidden, last), (features, weights) = weft.scan(step, (state.hidden, state.weights), embedded)
        state = state._replace(hidden=hidden, weights=last)
        return features.transpose(0, 1), weights.transpose(0, 1), state  # (T, B, ·) → (B, T, ·)


def coverage_penalty(weights: Tensor) -> Tensor:
    """Σ_i (1 − Σ_t α_ti)², the mean over images: every region should be looked at (Xu et al. 2015, eq. 14).

    Shape: (B, T, regions) → ()
    """
    return ((1 - weights.sum(1)) ** 2).sum(-1).mean()


def small_encoder(in_channels: int, widths: Sequence[int]) -> nn.Sequential:
    """3×3 convolutions with norm and ReLU that halve the size each: (B, C, H, W) → (B, widths[-1], H/2ⁿ, W/2ⁿ)."""
    inputs = (in_channels, *widths)
    layers = [ConvNormActivation(a, b, stride=2) for a, b in zip(inputs, widths, strict=False)]
    encoder = nn.Sequential(*layers)
    fill(encoder, nn.Conv2d, he_fan_out)
    return encoder


class SequenceToImage(nn.Module):
    """A recurrent encoder reads tokens, transposed convolutions paint: each doubles the size, the last gives pixels.

    The image starts as `side` × `side` places with widths[0] channels, so its size is side · 2ⁿ for n widths. Pixels are
    logits: compare them with `binary_cross_entropy_with_logits`, or take their sigmoid.
    Shape: tokens (B, T), lengths (B,) → (B, out_channels, side · 2ⁿ, side · 2ⁿ)

    >>> tuple(SequenceToImage(12, 1, (32, 16), side=7)(weft.ones(2, 5, dtype=weft.int64)).shape)
    (2, 1, 28, 28)
    """

    def __init__(
        self,
        vocabulary: int,
        out_channels: int = 1,
        widths: Sequence[int] = (64, 32),
        *,
        side: int = 7,
        embedding_dim: int = 32,
        hidden_size: int = 64,
        cell: str = "gru",
    ) -> None:
        super().__init__()
        if not widths or min(widths) < 1 or side < 1:
            raise OptionError(f"SequenceToImage: expected widths and a side of 1 or more, got {list(widths)}, {side}")
        self.start = (widths[0], side, side)
        places = widths[0] * side**2
        self.encoder = SequenceClassifier(embedding_dim, hidden_size, places, vocabulary=vocabulary, cell=cell)
        layers: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(widths):
            double = nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1, bias=False)
            layers += [double, nn.BatchNorm2d(outputs), nn.ReLU()]
        last = nn.ConvTranspose2d(widths[-1], out_channels, 4, stride=2, padding=1)
        self.decoder = nn.Sequential(nn.BatchNorm2d(widths[0]), nn.ReLU(), *layers, last)

    def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        features = self.encoder(tokens, lengths)  # (B, widths[0] · side²)
        return self.decoder(features.unflatten(1, self.start))  # (B, widths[0], side, side) → (B, out_channels, H, W)
