"""What all autoencoders share: the protocol, honest losses, tied weights, stacks, compiled training on real digits."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

import weft
from weft import nn
from weft.data import load_digits
from weft.errors import OptionError, ShapeError, UnsupportedError
from weft.models.autoencoders import (
    AdversarialAutoencoder,
    Autoencoder,
    Contraction,
    ConvolutionalAutoencoder,
    DeepAutoencoder,
    EncoderClassifier,
    GaussianNoise,
    KLSparsity,
    L1Sparsity,
    LinearAutoencoder,
    Masking,
    PredictiveSparseDecomposition,
    RecurrentAutoencoder,
    RegularisedAutoencoder,
    SaltAndPepper,
    SigmoidContraction,
    StackedAutoencoder,
    TiedAutoencoder,
    WassersteinAutoencoder,
    errors,
)


def seeded(seed=0):
    return weft.Generator().manual_seed(seed)


def linear_pair(features=64, code=6):
    return nn.Linear(features, code), nn.Linear(code, features)


MODELS = {
    "linear": lambda: LinearAutoencoder(64, 6),
    "deep": lambda: DeepAutoencoder(64, (32,), 6, "cross_entropy"),
    "deep denoising": lambda: DeepAutoencoder(64, (32,), 6, noise=GaussianNoise(0.3)),
    "deep salted": lambda: DeepAutoencoder(64, (32,), 6, noise=SaltAndPepper(0.2)),
    "tied": lambda: TiedAutoencoder(64, [32, 6], "cross_entropy", noise=Masking(0.2)),
    "contractive": lambda: TiedAutoencoder(64, [16], "cross_entropy", penalties=[SigmoidContraction(0.1)]),
    "deep contractive": lambda: DeepAutoencoder(64, (16,), 4, penalties=[Contraction(0.1)]),
    "sparse": lambda: TiedAutoencoder(64, [16], penalties=[KLSparsity(0.1)]),
    "sparse by L1": lambda: DeepAutoencoder(64, (16,), 8, penalties=[L1Sparsity(0.1)]),
    "predictive sparse": lambda: PredictiveSparseDecomposition(64, 20),
    "convolutional": lambda: ConvolutionalAutoencoder((1, 8, 8), (8,), 6),
    "recurrent": lambda: RecurrentAutoencoder(8, 16, 6, 8),
    "stacked": lambda: StackedAutoencoder([TiedAutoencoder(64, [16], "cross_entropy"), TiedAutoencoder(16, [6])]),
    "Wasserstein": lambda: WassersteinAutoencoder(*linear_pair(), 6),
    "adversarial": lambda: AdversarialAutoencoder(*linear_pair(), nn.Linear(6, 1), 6),
    "regularised": lambda: RegularisedAutoencoder(*linear_pair(), 6),
}


@pytest.fixture(scope="module")
def digits():
    """Brightness in [0, 1], rows of 64 pixels: training and test."""
    images, _ = load_digits()
    rows = weft.tensor((images.reshape(-1, 64) / 16).astype(np.float32))
    return rows[:1400], rows[1400:]


def shaped(model, rows):
    if isinstance(model, ConvolutionalAutoencoder):
        return rows.reshape(-1, 1, 8, 8)
    return rows.reshape(-1, 8, 8) if isinstance(model, RecurrentAutoencoder) else rows


def stepping(model, optimizer, generator):
    def step(x):
        optimizer.zero_grad()
        loss = model.loss(x, generator)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@pytest.mark.parametrize("name", MODELS)
def test_compiled_training_is_eager_training_and_learns(name, digits):
    """Three steps either way, noise and all; going on, the compiled one lowers the loss on digits it has not seen."""
    weft.manual_seed(0)
    model = MODELS[name]()
    eager, train, test = copy.deepcopy(model), *(shaped(model, part) for part in digits)
    error = lambda: ((test - model.reconstruct(test)) ** 2).mean().item()
    before, losses = error(), []
    for one, wrap in ((eager, lambda f: f), (model, weft.compile)):
        step = wrap(stepping(one, weft.optim.Adam(one.parameters(), lr=1e-2), seeded(1)))
        losses.append([step(train[:100]).item() for _ in range(3)])
    np.testing.assert_allclose(*losses, rtol=2e-4)
    generator = seeded(2)
    for _ in range(7):
        for batch in train[weft.randperm(1400, generator=generator)].split(100):
            step(batch)
    assert error() < 0.75 * before, f"{before:.4f} → {error():.4f}"


@pytest.mark.parametrize("name", MODELS)
def test_the_protocol(name, digits):
    weft.manual_seed(0)
    model = MODELS[name]()
    x, y = shaped(model, digits[0][:4]), shaped(model, digits[0][4:8])
    assert {"encode", "decode", "reconstruct", "interpolate"} <= set(model.promises)
    path = model.interpolate(x, y, steps=5)
    assert path.shape == (5, *x.shape)
    np.testing.assert_allclose(path[0].detach(), model.reconstruct(x).detach(), atol=1e-5)
    np.testing.assert_allclose(path[-1].detach(), model.reconstruct(y).detach(), atol=1e-5)
    middle = model.decode((model.encode(x) + model.encode(y)) / 2)
    np.testing.assert_allclose(path[2].detach(), middle.detach(), atol=1e-4)
    with pytest.raises(UnsupportedError, match=r"has no log_prob; it has .*encode"):
        model.log_prob(x)


@pytest.mark.parametrize("name", ["deep", "tied", "stacked"])
def test_weights_survive_their_file(name, tmp_path):
    model, other = MODELS[name](), MODELS[name]()
    weft.save(dict(model.state_dict()), tmp_path / "weights.weft")
    other.load_state_dict(weft.load(tmp_path / "weights.weft"))
    x = weft.rand(3, 64)
    assert weft.equal(model(x), other(x))


# ------------------------------------------------------------------------------------------- losses


def test_errors_are_sums_over_the_event_and_means_over_rows():
    weft.manual_seed(0)
    x = weft.rand(5, 64)
    for error, theirs in (
        ("squared_error", lambda a, t: torch.nn.functional.mse_loss(a, t, reduction="none")),
        ("cross_entropy", lambda a, t: torch.nn.functional.binary_cross_entropy_with_logits(a, t, reduction="none")),
    ):
        model = DeepAutoencoder(64, (8,), 3, error)
        said = torch.tensor(model.decoder(model.encode(x)).detach().numpy())
        each = theirs(said, torch.tensor(x.numpy())).sum(1)
        np.testing.assert_allclose(model.reconstruction_error(x).detach(), each.numpy(), rtol=1e-5)
        assert model.loss(x).item() == pytest.approx(each.mean().item(), rel=1e-5)


def test_cross_entropy_of_grey_values_is_no_likelihood():
    """A perfect copy of grey values still costs their entropy, and nothing here calls it a log-likelihood."""
    grey, bits = weft.full((1, 2), 0.3), weft.tensor([[1.0, 0.0]])
    copying = Autoencoder(nn.Identity(), nn.Identity(), "cross_entropy")
    entropy = -2 * (0.3 * math.log(0.3) + 0.7 * math.log(0.7))
    logits = weft.logit(grey)
    assert errors("cross_entropy", logits, grey).item() == pytest.approx(entropy, rel=1e-5)
    np.testing.assert_allclose(copying.decode(logits), grey, rtol=1e-6)
    likelihood = weft.distributions.Bernoulli(logits=logits).log_prob(bits).sum(1)
    assert errors("cross_entropy", logits, bits).item() == pytest.approx(-likelihood.item(), rel=1e-5)
    assert "log_prob" not in copying.promises and "elbo" not in copying.promises


def test_squared_error_compares_models_whatever_trained_them():
    x = weft.rand(4, 64)
    for error in ("squared_error", "cross_entropy"):
        model = DeepAutoencoder(64, (8,), 3, error)
        expected = ((x - model(x)) ** 2).sum(1)
        np.testing.assert_allclose(model.squared_error(x).detach(), expected.detach(), rtol=1e-6)


def test_what_is_refused():
    with pytest.raises(OptionError, match="squared_error"):
        Autoencoder(nn.Identity(), nn.Identity(), "nll")
    with pytest.raises(ShapeError, match=r"made \(2, 3\) of data of shape \(2, 4\)"):
        Autoencoder(nn.Linear(4, 2), nn.Linear(2, 3)).loss(weft.zeros(2, 4))
    with pytest.raises(OptionError, match="one layer"):
        TiedAutoencoder(4, [])
    with pytest.raises(OptionError, match="relu"):
        TiedAutoencoder(4, [2], activation="rely")
    with pytest.raises(OptionError, match="images"):
        ConvolutionalAutoencoder((8, 8), (4,), 2)
    with pytest.raises(OptionError, match="one layer"):
        StackedAutoencoder([])


# ------------------------------------------------------------------------------------------- architectures


def test_tied_slopes_are_the_sum_of_both_uses():
    weft.manual_seed(0)
    tied = TiedAutoencoder(7, [5, 3]).double()
    x = weft.rand(6, 7, dtype=weft.float64)
    free = Autoencoder(
        nn.Sequential(nn.Linear(7, 5), nn.Sigmoid(), nn.Linear(5, 3), nn.Sigmoid()),
        nn.Sequential(nn.Linear(3, 5), nn.Sigmoid(), nn.Linear(5, 7)),
    ).double()
    with weft.no_grad():
        for mine, its in ((tied.encoder[0], free.encoder[0]), (tied.encoder[2], free.encoder[2])):
            its.weight.copy_(mine.weight)
            its.bias.copy_(mine.bias)
        for its, mine, bias in ((free.decoder[0], tied.encoder[2], 0), (free.decoder[2], tied.encoder[0], 2)):
            its.weight.copy_(mine.weight.mT)
            its.bias.copy_(tied.decoder[bias].bias)
    tied.loss(x).backward()
    free.loss(x).backward()
    for down, up in ((0, 2), (2, 0)):
        expected = free.encoder[down].weight.grad + free.decoder[up].weight.grad.mT
        np.testing.assert_allclose(tied.encoder[down].weight.grad, expected, rtol=1e-10)
    assert sum(p.numel() for p in tied.parameters()) == 7 * 5 + 5 * 3 + 5 + 3 + 5 + 7


def test_copies_of_tied_models_are_tied_to_themselves():
    model = TiedAutoencoder(6, [3])
    other = copy.deepcopy(model)
    with weft.no_grad():
        other.encoder[0].weight.zero_()
    assert (other.decoder(weft.ones(1, 3)) == 0).all() and (model.encoder[0].weight != 0).any()


def test_a_stack_is_the_composition_of_its_layers():
    low, high = TiedAutoencoder(8, [5], "cross_entropy"), TiedAutoencoder(5, [3], "cross_entropy")
    stack, x = StackedAutoencoder([low, high]), weft.rand(4, 8)
    assert weft.equal(stack.encode(x), high.encode(low.encode(x)))
    np.testing.assert_allclose(stack(x).detach(), low.decode(high.decode(stack.encode(x))).detach(), atol=1e-6)
    assert stack.error == "cross_entropy" and stack.layers == [low, high]


def test_layers_learn_one_after_the_other(digits):
    """Greedy training touches one layer at a time, each on the codes below; unrolled, it starts ahead of random weights."""
    weft.manual_seed(0)
    layers = [TiedAutoencoder(64, [40], "cross_entropy"), TiedAutoencoder(40, [12], "cross_entropy")]
    stack, (train, test) = StackedAutoencoder(layers), digits
    before = stack.loss(test).item()
    kept = layers[1].encoder[0].weight.detach().clone()
    learning = stack.pretrain(train, 6, 50, lambda p: weft.optim.Adam(p, lr=1e-2), seeded(0))
    first = next(learning)
    assert first[-1] < first[0] and weft.equal(layers[1].encoder[0].weight, kept)
    (second,) = list(learning)
    assert second[-1] < second[0]
    greedy = stack.loss(test).item()
    assert greedy < 0.9 * before
    step = weft.compile(stepping(stack, weft.optim.Adam(stack.parameters(), lr=3e-3), None))
    for _ in range(4):
        for batch in train.split(100):
            step(batch)
    assert stack.loss(test).item() < greedy  # fine-tuning


def test_nothing_passes_a_recurrent_code():
    """Sequences with one code come out the same, whatever they were."""
    model = RecurrentAutoencoder(2, 6, 3, 5)
    with weft.no_grad():
        model.encoder.code.weight.zero_()
    assert weft.equal(model(weft.randn(1, 5, 2)), model(weft.randn(1, 5, 2)))
    assert model.decode(weft.randn(2, 3)).shape == (2, 5, 2)


def test_sizes_of_convolutional_images():
    for shape in ((1, 28, 28), (3, 9, 7), (2, 5, 8)):
        model = ConvolutionalAutoencoder(shape, (4, 8), 3)
        assert model(weft.rand(2, *shape)).shape == (2, *shape)


def test_a_deep_autoencoder_beats_pca_of_its_size(digits):
    """What a curved space is for: less error than the best flat one, on digits not seen."""
    weft.manual_seed(0)
    train, test = digits
    flat = LinearAutoencoder(64, 4)
    flat.solve(train)
    model = DeepAutoencoder(64, (128, 64), 4, activation="silu", init="he")
    optimizer = weft.optim.Adam(model.parameters(), lr=3e-3)
    generator = seeded(1)
    step = weft.compile(stepping(model, optimizer, generator))
    for epoch in range(40):
        optimizer.param_groups[0]["lr"] = 3e-3 * (1 - epoch / 40)
        for batch in train[weft.randperm(1400, generator=generator)].split(50):
            step(batch)
    ours, pca = (m.squared_error(test).mean().item() for m in (model, flat))
    assert ours < 0.85 * pca, (ours, pca)


# ------------------------------------------------------------------------------------------- features


def test_embedding_is_encoding_in_evaluation_mode():
    encoder = nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
    model = Autoencoder(encoder, nn.Linear(4, 5))
    x = weft.rand(11, 5)
    found = model.embed(x, at_once=4)
    assert model.training and not found.requires_grad
    np.testing.assert_allclose(found, model.eval().encode(x).detach(), atol=1e-6)


def test_a_probe_moves_nothing_below_it(digits):
    """Neither weights nor running means of a still encoder change, however the head is trained."""
    _, labels = load_digits()
    target = weft.tensor(labels[:1400].astype(np.int64))
    encoder = nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU())
    model = EncoderClassifier(Autoencoder(encoder, nn.Linear(16, 64)), 16, 10).train()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    optimizer = weft.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)

    @weft.compile
    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(digits[0]), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = [step().item() for _ in range(30)]
    assert losses[-1] < losses[0]
    assert all(weft.equal(value, before[name]) for name, value in encoder.state_dict().items())
    model.unfreeze()
    nn.functional.cross_entropy(model(digits[0]), target).backward()
    assert encoder[0].weight.grad is not None and encoder[1].training
