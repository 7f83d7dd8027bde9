"""DeepAR's likelihoods and samples; truncated back-propagation in time; every sequence model compiled and eager."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch

import weft
from weft import nn
from weft.data.text import BPTTDataset
from weft.errors import OptionError, ShapeError
from weft.models.supervised import (
    TCN,
    AnomalyDetector,
    DeepAR,
    IntermediateClassifier,
    RecurrentForecaster,
    RecurrentLanguageModel,
    Seq2Seq,
    SequenceClassifier,
    SequenceTagger,
    TranslationTransformer,
    WaveNet,
    Word2Vec,
    intermediate_loss,
    teacher_forcing_share,
)
from weft.train import CarriedState, Task, Trainer, TruncatedBPTT, run_with_resets

from .test_sequences import normal, tokens

F = nn.functional


# ------------------------------------------------------------------------------------------- DeepAR


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


def scipy_log_prob(kind: str, raw: np.ndarray, scale: np.ndarray, z: np.ndarray) -> np.ndarray:
    """log p(z) from the outputs of the head, by SciPy; 1e-4 is the least spread."""
    if kind == "gaussian":
        return scipy.stats.norm.logpdf(z, raw[..., 0] * scale, (softplus(raw[..., 1]) + 1e-4) * scale)
    if kind == "student-t":
        width = (softplus(raw[..., 1]) + 1e-4) * scale
        return scipy.stats.t.logpdf(z, 2 + softplus(raw[..., 2]), raw[..., 0] * scale, width)
    mean, shape = (softplus(raw[..., 0]) + 1e-4) * scale, (softplus(raw[..., 1]) + 1e-4) / np.sqrt(scale)
    return scipy.stats.nbinom.logpmf(z, 1 / shape, 1 / (1 + mean * shape))


@pytest.mark.parametrize("kind", ["gaussian", "student-t", "negative-binomial"])
def test_likelihoods_are_scipys(kind):
    model = DeepAR(likelihood=kind, hidden_size=6)
    h, scale = normal(4, 5, 6), normal(4, 1).abs() + 0.5
    z = tokens(4, 5, high=12).float()
    raw = model.likelihood.parameters_of(h).detach().numpy().astype(float)
    found = model.likelihood(h, scale).log_prob(z).detach().numpy()
    expected = scipy_log_prob(kind, raw, scale.numpy().astype(float), z.numpy().astype(float))
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_negative_binomial_has_the_mean_and_variance_of_the_paper():
    model = DeepAR(likelihood="negative-binomial", hidden_size=3)
    h, scale = normal(6, 3), weft.tensor([1.0, 2, 4, 9, 16, 25])
    raw = model.likelihood.parameters_of(h).detach().numpy()
    law = model.likelihood(h, scale)
    m, a = (softplus(raw[:, 0]) + 1e-4) * scale.numpy(), (softplus(raw[:, 1]) + 1e-4) / np.sqrt(scale.numpy())
    np.testing.assert_allclose(law.mean.detach(), m, rtol=1e-4)
    np.testing.assert_allclose(law.variance.detach(), m + a * m * m, rtol=1e-4)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_deepar_conditions_on_the_past_alone(cell):
    """d log p(z_t) / d z_s is 0 for s > t, and the recurrence is PyTorch's over [z_{t−1} / ν, x_t]."""
    model = DeepAR(covariates=2, hidden_size=5, cell=cell)
    z, x, scale = normal(2, 6).requires_grad_(), normal(2, 6, 2), weft.tensor([1.5, 3.0])
    law = model(z, x, scale)
    law.mean[0, 3].backward()
    assert np.nonzero(np.asarray(z.grad)[0])[0].tolist() == [0, 1, 2]
    theirs = getattr(torch.nn, cell.upper())(3, 5, batch_first=True)
    theirs.load_state_dict({k: torch.from_numpy(np.array(v)) for k, v in model.rnn.state_dict().items()})
    before = np.concatenate([np.zeros((2, 1)), np.array(z.detach())[:, :-1]], 1) / np.array([[1.5], [3.0]])
    inputs = torch.tensor(np.concatenate([before[..., None], np.array(x)], -1), dtype=torch.float32)
    h = theirs(inputs)[0].detach().numpy()
    w, b = (np.array(p.detach()) for p in model.likelihood.parameters_of.parameters())
    np.testing.assert_allclose(law.mean.detach(), (h @ w.T + b)[..., 0] * np.array([[1.5], [3.0]]), atol=1e-5)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_ancestral_samples_follow_the_model(cell):
    """The mean of z_T over paths is that of its distribution; each later value is drawn given the one before."""
    weft.manual_seed(0)
    model = DeepAR(covariates=1, hidden_size=4, cell=cell)
    z, x = normal(2, 5), normal(2, 8, 1)
    scale = model.scale_of(z)
    np.testing.assert_allclose(scale, 1 + np.abs(np.array(z)).mean(1), rtol=1e-6)
    paths = model.sample(z, 3, x, samples=2000, seed=5)
    assert paths.shape == (2000, 2, 3)
    np.testing.assert_array_equal(paths.numpy(), model.sample(z, 3, x, samples=2000, seed=5).numpy())
    longer = weft.cat([z, weft.zeros(2, 1)], 1)
    first = model(longer, x[:, :6], scale)  # z_5 given z_0 … z_4
    error = np.array(paths[:, :, 0].mean(0) - first.mean[:, 5].detach())
    assert (np.abs(error) < 4 * np.array(first.stddev[:, 5].detach()) / np.sqrt(2000)).all()
    one = paths[0]  # (2, 3): the density of this path's last value, given its first two
    law = model(weft.cat([z, one], 1), x, scale)
    again = model.sample(weft.cat([z, one[:, :2]], 1), 1, x, samples=2000, seed=6, scale=scale)
    error = np.array(again[:, :, 0].mean(0) - law.mean[:, 7].detach())
    assert (np.abs(error) < 4 * np.array(law.stddev[:, 7].detach()) / np.sqrt(2000)).all()


def test_quantiles_are_numpys_of_the_paths():
    model, z = DeepAR(hidden_size=4, likelihood="student-t"), normal(3, 5)
    paths = model.sample(z, 2, samples=50, seed=1)
    found = model.quantiles(z, 2, [0.1, 0.5, 0.9], samples=50, seed=1)
    np.testing.assert_allclose(found, np.quantile(np.array(paths), [0.1, 0.5, 0.9], axis=0), rtol=1e-4, atol=1e-6)


def test_deepar_loss_counts_what_the_mask_says_and_names_missing_covariates():
    model, z = DeepAR(hidden_size=4), normal(2, 5)
    nll = -model(z).log_prob(z).detach().numpy()
    mask = np.array([[0, 1, 1, 0, 1], [0, 0, 0, 1, 0]], bool)
    found = float(model.loss(z, mask=weft.tensor(mask), skip=1))
    assert found == pytest.approx(nll[mask].mean(), rel=1e-5)
    assert float(model.loss(z)) == pytest.approx(nll.mean(), rel=1e-5)
    with pytest.raises(ShapeError, match="width 2"):
        DeepAR(covariates=2)(z)
    with pytest.raises(ShapeError, match=r"\(2, 7, 1\)"):
        DeepAR(covariates=1).sample(z, 2, normal(2, 5, 1))


# ------------------------------------------------------------------------------------------- truncated BPTT


def loss_of(logits: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def chunked_gradients(model: RecurrentLanguageModel, x: weft.Tensor, y: weft.Tensor, length: int) -> list[np.ndarray]:
    """Gradients of the sum of losses over chunks of this length, the state carried and cut between them."""
    model.zero_grad()
    carried = CarriedState(model.initial_state(len(x)))
    for start in range(0, x.shape[1], length):
        part = slice(start, start + length)
        logits, state = model(x[:, part], carried.begin())
        carried.keep(state)
        F.cross_entropy(logits.flatten(0, 1), y[:, part].flatten(), reduction="sum").backward()
    return [np.array(p.grad) for p in model.parameters()]


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_a_window_over_the_whole_sequence_is_full_backpropagation(cell):
    model = RecurrentLanguageModel(7, 5, 5, cell=cell)
    x, y = tokens(3, 12, high=7), tokens(3, 12, high=7, seed=1)
    model.zero_grad()
    F.cross_entropy(model(x)[0].flatten(0, 1), y.flatten(), reduction="sum").backward()
    full = [np.array(p.grad) for p in model.parameters()]
    for a, b in zip(chunked_gradients(model, x, y, 12), full, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    shorter = chunked_gradients(model, x, y, 3)
    assert max(np.abs(a - b).max() for a, b in zip(shorter, full, strict=True)) > 1e-3  # the cut is felt


def test_truncated_gradients_are_pytorchs_with_detached_states():
    model = RecurrentLanguageModel(7, 5, 5)
    theirs = torch.nn.LSTM(5, 5, batch_first=True)
    theirs.load_state_dict({k: torch.from_numpy(np.array(v)) for k, v in model.rnn.state_dict().items()})
    x, y = tokens(3, 12, high=7), tokens(3, 12, high=7, seed=1)
    ours = dict(zip([n for n, _ in model.named_parameters()], chunked_gradients(model, x, y, 5), strict=True))
    to = lambda t: torch.from_numpy(np.array(t.detach()))
    state = None
    for start in range(0, 12, 5):
        h, state = theirs(to(model.encoder.weight)[to(x)[:, start : start + 5]], state)
        logits = h @ to(model.decoder.weight).T + to(model.decoder.bias)
        target = to(y)[:, start : start + 5]
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="sum").backward()
        state = tuple(s.detach() for s in state)
    for name, parameter in theirs.named_parameters():
        np.testing.assert_allclose(ours[f"rnn.{name}"], parameter.grad, atol=1e-5)


@pytest.mark.parametrize("compiled", [False, "error"])
def test_the_task_carries_the_state_through_the_text(compiled):
    """With a learning rate of 0 the losses of the chunks are those of whole streams, and each epoch starts anew."""
    weft.manual_seed(0)
    model = RecurrentLanguageModel(6, 4, 4)
    text = tokens(61, high=6)
    chunks = BPTTDataset(text, batch_size=3, length=4)
    task = TruncatedBPTT(model, loss_of, 3, optimizer=lambda p: weft.optim.SGD(p, lr=0.0))
    trainer = Trainer(max_epochs=2, run_folder=False, progress=False, compile=compiled)
    trainer.fit(task, chunks, chunks)
    streams = text[:60].reshape(3, 20)  # (60,) → (3, 20)
    logits, (h, _) = model(streams[:, :-1])
    sizes = [len(chunks[i][0][0]) for i in range(len(chunks))]
    parts = logits.split(sizes, 1), streams[:, 1:].split(sizes, 1)
    expected = np.mean([float(loss_of(a, b)) for a, b in zip(*parts, strict=True)])
    for row in trainer.history.rows:
        assert row["train_loss"] == pytest.approx(expected, rel=1e-5)
        assert row["val_loss"] == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(task.carried.state_0, h.detach(), atol=1e-6)
    np.testing.assert_allclose(task.carried_in_tests.state_0, h.detach(), atol=1e-6)


def test_resets_inside_a_chunk_begin_a_new_sequence():
    model = RecurrentLanguageModel(6, 4, 4)
    x, state = tokens(2, 7, high=6), model(tokens(2, 3, high=6, seed=1))[1]
    resets = np.zeros((2, 7), bool)
    resets[0, 4] = resets[1, 0] = True
    logits, _ = run_with_resets(model, x, state, weft.tensor(resets))
    alone = [model(x[:1, :4], tuple(s[:, :1] for s in state))[0], model(x[:1, 4:])[0], model(x[1:])[0]]
    np.testing.assert_allclose(logits[0].detach(), weft.cat(alone[:2], 1)[0].detach(), atol=1e-6)
    np.testing.assert_allclose(logits[1].detach(), alone[2][0].detach(), atol=1e-6)
    with pytest.raises(ShapeError, match=r"\(2, 7\)"):
        run_with_resets(model, x, state, weft.tensor(resets[:, :3]))


def test_resets_through_the_task():
    text = weft.tensor([1, 2, 0, 3, 4, 5, 0, 2, 1, 3, 0, 4, 4])
    losses = []
    for length in (12, 5):
        weft.manual_seed(0)
        task = TruncatedBPTT(RecurrentLanguageModel(6, 4, 4), loss_of, 1, resets_within=True)
        task.log = lambda *args, **options: None
        chunks = BPTTDataset(text, 1, length, boundary=0)
        losses.append(sum(float(task.training_step(chunk)) * chunk[0].shape[1] for chunk in chunks))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    with pytest.raises(OptionError, match="initial_state"):
        TruncatedBPTT(nn.Linear(2, 2), loss_of, 3)


# ------------------------------------------------------------------------------------------- scheduled sampling


class Scheduled(Task):
    """Reversal with a share of right tokens that falls with the updates."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Seq2Seq(9, 9, 4, 5)

    def training_step(self, batch):
        share = teacher_forcing_share(self.global_step, 2.0)
        self.log("share", share)
        return loss_of(self.model(batch[0], batch[1], sampling=1 - share)[0], batch[1])

    def configure_optimizers(self):
        return weft.optim.SGD(self.parameters(), lr=0.1)


def test_a_compiled_task_samples_by_its_schedule():
    found = []
    for compiled in (False, "error"):
        weft.manual_seed(0)
        task = Scheduled()
        data = [(tokens(3, 5, high=9), tokens(3, 5, high=9, seed=1))] * 6
        trainer = Trainer(max_epochs=1, run_folder=False, progress=False, compile=compiled)
        trainer.fit(task, data)
        found.append([np.array(p.detach()) for p in task.parameters()])
    assert trainer.loop.step.run.traces == 1  # the share is read at every step, not frozen into a plan
    expected = np.mean([2 / (2 + np.exp(i / 2)) for i in range(6)])
    assert trainer.history.rows[-1]["share"] == pytest.approx(expected, rel=1e-5)
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


# ------------------------------------------------------------------------------------------- compiled = eager


def translation() -> TranslationTransformer:
    sizes = {"d_model": 8, "nhead": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "dim_feedforward": 16}
    return TranslationTransformer(9, 9, **sizes, dropout=0.1)


def padded(x: weft.Tensor) -> weft.Tensor:
    x[1, 3:] = 0
    return x


LENGTHS = weft.tensor([5, 3, 1])
Y = tokens(3, 5, high=9, seed=7)
MODELS = {
    "classifier": (
        lambda: SequenceClassifier(4, 5, 3, vocabulary=9, bidirectional=True, num_layers=2, dropout=0.1),
        lambda m: F.cross_entropy(m(tokens(3, 5, high=9), LENGTHS), weft.tensor([0, 1, 2])),
    ),
    "tagger": (
        lambda: SequenceTagger(4, 5, 9, vocabulary=9, cell="gru", bidirectional=True),
        lambda m: loss_of(m(tokens(3, 5, high=9), LENGTHS), Y),
    ),
    "language model": (
        lambda: RecurrentLanguageModel(9, 6, 6, num_layers=2, dropout=0.2, tie_weights=True),
        lambda m: loss_of(m(tokens(3, 5, high=9))[0], Y),
    ),
    "intermediate": (
        lambda: IntermediateClassifier(4, 5, 3, vocabulary=9, num_layers=2),
        lambda m: intermediate_loss(m(tokens(3, 5, high=9), LENGTHS), weft.tensor([0, 1, 2]), LENGTHS),
    ),
    "anomalies": (
        lambda: AnomalyDetector(2, 6, warm_up=2, cell="gru"),
        lambda m: F.mse_loss(m(normal(3, 5, 2)), normal(3, 5, 2)),
    ),
    "forecaster": (
        lambda: RecurrentForecaster(2, 6, horizon=3, cell="rnn"),
        lambda m: F.mse_loss(m(normal(3, 5, 2)), normal(3, 3, 2, seed=1)),
    ),
    **{
        f"deepar {kind}": (
            lambda kind=kind: DeepAR(2, 6, likelihood=kind),
            lambda m: m.loss(tokens(3, 5, high=9).float(), normal(3, 5, 2)),
        )
        for kind in ("gaussian", "student-t", "negative-binomial")
    },
    "tcn": (
        lambda: TCN(2, [4, 4], 3, kernel_size=3, dropout=0.1),
        lambda m: F.mse_loss(m(normal(3, 9, 2)), normal(3, 9, 3, seed=1)),
    ),
    "wavenet": (
        lambda: WaveNet(9, 4, 6, layers=3, condition=2),
        lambda m: loss_of(m(tokens(3, 5, high=9), normal(3, 2)), Y),
    ),
    **{
        f"seq2seq {attention} {cell} {sampling}": (
            lambda attention=attention, cell=cell: Seq2Seq(9, 9, 4, 5, attention=attention, cell=cell, dropout=0.1),
            lambda m, p=sampling: loss_of(m(tokens(3, 5, high=9), tokens(3, 5, high=9, seed=1), LENGTHS, p)[0], Y),
        )
        for attention, cell, sampling in (
            *(("bahdanau", "gru", 0.0), ("bahdanau", "gru", 0.5), ("luong", "lstm", 0.0), ("luong", "rnn", 0.5)),
            *((None, "gru", 0.0),),
        )
    },
    "translation": (
        translation,
        lambda m: loss_of(m(padded(tokens(3, 6, high=9)), tokens(3, 5, high=9, seed=1)), Y),
    ),
    **{
        f"word2vec {kind} {loss}": (
            lambda loss=loss: Word2Vec([5, 4, 3, 2, 2, 1, 1, 1, 1], 6, loss=loss),
            lambda m, given=given: m(given, weft.tensor([1, 5, 8])),
        )
        for kind, given in (("skip-gram", weft.tensor([0, 3, 4])), ("cbow", weft.tensor([[0, 1], [3, -1], [2, 2]])))
        for loss in ("negative", "hierarchical")
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_ten_compiled_steps_are_eager_steps(name):
    make, loss_from = MODELS[name]
    found = []
    for compiled in (False, True):
        weft.manual_seed(0)
        model = make()
        optimizer = weft.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = loss_from(model)
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = weft.compile(step) if compiled else step
        weft.manual_seed(1)
        losses = [float(run()) for _ in range(10)]
        found.append((losses, {key: np.array(value) for key, value in model.state_dict().items()}))
    np.testing.assert_allclose(found[1][0], found[0][0], atol=1e-4, rtol=1e-4)
    for key, value in found[0][1].items():
        np.testing.assert_allclose(found[1][1][key], value, atol=1e-4, rtol=1e-4, err_msg=key)
    assert min(found[0][0]) < found[0][0][0]
