"""Masked images and tables: how much is hidden, what is seen, what is scored, and what can be learned of hidden cells."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import weft
from weft import nn
from weft.data import load_digits
from weft.errors import OptionError, ShapeError
from weft.models.fewlabels import (
    MaskedAutoencoder,
    MaskedTable,
    hidden_count,
    hidden_places,
    linear_probe,
    patchify,
    unpatchify,
)


def small(**options) -> MaskedAutoencoder:
    weft.manual_seed(0)
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "mlp_dim": 16, "decoder_dim": 8, **options}
    return MaskedAutoencoder(8, 2, **sizes)


# ------------------------------------------------------------------------------------------- what is hidden


@pytest.mark.parametrize("parts, ratio", [(16, 0.75), (49, 0.75), (49, 0.5), (10, 0.33), (2, 0.5), (3, 0.9)])
def test_the_share_that_is_hidden_is_exact_in_every_row(parts, ratio):
    count = hidden_count(parts, ratio)
    assert count == min(max(round(parts * ratio), 1), parts - 1)
    order, places, mask = hidden_places(50, parts, count)
    assert mask.sum(1).tolist() == [count] * 50
    rows = np.arange(50)[:, None]
    assert (np.sort(order.numpy(), 1) == np.arange(parts)).all()
    assert (order.numpy()[rows, places.numpy()] == np.arange(parts)).all()
    assert (mask.numpy()[rows, order.numpy()[:, parts - count :]] == 1).all()


def test_every_part_is_hidden_equally_often():
    weft.manual_seed(0)
    _, _, mask = hidden_places(4000, 8, 6)
    assert np.abs(mask.mean(0).numpy() - 0.75).max() < 4 * np.sqrt(0.75 * 0.25 / 4000)


def test_patches_are_windows_and_go_back():
    x = np.random.default_rng(0).normal(size=(2, 3, 8, 8))
    patches = patchify(weft.tensor(x), 4).numpy()
    np.testing.assert_array_equal(patches[1, 1], x[1, :, :4, 4:].reshape(-1))
    np.testing.assert_array_equal(unpatchify(weft.tensor(patches), 4, 3).numpy(), x)


# ------------------------------------------------------------------------------------------- what is seen and scored


@pytest.mark.parametrize("norm_pix_loss", [False, True])
def test_the_loss_is_of_hidden_patches_alone(norm_pix_loss):
    """Against the formula in NumPy over the hidden patches; and no gradient reaches what is said of seen ones."""
    model = small(norm_pix_loss=norm_pix_loss)
    images, noise = weft.rand(3, 1, 8, 8), weft.rand(3, 16)
    patches = patchify(images, 2)
    said, mask, _ = model.decoded(patches, noise)
    p, hidden = patches.numpy(), mask.numpy() == 1
    if norm_pix_loss:
        p = (p - p.mean(-1, keepdims=True)) / np.sqrt(p.var(-1, ddof=1, keepdims=True) + 1e-6)
    expected = ((said.detach().numpy() - p)[hidden] ** 2).mean()
    assert model.losses(images, noise)[0].item() == pytest.approx(expected, rel=1e-5)
    assert hidden.sum(1).tolist() == [12, 12, 12]
    caught = []
    model.pixels.register_full_backward_hook(lambda module, into, out: caught.append(out[0].numpy()))
    model.losses(images, noise)[0].backward()
    assert (caught[0][~hidden] == 0).all() and (np.abs(caught[0][hidden]).sum(-1) > 0).all()


def test_hidden_patches_are_not_seen():
    """Whatever stands there, the decoder says the same; a seen pixel changes what it says."""
    model = small()
    images, noise = weft.rand(1, 1, 8, 8), weft.rand(1, 16)
    patches = patchify(images, 2)
    said, mask, _ = model.decoded(patches, noise)
    hidden, other = mask[0].numpy() == 1, patches.numpy().copy()
    other[0, hidden] = 7.0
    assert model.decoded(weft.tensor(other), noise)[0].tolist() == said.tolist()
    other[0, np.flatnonzero(~hidden)[0], 0] += 1.0
    assert (model.decoded(weft.tensor(other), noise)[0] != said).any()


@pytest.mark.parametrize("norm_pix_loss", [False, True])
def test_a_reconstruction_keeps_what_was_seen(norm_pix_loss):
    model, images = small(norm_pix_loss=norm_pix_loss), weft.rand(2, 1, 8, 8)
    with weft.no_grad():
        found = model.reconstruct(images)
    seen = found.mask.numpy() == 0
    np.testing.assert_array_equal(patchify(found.filled, 2).numpy()[seen], patchify(images, 2).numpy()[seen])
    np.testing.assert_array_equal(patchify(found.filled, 2).numpy()[~seen], patchify(found.said, 2).numpy()[~seen])


# ------------------------------------------------------------------------------------------- tables


def table(count: int, rng: np.random.Generator) -> np.ndarray:
    """x₁ = z, x₂ = ρ z + √(1 − ρ²) ε, and a category that is the sign of z with a twentieth of them changed."""
    z, e = rng.normal(size=(2, count))
    sign = (z > 0) ^ (rng.random(count) < 0.05)
    return np.stack([z, 0.9 * z + np.sqrt(1 - 0.81) * e, sign], 1).astype(np.float32)


def test_hidden_cells_cost_what_theory_says_they_must():
    """E(x₂ | x₁) leaves the variance 1 − ρ²; three seconds come within a quarter of it, and far below 1 for x₁ and x₂."""
    weft.manual_seed(0)
    rng = np.random.default_rng(0)
    model = MaskedTable(2, [2], dim=16, num_layers=1, num_heads=2, mask_ratio=0.34)
    assert model.hidden == 1
    optimizer = weft.optim.Adam(model.parameters(), lr=5e-3)

    @weft.compile(fullgraph=True)
    def step(rows):
        optimizer.zero_grad()
        loss = model.loss(rows)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(250):
        step(weft.tensor(table(256, rng)))
    rows = weft.tensor(table(4000, rng))
    masks = [weft.tensor(np.eye(3, dtype=np.float32)[k]).expand(4000, 3) for k in range(3)]
    with weft.no_grad():
        errors = [((model.impute(rows, masks[k])[0][:, k] - rows[:, k]) ** 2).mean().item() for k in (0, 1)]
        chances = model.impute(rows, masks[2])[1][0]
    assert 0.15 < errors[1] < 0.19 * 1.25 and errors[0] < 0.3
    assert (chances.argmax(1) == rows[:, 2].long()).float().mean().item() > 0.9


def test_hidden_and_missing_cells_are_not_seen_and_missing_ones_not_counted():
    weft.manual_seed(0)
    model = MaskedTable(3, [4], dim=8, num_layers=1, num_heads=2)
    rows = weft.tensor([[0.5, -1.0, 0.2, 3.0], [1.0, 0.0, 0.0, 1.0]])
    mask = weft.tensor([[0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
    codes = model.encoder.encoded(rows, mask)
    other = weft.tensor([[0.5, 9.0, 0.2, 0.0], [-5.0, 0.0, 0.0, 1.0]])
    assert model.encoder.encoded(other, mask).tolist() == codes.tolist()
    gaps = weft.where(mask > 0, weft.nan, rows)
    assert model.encoder.encoded(gaps, weft.zeros(2, 4)).tolist() == codes.tolist()
    assert model.loss(weft.full((2, 4), weft.nan)).item() == 0.0
    model.loss(gaps).backward()
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())


# ------------------------------------------------------------------------------------------- steps


@pytest.mark.parametrize(
    "make, given",
    [
        (small, lambda: weft.rand(4, 1, 8, 8)),
        (lambda: MaskedTable(2, [3, 2], dim=8, num_layers=1, num_heads=2), lambda: (weft.rand(6, 4) * 2).floor()),
    ],
    ids=["images", "tables"],
)
def test_compiled_steps_are_whole_and_equal_eager_ones(make, given):
    model = make()
    other, batches = copy.deepcopy(model), [given() for _ in range(3)]

    def stepping(model):
        optimizer = weft.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            loss = model.loss(x)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        return step

    losses = []
    for step in (stepping(model), weft.compile(stepping(other), fullgraph=True)):
        weft.manual_seed(1)  # the same places are hidden
        losses.append([step(x).item() for x in batches])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.slow
def test_a_masked_autoencoder_learns_digits():
    images, labels = load_digits()
    x = weft.tensor(images[:, None] / 16, dtype=weft.float32)
    model = small(hidden_dim=16, mlp_dim=32, decoder_dim=16, mask_ratio=0.5)
    optimizer = weft.optim.Adam(model.parameters(), lr=1e-2)

    @weft.compile(fullgraph=True)
    def step(batch):
        optimizer.zero_grad()
        loss = model.loss(batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    y = weft.tensor(labels.astype(np.int64))
    judged = lambda: linear_probe(model.embed, x[:100], y[:100], ridge=3.0).accuracy(x[1300:], y[1300:])
    before, rng = judged(), np.random.default_rng(0)
    losses = [step(x[weft.tensor(rng.integers(0, 1300, 128))]).item() for _ in range(600)]
    mean = float(((x - x.mean(0)) ** 2).mean())  # what the mean image would leave
    assert np.mean(losses[-50:]) < 0.92 * mean
    assert judged() > before + 0.05


@pytest.mark.parametrize(
    "wrong, error",
    [
        (lambda: hidden_count(1, 0.5), OptionError),
        (lambda: hidden_count(4, 0.0), OptionError),
        (lambda: hidden_count(4, 1.0), OptionError),
        (lambda: MaskedAutoencoder(9, 2), OptionError),
        (lambda: patchify(weft.zeros(1, 1, 9, 8), 2), ShapeError),
        (lambda: MaskedTable(1), OptionError),
        (lambda: MaskedTable(2, [1]), OptionError),
        (lambda: MaskedTable(2, [3]).embed(weft.zeros(2, 2)), ShapeError),
    ],
)
def test_what_cannot_be_is_refused(wrong, error):
    with pytest.raises(error, match=r"expected|no multiple|not made"):
        wrong()


def test_encoders_are_modules_of_their_own():
    """What is thrown away after training is not in the encoder."""
    model = small()
    kept = {name for name, _ in model.encoder.named_parameters()}
    assert kept and not any(name.startswith(("decoder", "pixels", "token")) for name in kept)
    assert isinstance(model.encoder, nn.Module) and model.encoder(weft.rand(2, 1, 8, 8)).shape == (2, 8)
