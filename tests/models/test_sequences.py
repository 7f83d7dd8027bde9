"""Recurrent and encoder–decoder models of sequences against PyTorch, formulas and full recomputation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn as tnn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import weft
from weft import nn
from weft.errors import OptionError, ShapeError
from weft.models.supervised import (
    DeepAR,
    RecurrentEncoder,
    RecurrentForecaster,
    RecurrentLanguageModel,
    Seq2Seq,
    SequenceClassifier,
    SequenceTagger,
    TranslationTransformer,
    WaveNet,
    Word2Vec,
    beam_search,
    greedy_search,
    recomputing,
    teacher_forcing_share,
)

F = nn.functional


def tokens(*shape: int, high: int = 10, seed: int = 0, low: int = 1) -> weft.Tensor:
    return weft.tensor(np.random.default_rng(seed).integers(low, high, shape))


def normal(*shape: int, seed: int = 0) -> weft.Tensor:
    return weft.tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def as_torch(x: weft.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.array(x.detach()))


def give_weights(ours: nn.Module, theirs: tnn.Module, names: dict[str, str]) -> None:
    """Copy our weights into PyTorch's module; names: the beginning of our key → that of theirs."""
    state = {}
    for key, value in ours.state_dict().items():
        for mine, other in names.items():
            if key.startswith(mine):
                state[other + key.removeprefix(mine)] = as_torch(value)
    missing = theirs.load_state_dict(state, strict=False)
    assert not missing.missing_keys and not missing.unexpected_keys, missing


def assert_same_gradients(ours: nn.Module, theirs: tnn.Module, names: dict[str, str]) -> None:
    their_grads = {key: p.grad for key, p in theirs.named_parameters()}
    compared = 0
    for key, parameter in ours.named_parameters():
        for mine, other in names.items():
            name = other + key.removeprefix(mine)
            if key.startswith(mine) and name in their_grads:
                np.testing.assert_allclose(parameter.grad, their_grads[name], atol=1e-5, rtol=1e-5, err_msg=key)
                compared += 1
    assert compared == len(their_grads)


def close(ours: weft.Tensor, theirs: torch.Tensor, atol: float = 1e-5) -> None:
    np.testing.assert_allclose(np.asarray(ours.detach()), theirs.detach().numpy(), atol=atol, rtol=1e-5)


# ------------------------------------------------------------------------------------------- recurrent models


class TorchLM(tnn.Module):
    """PyTorch's word_language_model: encoder, rnn, decoder with tied weights."""

    def __init__(self, cell: str, vocabulary: int, width: int, layers: int) -> None:
        super().__init__()
        self.encoder = tnn.Embedding(vocabulary, width)
        self.rnn = getattr(tnn, cell.upper())(width, width, layers, batch_first=True)
        self.decoder = tnn.Linear(width, vocabulary)
        self.decoder.weight = self.encoder.weight

    def forward(self, x, state=None):
        h, state = self.rnn(self.encoder(x), state)
        return self.decoder(h), state


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_language_model_is_pytorchs(cell):
    ours = RecurrentLanguageModel(11, 8, 8, cell=cell, num_layers=2, tie_weights=True)
    theirs = TorchLM(cell, 11, 8, 2)
    theirs.load_state_dict({key: as_torch(value) for key, value in ours.state_dict().items()})
    x, y = tokens(3, 7), tokens(3, 7, seed=1)
    logits, state = ours(x)
    expected, their_state = theirs(as_torch(x))
    close(logits, expected)
    close(ours(y, state)[0], theirs(as_torch(y), their_state)[0])  # the state goes on
    F.cross_entropy(logits.flatten(0, 1), y.flatten()).backward()
    torch.nn.functional.cross_entropy(expected.flatten(0, 1), as_torch(y).flatten()).backward()
    assert_same_gradients(ours, theirs, {"": ""})
    assert ours.decoder.weight is ours.encoder.weight
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_padding_is_as_if_packed(cell, bidirectional, layers):
    encoder = RecurrentEncoder(3, 4, cell=cell, num_layers=layers, bidirectional=bidirectional)
    theirs = getattr(tnn, cell.upper())(3, 4, layers, batch_first=True, bidirectional=bidirectional)
    theirs.load_state_dict({key: as_torch(value) for key, value in encoder.rnn.state_dict().items()})
    x, lengths = normal(4, 6, 3), weft.tensor([6, 1, 4, 2])
    packed = pack_padded_sequence(as_torch(x), as_torch(lengths), batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(theirs(packed)[0], batch_first=True)
    y = encoder(x, lengths)
    close(y, expected)
    y.sum().backward()
    expected.sum().backward()
    assert_same_gradients(encoder.rnn, theirs, {"": ""})


@pytest.mark.parametrize("pooling", ["last", "mean", "max"])
def test_classifier_ignores_padding(pooling):
    model = SequenceClassifier(5, 6, 3, vocabulary=10, bidirectional=True, pooling=pooling)
    x, lengths = tokens(2, 8), [5, 3]
    together = model(x, weft.tensor(lengths))
    for row, length in enumerate(lengths):
        close(together[row], as_torch(model(x[row : row + 1, :length])[0]))
    changed = x.clone()
    changed[0, 5:] = 9
    close(model(changed, weft.tensor(lengths)), as_torch(together))


def test_last_state_of_the_classifier_is_pytorchs():
    model = SequenceClassifier(3, 4, 2, bidirectional=True)
    theirs = tnn.LSTM(3, 4, batch_first=True, bidirectional=True)
    theirs.load_state_dict({key: as_torch(value) for key, value in model.encoder.rnn.state_dict().items()})
    x = normal(2, 5, 3)
    _, (h, _) = theirs(as_torch(x))
    expected = torch.cat([h[0], h[1]], -1) @ as_torch(model.output.weight).T + as_torch(model.output.bias)
    close(model(x), expected)


def test_tagger_and_forecaster_shapes_and_residual():
    assert SequenceTagger(4, 5, 7, vocabulary=9, bidirectional=True)(tokens(2, 6, high=9)).shape == (2, 6, 7)
    model = RecurrentForecaster(2, 8, horizon=3)
    nn.init.zeros_(model.output.weight)
    nn.init.zeros_(model.output.bias)
    past = normal(4, 5, 2)
    close(model(past), as_torch(past[:, -1:].expand(4, 3, 2)))  # without a change, the last value


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RecurrentEncoder(2, 3, cell="lstmm"), "did you mean 'lstm'"),
        (lambda: RecurrentLanguageModel(5, 4, 6, tie_weights=True), "hidden_size = embedding_dim"),
        (lambda: SequenceClassifier(2, 3, 2, pooling="first"), "last, mean, max"),
        (lambda: Seq2Seq(5, 5, attention="dot"), "bahdanau"),
        (lambda: TranslationTransformer(5, 6, d_model=8, nhead=2, tie_source=True), "one vocabulary"),
        (lambda: DeepAR(likelihood="poisson"), "gaussian, student-t"),
        (lambda: Word2Vec([1, 1], loss="softmax"), "negative"),
        (lambda: WaveNet(4, 4, 4, layers=2, condition=3)(tokens(1, 3, high=4)), r"needs a condition \(B, 3\)"),
        (lambda: WaveNet(4, 4, 4, layers=2)(tokens(1, 3, high=4), normal(1, 3)), "takes no condition"),
    ],
)
def test_wrong_options_are_told(make, message):
    with pytest.raises(OptionError, match=message):
        make()


def test_wrong_lengths_are_told():
    with pytest.raises(ShapeError, match=r"\(2,\)"):
        RecurrentEncoder(3, 4)(normal(2, 5, 3), weft.tensor([1, 2, 3]))


# ------------------------------------------------------------------------------------------- encoder–decoder


class TorchBahdanau(tnn.Module):
    """Bahdanau, Cho and Bengio's model, written with PyTorch's cells, one step after the other."""

    def __init__(self, vocabulary: int, width: int, hidden: int) -> None:
        super().__init__()
        self.source, self.target = tnn.Embedding(vocabulary, width), tnn.Embedding(vocabulary, width)
        self.rnn = tnn.GRU(width, hidden, batch_first=True, bidirectional=True)
        self.bridge, self.cell = tnn.Linear(2 * hidden, hidden), tnn.GRUCell(width + 2 * hidden, hidden)
        self.query_weight = tnn.Parameter(torch.empty(hidden, hidden))
        self.key_weight = tnn.Parameter(torch.empty(hidden, 2 * hidden))
        self.vector = tnn.Parameter(torch.empty(hidden))
        self.output = tnn.Linear(3 * hidden + width, vocabulary)

    def forward(self, source, target, lengths):
        packed = pack_padded_sequence(self.source(source), lengths, batch_first=True, enforce_sorted=False)
        found, final = self.rnn(packed)
        memory, _ = pad_packed_sequence(found, batch_first=True)
        s = torch.tanh(self.bridge(torch.cat([final[0], final[1]], -1)))
        outside = torch.arange(source.shape[1]) >= lengths[:, None]
        logits, weights = [], []
        for e in self.target(target).unbind(1):
            energy = torch.tanh(memory @ self.key_weight.T + (s @ self.query_weight.T)[:, None]) @ self.vector
            alpha = energy.masked_fill(outside, -torch.inf).softmax(-1)
            context = (alpha[..., None] * memory).sum(1)
            s = self.cell(torch.cat([e, context], -1), s)
            logits.append(self.output(torch.cat([s, context, e], -1)))
            weights.append(alpha)
        return torch.stack(logits, 1), torch.stack(weights, 1)


def test_bahdanau_attention_is_the_model_in_pytorch():
    ours, theirs = Seq2Seq(9, 9, 4, 5), TorchBahdanau(9, 4, 5)
    names = {
        "encoder.embedding.": "source.",
        "encoder.rnn.": "rnn.",
        "embedding.": "target.",
        "bridge.": "bridge.",
        "decoder.cell.": "cell.",
        "decoder.attention.score.": "",
        "output.": "output.",
    }
    give_weights(ours, theirs, names)
    source, target, lengths = tokens(3, 6, high=9), tokens(3, 5, high=9, seed=1), weft.tensor([6, 2, 4])
    logits, weights = ours(source, target, lengths)
    expected, their_weights = theirs(as_torch(source), as_torch(target), as_torch(lengths))
    close(logits, expected)
    close(weights, their_weights)
    np.testing.assert_allclose(np.asarray(weights.detach()).sum(-1), 1, rtol=1e-5)
    (logits * logits).mean().backward()
    (expected * expected).mean().backward()
    assert_same_gradients(ours, theirs, names)


def test_luong_attention_by_its_formula():
    model = Seq2Seq(9, 9, 4, 5, attention="luong", bidirectional=False)
    source, target = tokens(2, 6, high=9), tokens(2, 1, high=9, seed=1)
    state = model.start(source)
    logits, weights = model(source, target)
    memory, decoder = as_torch(state.memory).double(), model.decoder
    s = as_torch(decoder.cell(model.embedding(target[:, 0]), state.hidden[0])).double()
    alpha = (s[:, None] @ as_torch(decoder.attention.score.weight).double() @ memory.mT).softmax(-1)
    both = torch.cat([(alpha @ memory)[:, 0], s], -1)
    top = torch.tanh(both @ as_torch(decoder.combine.weight).double().T)
    close(weights, alpha)
    close(logits[:, 0], top @ as_torch(model.output.weight).double().T + as_torch(model.output.bias).double())


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("attention", ["bahdanau", "luong", None])
def test_scheduled_sampling_from_teacher_forcing_to_writing_freely(attention, cell):
    model = Seq2Seq(9, 9, 4, 16, attention=attention, cell=cell)
    source, target = tokens(4, 6, high=9), tokens(4, 7, high=9, seed=1)
    lengths = weft.tensor([6, 3, 5, 1])
    forced, _ = model(source, target, lengths)
    close(model(source, target, lengths, sampling=weft.tensor(0.0))[0], as_torch(forced))
    free, weights = model(source, target, lengths, sampling=1.0)
    close(free[:, 0], as_torch(forced[:, 0]))  # the start token is always the right one
    state, now, found = model.start(source, lengths), target[:, :1], []
    for t in range(7):
        logits, state = model.step(now, state)
        now = logits.argmax(-1, keepdim=True)
        found.append(now[:, 0])
        close(free[:, t], as_torch(logits))
        close(weights[:, t], as_torch(state.weights))
    written = greedy_search(model.step, target[:, :1], model.start(source, lengths), max_new_tokens=7)
    np.testing.assert_array_equal(written[:, 1:].numpy(), weft.stack(found, 1).numpy())


@pytest.mark.parametrize("i", [0, 1, 7, 40, 5000])
def test_shares_of_teacher_forcing_are_those_of_the_paper(i):
    assert float(teacher_forcing_share(i, 10.0, "linear")) == pytest.approx(max(0, 1 - i / 10))
    assert float(teacher_forcing_share(i, 0.9, "exponential")) == pytest.approx(0.9**i, rel=1e-4)
    expected = 10 / (10 + np.exp(min(i / 10, 700)))
    assert float(teacher_forcing_share(i, 10.0)) == pytest.approx(expected, rel=1e-4, abs=1e-37)
    with pytest.raises(OptionError, match="linear, exponential"):
        teacher_forcing_share(i, 10.0, "cosine")


def test_scheduled_sampling_takes_the_share_it_is_told():
    weft.manual_seed(0)
    model = Seq2Seq(9, 9, 4, 4, attention=None)
    nn.init.zeros_(model.output.weight)
    model.output.bias.data[3] = 9.0  # it always says 3, whose embedding is 0; the right token 5 has embedding 1
    model.embedding.weight.data[3], model.embedding.weight.data[5] = 0.0, 1.0
    seen, step = [], model.decoder.step
    model.decoder.step = lambda x, *rest: (seen.append(x[:, 0]), step(x, *rest))[1]
    model(tokens(500, 2, high=9), weft.full((500, 5), 5), sampling=0.25)
    shares = [1 - float(x.mean()) for x in seen]
    assert shares[0] == 0
    np.testing.assert_allclose(shares[1:], 0.25, atol=0.07)  # 3.6 standard deviations


class TorchTranslation(tnn.Module):
    def __init__(self, vocabulary: int, width: int, norm_first: bool) -> None:
        super().__init__()
        self.transformer = tnn.Transformer(width, 2, 2, 2, 16, 0.0, batch_first=True, norm_first=norm_first)
        self.source_embedding, self.target_embedding = (tnn.Embedding(vocabulary, width) for _ in range(2))
        self.generator = tnn.Linear(width, vocabulary)
        self.generator.weight = self.target_embedding.weight

    def embedded(self, x, table):
        width = table.weight.shape[1]
        i, k = torch.arange(x.shape[1])[:, None], torch.arange(0, width, 2)
        angles = i / 10000 ** (k / width)
        places = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        return table(x) * width**0.5 + places

    def forward(self, source, target):
        ignored = source == 0
        later = self.transformer.generate_square_subsequent_mask(target.shape[1])
        z = self.transformer(
            self.embedded(source, self.source_embedding),
            self.embedded(target, self.target_embedding),
            tgt_mask=later,
            src_key_padding_mask=ignored,
            memory_key_padding_mask=ignored,
        )
        return self.generator(z)


def translator(norm_first: bool = False, **options) -> TranslationTransformer:
    sizes = {"d_model": 8, "nhead": 2, "num_encoder_layers": 2, "num_decoder_layers": 2, "dim_feedforward": 16}
    return TranslationTransformer(12, 12, **sizes, dropout=0.0, norm_first=norm_first, **options)


def padded_source() -> weft.Tensor:
    source = tokens(3, 6, high=12)
    source[1, 3:] = 0
    source[2, 5:] = 0
    return source


@pytest.mark.parametrize("norm_first", [False, True])
def test_translation_transformer_is_pytorchs(norm_first):
    ours, theirs = translator(norm_first), TorchTranslation(12, 8, norm_first)
    theirs.load_state_dict({key: as_torch(value) for key, value in ours.state_dict().items()})
    source, target, y = padded_source(), tokens(3, 5, high=12, seed=1), tokens(3, 5, high=12, seed=2)
    logits, expected = ours(source, target), theirs(as_torch(source), as_torch(target))
    close(logits, expected)
    F.cross_entropy(logits.flatten(0, 1), y.flatten()).backward()
    torch.nn.functional.cross_entropy(expected.flatten(0, 1), as_torch(y).flatten()).backward()
    assert_same_gradients(ours, theirs, {"": ""})


@pytest.mark.parametrize("norm_first", [False, True])
def test_translation_with_caches_is_full_recomputation(norm_first):
    model, source = translator(norm_first, tie_source=True).eval(), padded_source()
    target = tokens(3, 6, high=12, seed=1)
    full, state = model(source, target), model.start(source)
    for t in range(6):
        logits, state = model.step(target[:, t : t + 1], state)
        close(logits, as_torch(full[:, t]))
    close(model.step(target, model.start(source))[0], as_torch(full[:, -1]))  # several at once
    _, state = model.step(target[:, :2], model.start(source))
    close(model.step(target[:, 2:], state)[0], as_torch(full[:, -1]))
    options = {"max_new_tokens": 5, "eos_token_id": 3, "pad_token_id": 0}
    cached = beam_search(model.step, target[:, :1], model.start(source), num_beams=3, **options)
    again = beam_search(
        lambda new, state: _recomputed(model, new, state),
        target[:, :1],
        (source, target[:, :0]),
        num_beams=3,
        **options,
    )
    np.testing.assert_array_equal(cached.sequences.numpy(), again.sequences.numpy())
    close(cached.scores, as_torch(again.scores))


def _recomputed(model, new, state):
    source, so_far = state
    so_far = weft.cat([so_far, new], 1)
    return model(source, so_far)[:, -1], (source, so_far)


def test_language_model_steps_are_the_full_network():
    model = RecurrentLanguageModel(9, 6, 6, num_layers=2)
    start = tokens(2, 3, high=9)
    options = {"num_beams": 3, "max_new_tokens": 5}
    expected = beam_search(recomputing(lambda x: model(x)[0]), start, **options)
    found = beam_search(model.step, start, **options)
    np.testing.assert_array_equal(found.sequences.numpy(), expected.sequences.numpy())
    close(found.scores, as_torch(expected.scores))
