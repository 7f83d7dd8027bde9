"""PyTorch's side of models that transformers and torchvision do not have: plain programs over torch.nn.

Names, arguments and sizes are those of `weft.models.supervised`, so that one row of the benchmark makes either. Where
PyTorch has a faster way than a loop (a whole recurrent layer, keys projected once), it is taken.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from models_peers_images import normed
from torch import Tensor, nn
from torch.distributions import Distribution, NegativeBinomial, Normal, StudentT
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

# ------------------------------------------------------------------------------------------- recurrent models

LAYERS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
CELLS = {"rnn": nn.RNNCell, "lstm": nn.LSTMCell, "gru": nn.GRUCell}


def first(state: Any) -> Tensor:
    """h of a state that is h, or (h, c)."""
    return state if isinstance(state, Tensor) else state[0]


class RecurrentEncoder(nn.Module):
    """Outputs of every place (B, T, D·H) and the final state (B, D·H)."""

    def __init__(
        self, inputs: int, hidden: int, vocabulary: int | None = None, cell: str = "lstm", **options: Any
    ) -> None:
        super().__init__()
        self.embedding = nn.Identity() if vocabulary is None else nn.Embedding(vocabulary, inputs)
        self.rnn = LAYERS[cell](inputs, hidden, batch_first=True, **options)
        self.directions = 1 + self.rnn.bidirectional
        self.out_features = hidden * self.directions

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, state = self.rnn(self.embedding(x))
        return y, torch.cat(tuple(first(state)[-self.directions :]), -1)


class SequenceClassifier(nn.Module):
    def __init__(self, inputs: int, hidden: int, classes: int, **options: Any) -> None:
        super().__init__()
        self.encoder = RecurrentEncoder(inputs, hidden, **options)
        self.output = nn.Linear(self.encoder.out_features, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.encoder(x)[1])


class SequenceTagger(nn.Module):
    def __init__(self, inputs: int, hidden: int, tags: int, **options: Any) -> None:
        super().__init__()
        self.encoder = RecurrentEncoder(inputs, hidden, **options)
        self.output = nn.Linear(self.encoder.out_features, tags)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.encoder(x)[0])


class RecurrentLanguageModel(nn.Module):
    def __init__(
        self,
        vocabulary: int,
        embedding: int,
        hidden: int,
        *,
        cell: str = "lstm",
        num_layers: int = 1,
        dropout: float = 0.0,
        tie_weights: bool = False,
    ) -> None:
        super().__init__()
        self.drop, self.encoder = nn.Dropout(dropout), nn.Embedding(vocabulary, embedding)
        between = dropout if num_layers > 1 else 0.0
        self.rnn = LAYERS[cell](embedding, hidden, num_layers, batch_first=True, dropout=between)
        self.decoder = nn.Linear(hidden, vocabulary)
        if tie_weights:
            self.decoder.weight = self.encoder.weight

    def forward(self, tokens: Tensor) -> tuple[Tensor, Any]:
        h, state = self.rnn(self.drop(self.encoder(tokens)))
        return self.decoder(self.drop(h)), state


class RecurrentForecaster(nn.Module):
    def __init__(self, channels: int, hidden: int, horizon: int) -> None:
        super().__init__()
        self.encoder, self.horizon = RecurrentEncoder(channels, hidden), horizon
        self.output = nn.Linear(hidden, horizon * channels)

    def forward(self, past: Tensor) -> Tensor:
        change = self.output(self.encoder(past)[1])
        return past[:, -1:] + change.view(len(past), self.horizon, -1)


class DeepAR(nn.Module):
    def __init__(self, covariates: int, hidden: int, likelihood: str) -> None:
        super().__init__()
        self.rnn = nn.LSTM(1 + covariates, hidden, batch_first=True)
        self.distribution = {"gaussian": gaussian, "student-t": student, "negative-binomial": counts}[likelihood]
        self.parameters_of = nn.Linear(hidden, 3 if likelihood == "student-t" else 2)

    def loss(self, z: Tensor, x: Tensor) -> Tensor:
        scale = (1 + z.abs().mean(1)).unsqueeze(1)  # (B, 1)
        before = F.pad(z[:, :-1], (1, 0)) / scale
        h, _ = self.rnn(torch.cat([before.unsqueeze(-1), x], -1))
        return -self.distribution(self.parameters_of(h), scale).log_prob(z).mean()


def gaussian(parts: Tensor, scale: Tensor) -> Distribution:
    mean, spread = parts.unbind(-1)
    return Normal(mean * scale, (F.softplus(spread) + 1e-4) * scale, validate_args=False)


def student(parts: Tensor, scale: Tensor) -> Distribution:
    mean, spread, freedom = parts.unbind(-1)
    width = (F.softplus(spread) + 1e-4) * scale
    return StudentT(2 + F.softplus(freedom), mean * scale, width, validate_args=False)


def counts(parts: Tensor, scale: Tensor) -> Distribution:
    mean, shape = (F.softplus(parts) + 1e-4).unbind(-1)
    mean, shape = mean * scale, shape / scale.sqrt()
    return NegativeBinomial(1 / shape, logits=(mean * shape).log(), validate_args=False)


# ------------------------------------------------------------------------------------------- convolutions in time


class CausalConv1d(nn.Conv1d):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x, (self.dilation[0] * (self.kernel_size[0] - 1), 0)))


class TemporalBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.conv1 = weight_norm(CausalConv1d(inputs, outputs, kernel, dilation=dilation))
        self.conv2 = weight_norm(CausalConv1d(outputs, outputs, kernel, dilation=dilation))
        self.dropout = nn.Dropout(dropout)
        self.downsample = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = self.dropout(F.relu(self.conv1(x)))
        y = self.dropout(F.relu(self.conv2(y)))
        return F.relu(self.downsample(x) + y)


class TCN(nn.Module):
    def __init__(
        self, inputs: int, channels: Sequence[int], outputs: int, *, kernel_size: int = 2, dropout: float = 0.2
    ) -> None:
        super().__init__()
        pairs = enumerate(itertools.pairwise([inputs, *channels]))
        self.network = nn.Sequential(*(TemporalBlock(a, b, kernel_size, 2**level, dropout) for level, (a, b) in pairs))
        self.output = nn.Linear(channels[-1], outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.network(x.transpose(1, 2)).transpose(1, 2))


class GatedBlock(nn.Module):
    def __init__(self, channels: int, skip: int, dilation: int) -> None:
        super().__init__()
        self.gates = CausalConv1d(channels, 2 * channels, 2, dilation=dilation)
        self.residual, self.skip = nn.Conv1d(channels, channels, 1), nn.Conv1d(channels, skip, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        signal, gate = self.gates(x).chunk(2, dim=1)
        z = torch.tanh(signal) * torch.sigmoid(gate)
        return x + self.residual(z), self.skip(z)


class WaveNet(nn.Module):
    def __init__(self, classes: int, channels: int, skip: int, *, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, channels)
        self.blocks = nn.ModuleList(GatedBlock(channels, skip, 2**level) for level in range(layers))
        self.output = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, classes, 1))

    def forward(self, tokens: Tensor) -> Tensor:
        x, total = self.embedding(tokens).transpose(1, 2), 0.0
        for block in self.blocks:
            x, skip = block(x)
            total = total + skip
        return self.output(total).transpose(1, 2)


# ------------------------------------------------------------------------------------------- encoder–decoder


class PlainDecoder(nn.Module):
    """Features of all places from embedded targets (B, T, E), a first state (B, H) and the memory (B, S, M)."""

    def __init__(self, embedding: int, memory: int, hidden: int) -> None:
        super().__init__()
        self.layer, self.out_features = nn.GRU(embedding, hidden, batch_first=True), hidden

    def forward(self, x: Tensor, hidden: Tensor, memory: Tensor) -> Tensor:
        return self.layer(x, hidden.unsqueeze(0).contiguous())[0]


class LuongDecoder(nn.Module):
    """Without input feeding, the recurrent layer runs over all places, and so does the attention."""

    def __init__(self, embedding: int, memory: int, hidden: int) -> None:
        super().__init__()
        self.layer, self.out_features = nn.GRU(embedding, hidden, batch_first=True), hidden
        self.score = nn.Linear(memory, hidden, bias=False)
        self.combine = nn.Linear(memory + hidden, hidden, bias=False)

    def forward(self, x: Tensor, hidden: Tensor, memory: Tensor) -> Tensor:
        h, _ = self.layer(x, hidden.unsqueeze(0).contiguous())
        weights = (h @ self.score(memory).mT).softmax(-1)  # (B, T, S)
        return torch.tanh(self.combine(torch.cat([weights @ memory, h], -1)))


class BahdanauDecoder(nn.Module):
    def __init__(self, embedding: int, memory: int, hidden: int, cell: str = "gru") -> None:
        super().__init__()
        self.query, self.key = nn.Linear(hidden, hidden, bias=False), nn.Linear(memory, hidden, bias=False)
        self.vector = nn.Linear(hidden, 1, bias=False)
        self.cell = CELLS[cell](embedding + memory, hidden)
        self.out_features = hidden + memory + embedding

    def forward(self, x: Tensor, hidden: Any, memory: Tensor) -> tuple[Tensor, Tensor]:
        keys, steps = self.key(memory), []
        for now in x.unbind(1):
            scores = self.vector(torch.tanh(keys + self.query(first(hidden)).unsqueeze(1)))  # (B, S, 1)
            weights = scores.softmax(1)
            context = (weights.mT @ memory).squeeze(1)
            hidden = self.cell(torch.cat([now, context], -1), hidden)
            steps.append((first(hidden), context, weights.squeeze(-1)))
        states, contexts, looked = (torch.stack(parts, 1) for parts in zip(*steps, strict=True))
        return torch.cat([states, contexts, x], -1), looked


DECODERS = {None: PlainDecoder, "luong": LuongDecoder, "bahdanau": BahdanauDecoder}


class Seq2Seq(nn.Module):
    def __init__(self, source: int, target: int, embedding: int, hidden: int, *, attention: str | None) -> None:
        super().__init__()
        self.encoder = RecurrentEncoder(embedding, hidden, vocabulary=source, cell="gru", bidirectional=True)
        self.embedding = nn.Embedding(target, embedding)
        self.bridge = nn.Linear(2 * hidden, hidden)
        self.decoder = DECODERS[attention](embedding, 2 * hidden, hidden)
        self.output = nn.Linear(self.decoder.out_features, target)

    def forward(self, source: Tensor, target: Tensor) -> tuple[Tensor]:
        memory, final = self.encoder(source)
        found = self.decoder(self.embedding(target), torch.tanh(self.bridge(final)), memory)
        return (self.output(first(found)),)


class TranslationTransformer(nn.Module):
    def __init__(self, source: int, target: int, *, d_model: int, dropout: float = 0.1, **sizes: Any) -> None:
        super().__init__()
        self.transformer = nn.Transformer(d_model, dropout=dropout, batch_first=True, **sizes)
        self.source_embedding, self.target_embedding = nn.Embedding(source, d_model), nn.Embedding(target, d_model)
        self.drop, self.generator = nn.Dropout(dropout), nn.Linear(d_model, target)
        self.generator.weight = self.target_embedding.weight
        rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        angle = torch.arange(512).unsqueeze(1) * rate  # (512, E / 2)
        self.register_buffer("sinusoids", torch.stack([angle.sin(), angle.cos()], -1).flatten(1), persistent=False)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        ignored, length = source == 0, target.shape[1]
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        masks = {"src_key_padding_mask": ignored, "memory_key_padding_mask": ignored, "tgt_mask": later}
        embedded = self.embedded(source, self.source_embedding), self.embedded(target, self.target_embedding)
        return self.generator(self.transformer(*embedded, **masks, tgt_is_causal=True))

    def embedded(self, tokens: Tensor, table: nn.Embedding) -> Tensor:
        scaled = table(tokens) * math.sqrt(table.embedding_dim)
        return self.drop(scaled + self.sinusoids[: tokens.shape[1]])


# ------------------------------------------------------------------------------------------- images and words


def small_encoder(in_channels: int, widths: Sequence[int]) -> nn.Sequential:
    return nn.Sequential(*(normed(a, b, stride=2) for a, b in itertools.pairwise((in_channels, *widths))))


class Captioner(nn.Module):
    def __init__(self, encoder: nn.Module, features: int, vocabulary: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.encoder, self.embedding = encoder, nn.Embedding(vocabulary, embedding)
        self.bridge = nn.Linear(features, 2 * hidden)
        self.decoder = BahdanauDecoder(embedding, features, hidden, "lstm")
        self.output = nn.Linear(self.decoder.out_features, vocabulary)

    def forward(self, images: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        regions = self.encoder(images).flatten(2).mT
        hidden = torch.tanh(self.bridge(regions.mean(1))).chunk(2, dim=-1)
        features, weights = self.decoder(self.embedding(words), hidden, regions)
        return self.output(features), weights


class SequenceToImage(nn.Module):
    def __init__(self, vocabulary: int, out_channels: int, widths: Sequence[int], *, side: int) -> None:
        super().__init__()
        self.start = (widths[0], side, side)
        self.encoder = SequenceClassifier(32, 64, widths[0] * side**2, vocabulary=vocabulary, cell="gru")
        parts: list[nn.Module] = [nn.BatchNorm2d(widths[0]), nn.ReLU(inplace=True)]
        for a, b in itertools.pairwise(widths):
            double = nn.ConvTranspose2d(a, b, 4, stride=2, padding=1, bias=False)
            parts += [double, nn.BatchNorm2d(b), nn.ReLU(inplace=True)]
        self.decoder = nn.Sequential(*parts, nn.ConvTranspose2d(widths[-1], out_channels, 4, stride=2, padding=1))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.decoder(self.encoder(tokens).unflatten(1, self.start))


# ------------------------------------------------------------------------------------------- vectors of words


class Word2Vec(nn.Module):
    """Negative sampling, or a walk down a Huffman tree; CBOW where (B, C) words are given, −1 at missing places."""

    def __init__(self, frequencies: Sequence[int], dim: int, *, loss: str = "negative", negatives: int = 5) -> None:
        super().__init__()
        self.negatives, weights = negatives, torch.tensor(frequencies)
        self.vectors = nn.Embedding(len(weights), dim)
        if loss == "negative":
            self.outputs, self.nodes = nn.Embedding(len(weights), dim), None
            self.register_buffer("noise", weights**0.75 / (weights**0.75).sum())
        else:
            self.outputs = nn.Embedding(len(weights) - 1, dim)
            for name, table in zip(("nodes", "signs"), huffman_paths(frequencies), strict=True):
                self.register_buffer(name, table)
        nn.init.uniform_(self.vectors.weight, -0.5 / dim, 0.5 / dim)
        nn.init.zeros_(self.outputs.weight)

    def forward(self, given: Tensor, target: Tensor) -> Tensor:
        v = self.hidden(given).unsqueeze(-1)  # (B, D, 1)
        if self.nodes is not None:
            signs = self.signs[target]  # (B, K): 0 after the end of a path
            scores = (self.outputs(self.nodes[target]) @ v).squeeze(-1)
            return -(F.logsigmoid(signs * scores) * signs.abs()).sum(-1).mean()
        drawn = torch.multinomial(self.noise, len(target) * self.negatives, replacement=True).view(len(target), -1)
        right = (self.outputs(target).unsqueeze(1) @ v).flatten()
        wrong = (self.outputs(drawn) @ v).squeeze(-1)  # (B, K)
        noise = F.logsigmoid(-wrong).masked_fill(drawn == target.unsqueeze(1), 0)
        return -(F.logsigmoid(right) + noise.sum(-1)).mean()

    def hidden(self, given: Tensor) -> Tensor:
        if given.ndim == 1:
            return self.vectors(given)
        real = (given != -1).unsqueeze(-1)
        return (self.vectors(given.clamp(min=0)) * real).sum(1) / real.sum(1).clamp(min=1)


def huffman_paths(frequencies: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The inner vertices on the way to each word and the sign of each decision, (V, K), padded with 0."""
    heap = [(weight, number, number) for number, weight in enumerate(frequencies)]
    heapq.heapify(heap)
    size, parent = len(frequencies), {}
    for number in range(size, 2 * size - 1):
        (a, _, left), (b, _, right) = heapq.heappop(heap), heapq.heappop(heap)
        parent[left], parent[right] = (number, -1.0), (number, 1.0)
        heapq.heappush(heap, (a + b, number, number))
    paths = []
    for word in range(size):
        path, place = [], word
        while place in parent:
            path.append(parent[place])
            place = parent[place][0]
        paths.append(path)
    depth = max(map(len, paths))
    padded = torch.tensor([path + [(size, 0.0)] * (depth - len(path)) for path in paths])  # (V, K, 2)
    return padded[..., 0].long() - size, padded[..., 1].contiguous()
