"""What each game computes: shapes, conditions, plans, and what its paper states."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

import weft
from weft import nn
from weft.errors import OptionError, ShapeError, UnsupportedError
from weft.models.adversarial import (
    GAN,
    Augment,
    AuxiliaryClassifier,
    AuxiliaryClassifierGAN,
    ConcatenationDiscriminator,
    ConcatenationGenerator,
    CycleGAN,
    DCDiscriminator,
    DCGenerator,
    GenerativeStochasticNetwork,
    History,
    InfoGAN,
    Packed,
    ProjectionDiscriminator,
    ZeroPenalty,
    mlp,
)
from weft.models.adversarial.augment import colour, cut_out, translate
from weft.models.autoencoders import GaussianNoise
from weft.models.autoregressive import GaussianHead


def seeded(seed=0):
    return weft.Generator().manual_seed(seed)


# ------------------------------------------------------------------------------------------------- GAN


def test_a_gan_samples_in_one_plan_the_same_as_eagerly():
    weft.manual_seed(0)
    gan = GAN(mlp(3, (8,), 2), mlp(2, (8,), 1), 3)
    drawn = gan.sample(5, generator=seeded())
    np.testing.assert_allclose(drawn, gan.generate(gan.noise(5, seeded())).detach(), atol=1e-6)
    gan.sample(5)
    assert gan._plans.made["_drawn"].plans == 1 and gan.sample(0).shape == (0, 2) and gan.sample(1).shape == (1, 2)
    assert not drawn.requires_grad and gan.promises == {"sample": "exact"}


def test_a_gan_has_no_likelihood_and_says_so():
    gan = GAN(mlp(3, (8,), 2), mlp(2, (8,), 1), 3)
    with pytest.raises(UnsupportedError, match=r"GAN has no log_prob; it has sample \(exact\)"):
        gan.log_prob(weft.zeros(1, 2))
    with pytest.raises(UnsupportedError, match="takes no condition"):
        gan.sample(2, weft.zeros(2))


@pytest.mark.parametrize(
    ("batch", "error", "says"),
    [
        (weft.zeros(0, 2), ShapeError, "B ≥ 1"),
        (weft.zeros(4), ShapeError, r"\(B, \*event\)"),
        (weft.zeros(4, 2, dtype=weft.int64), OptionError, "float"),
        ([weft.zeros(4, 2)] * 3, OptionError, r"x or \(x, condition\)"),
        ("x", OptionError, "got str"),
    ],
)
def test_bad_batches_are_refused(batch, error, says):
    gan = GAN(mlp(3, (8,), 2), mlp(2, (8,), 1), 3)
    for loss in (gan.discriminator_loss, gan.generator_loss):
        with pytest.raises(error, match=says):
            loss(batch)


def test_views_and_nan_come_through_as_they_are():
    weft.manual_seed(0)
    gan = GAN(mlp(3, (8,), 2), mlp(2, (8,), 1), 3, penalties=[ZeroPenalty()])
    x = weft.randn(12, 4)
    view = x[::2, 1:3]  # not contiguous
    one, two = (gan.discriminator_loss(x, seeded()).item() for x in (view, view.contiguous()))
    assert one == pytest.approx(two, rel=1e-6)
    assert math.isnan(gan.discriminator_loss(weft.full((2, 2), float("nan"))).item())


def test_each_player_moves_only_for_its_own_loss():
    gan = GAN(mlp(3, (8,), 2), mlp(2, (8,), 1), 3)
    gan.discriminator_loss(weft.randn(4, 2)).backward()
    assert all(p.grad is None for p in gan.generator_parameters())
    assert all(p.grad is not None for p in gan.discriminator_parameters())


# ------------------------------------------------------------------------------------------------- conditions


def test_conditions_by_concatenation_reach_both_players():
    weft.manual_seed(0)
    make, tell = ConcatenationGenerator(mlp(5, (8,), 2), 3), ConcatenationDiscriminator(mlp(5, (8,), 1), 3)
    gan = GAN(make, tell, 2, conditional=True)
    c = weft.tensor([0, 2])
    expected = make.net(weft.cat([gan.noise(2, seeded()), weft.eye(3)[c]], 1))
    np.testing.assert_allclose(gan.sample(2, c, seeded()), expected.detach(), atol=1e-6)
    image = weft.randn(2, 1, 4, 4)
    seen = []
    ConcatenationDiscriminator(lambda x: seen.append(x), 3)(image, c)
    assert seen[0].shape == (2, 4, 4, 4) and bool((seen[0][1, 3] == 1).all()) and bool((seen[0][1, 1:3] == 0).all())
    for wrong in (lambda: gan.sample(2), lambda: gan.discriminator_loss(weft.randn(2, 2))):
        with pytest.raises(OptionError, match="conditional: give a condition"):
            wrong()
    with pytest.raises(OptionError, match="int64"):
        gan.sample(2, weft.zeros(2))


def test_projection_discriminator_is_psi_plus_an_inner_product():
    net = ProjectionDiscriminator(nn.Linear(4, 6), 6, 3)
    x, c = weft.randn(5, 4), weft.tensor([0, 1, 2, 1, 0])
    phi = net.features(x)
    expected = net.output(phi)[:, 0] + weft.einsum("bd,bd->b", net.classes.weight[c], phi)
    np.testing.assert_allclose(net(x, c).detach(), expected.detach(), rtol=1e-5, atol=1e-6)


def test_auxiliary_classifier_adds_a_cross_entropy_to_both_losses():
    weft.manual_seed(0)
    tell = AuxiliaryClassifier(mlp(2, (8,), 8), 8, 3)
    parts = ConcatenationGenerator(mlp(5, (8,), 2), 3), tell, 2
    with_, without = (AuxiliaryClassifierGAN(*parts, weight=w) for w in (2.0, 0.0))
    x, c = weft.randn(6, 2), weft.tensor([0, 1, 2, 0, 1, 2])
    entropy = lambda x: torch.nn.functional.cross_entropy(
        torch.tensor(tell(x)[1].detach().numpy()), torch.tensor(c.numpy())
    )
    gain = [(m.discriminator_loss((x, c), seeded())).item() for m in (with_, without)]
    assert gain[0] - gain[1] == pytest.approx(2 * entropy(x).item(), rel=1e-4)
    gain = [m.generator_loss((x, c), seeded()).item() for m in (with_, without)]
    assert gain[0] - gain[1] == pytest.approx(2 * entropy(with_.sample(6, c, seeded())).item(), rel=1e-4)
    np.testing.assert_allclose(with_.classify(x).exp().sum(1).detach(), np.ones(6), rtol=1e-5)
    for wrong in (lambda: with_.sample(3), lambda: with_.generator_loss(x)):
        with pytest.raises(OptionError):
            wrong()


# ------------------------------------------------------------------------------------------------- InfoGAN


def test_information_of_codes_is_log_k_if_they_can_be_read_and_0_if_they_cannot():
    """A generator that shows its code, and Q that reads it with great confidence: L_I = H(c) = log 4. One that hides it: 0."""
    gan = InfoGAN(nn.Identity(), nn.Identity(), 6, noise=2, classes=4)
    with weft.no_grad():
        gan.recognition.weight.zero_()
        gan.recognition.bias.zero_()
        assert gan.information(100) == pytest.approx(0, abs=1e-6)
        gan.recognition.weight[:, 2:] = 50 * weft.eye(4)
    assert gan.information(100) == pytest.approx(math.log(4), abs=1e-6)
    codes = weft.eye(4)
    np.testing.assert_allclose(gan.encode(gan.generate(codes)).detach(), codes, atol=1e-6)


def test_infogan_draws_given_codes_and_refuses_others():
    gan = InfoGAN(mlp(7, (8,), 2), mlp(2, (8,), 8), 8, noise=2, classes=3, numbers=2)
    codes = gan.codes(200, seeded())
    assert bool((codes[:, :3].sum(1) == 1).all()) and codes[:, 3:].abs().max() <= 1 and codes[:, 3:].min() < -0.9
    assert gan.sample(4).shape == gan.sample(4, codes[:4]).shape == (4, 2)
    with pytest.raises(ShapeError, match=r"codes \(B, 5\)"):
        gan.sample(4, codes[:4, :3])
    with pytest.raises(OptionError, match="neither"):
        InfoGAN(mlp(7, (8,), 2), mlp(2, (8,), 8), 8, noise=2)


# ------------------------------------------------------------------------------------------------- images


@pytest.mark.parametrize(("size", "channels", "norm"), [(28, 1, "batch"), (32, 3, "spectral"), (14, 1, "none")])
def test_convolutional_players_fit_their_images(size, channels, norm):
    make, tell = DCGenerator(5, channels, size, 4), DCDiscriminator(channels, size, 4, norm)
    x = make(weft.randn(3, 5))
    assert x.shape == (3, channels, size, size) and x.abs().max() <= 1 and tell(x).shape == (3,)
    layers = [m for m in tell.modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(layers) == (1 if norm == "batch" else 0)
    with pytest.raises(OptionError, match="28 or 32"):
        DCGenerator(5, size=30)


def test_augmentations_are_what_they_say():
    x = weft.randn(6, 3, 8, 8, generator=seeded(1))
    moved = translate(x, 0.25, seeded())
    for image, after in zip(x.numpy(), moved.numpy(), strict=True):
        padded = np.pad(image, ((0, 0), (2, 2), (2, 2)))
        windows = [padded[:, i : i + 8, j : j + 8] for i in range(5) for j in range(5)]
        assert sum(np.allclose(after, w, atol=1e-6) for w in windows) == 1
    holes = (cut_out(weft.ones(200, 1, 8, 8), 0.5, seeded()) == 0).squeeze(1).sum((1, 2))
    assert holes.max() == 16 and holes.min() >= 4  # a square of 4, cut off at the borders
    bright = colour(x, seeded())
    level = (bright - x).mean((1, 2, 3))
    assert level.abs().max() <= 0.5 and level.std() > 0.1
    one = colour(x[:, :1], seeded())
    centred = lambda t: t - t.mean((1, 2, 3), keepdim=True)
    ratio = (centred(one) / centred(x[:, :1])).flatten(1)
    assert ratio.std(1).max() < 1e-2 and 0.5 <= ratio.mean() < 1.5  # grey: brightness and contrast alone


def test_slopes_go_through_augmentation_compiled_as_eagerly():
    change, x = Augment(), weft.randn(4, 3, 8, 8, generator=seeded(1))

    def slope(x, generator):
        return weft.func.grad(lambda x: (change(x, generator) ** 2).sum())(x)

    from weft.models.generative import planned

    eager = slope(x, seeded())
    assert eager.abs().sum() > 0
    np.testing.assert_allclose(planned(slope)(x, generator=seeded()), eager, rtol=1e-4, atol=1e-5)
    with pytest.raises(ShapeError, match="images"):
        change(weft.zeros(3, 8))
    with pytest.raises(OptionError, match="got blur"):
        Augment(("blur",))


# ------------------------------------------------------------------------------------------------- PacGAN


def test_packs_are_judged_together():
    inner = nn.Linear(6, 1)
    x = weft.randn(4, 3)
    np.testing.assert_allclose(Packed(inner, 2)(x).detach(), inner(x.reshape(2, 6)).detach())
    assert Packed(DCDiscriminator(3, 28, 2), 3)(weft.randn(6, 1, 28, 28)).shape == (2,)
    with pytest.raises(ShapeError, match="5 examples cannot be put into packs of 2"):
        Packed(inner, 2)(weft.randn(5, 3))


def test_packing_makes_lost_modes_show_more():
    """Total variation of p^m and q^m, q with half of p's modes: 1/2, then 3/4 (Lin et al. 2018)."""
    p, q = np.full(4, 0.25), np.array([0.5, 0.5, 0, 0])
    apart = lambda a, b: 0.5 * np.abs(a - b).sum()
    assert apart(p, q) == 0.5 and apart(np.outer(p, p), np.outer(q, q)) == 0.75


# ------------------------------------------------------------------------------------------------- CycleGAN


def test_cycle_loss_is_0_for_inverse_maps_and_identity_loss_is_what_it_says():
    forth, back = nn.Linear(2, 2).double(), nn.Linear(2, 2).double()
    with weft.no_grad():
        back.weight.copy_(weft.linalg.inv(forth.weight))
        back.bias.copy_(-(back.weight @ forth.bias))
    tell = [mlp(2, (4,), 1).double() for _ in range(2)]
    x, y = weft.randn(2, 5, 2, dtype=weft.float64)
    plain, cycled, same = (
        CycleGAN(forth, back, *tell, cycle=c, identity=i).generator_loss((x, y)).item()
        for c, i in ((0.0, 0.0), (10.0, 0.0), (0.0, 5.0))
    )
    assert cycled == pytest.approx(plain, abs=1e-12)
    expected = 5 * ((forth(y) - y).abs().mean() + (back(x) - x).abs().mean()).item()
    assert same - plain == pytest.approx(expected, rel=1e-9)
    model = CycleGAN(forth, back, *tell)
    assert model.promises == {name: "estimate" for name in ("encode", "decode", "reconstruct", "interpolate")}
    np.testing.assert_allclose(model.reconstruct(x).detach(), x, atol=1e-12)


@pytest.mark.parametrize("compiled", [False, True])
def test_history_fills_then_changes_places_with_half_of_what_comes(compiled):
    history = History(20, (1,))
    call = weft.compile(lambda x: history(x)) if compiled else history
    weft.manual_seed(0)
    first = weft.arange(20.0).reshape(20, 1)
    for part in first.split(10):
        assert weft.equal(call(part), part)
    assert weft.equal(history.kept.clone(), first)
    swapped = 0
    for i in range(30):
        before = set(history.kept[:, 0].tolist())
        new = 100.0 + 10 * i + weft.arange(10.0).reshape(10, 1)
        out = set(call(new)[:, 0].tolist())
        after = set(history.kept[:, 0].tolist())
        assert out | after == before | set(new[:, 0].tolist()) and not out & after  # nothing lost, nothing twice
        swapped += len(out & before)
    assert 110 < swapped < 190  # half of 300
    with pytest.raises(ShapeError, match="make the history larger"):
        history(weft.zeros(21, 1))


def test_a_history_is_copied_with_its_model():
    model = CycleGAN(
        *(mlp(2, (4,), 2) for _ in range(2)),
        *(mlp(2, (4,), 1) for _ in range(2)),
        histories=(History(8, (2,)), History(8, (2,))),
    )
    model.discriminator_loss((weft.randn(4, 2), weft.randn(4, 2)))
    twin = copy.deepcopy(model)
    assert weft.equal(twin.history_x.kept, model.history_x.kept) and twin.history_x.count == 4


# ------------------------------------------------------------------------------------------------- chains


class Posterior(nn.Module):
    """x given x + N(0, σ²) where x ~ N(m, s²), in closed form: mean and log of the standard deviation."""

    def __init__(self, m, s, sigma):
        super().__init__()
        self.m, self.gain, self.log_std = m, s**2 / (s**2 + sigma**2), math.log(s * sigma / math.hypot(s, sigma))

    def forward(self, noisy):
        return weft.stack([self.m + self.gain * (noisy - self.m), weft.full_like(noisy, self.log_std)], -1).flatten(1)


def test_chain_of_corruption_and_true_posteriors_has_the_data_as_its_limit():
    """Theorem 1 of Bengio et al. (2014), for a Gaussian: mean 2, standard deviation 0.7, from a start at N(0, 1)."""
    model = GenerativeStochasticNetwork(Posterior(2.0, 0.7, 0.5), 1, GaussianNoise(0.5), GaussianHead())
    drawn = model.sample(4000, generator=seeded(), steps=30).numpy()
    assert abs(drawn.mean() - 2) < 4 * 0.7 / 4000**0.5 and abs(drawn.std() - 0.7) < 4 * 0.7 / 8000**0.5


def test_walkback_of_one_step_is_the_likelihood_of_a_denoiser_and_more_steps_are_a_mean():
    net, x = Posterior(0.0, 1.0, 0.5), weft.randn(50, 1, generator=seeded(1))
    one = GenerativeStochasticNetwork(net, 1, GaussianNoise(0.5), GaussianHead(), walkback=1)
    noisy = GaussianNoise(0.5)(x, seeded())
    mean, std = noisy * one.net.gain, math.exp(one.net.log_std)
    expected = -weft.distributions.Normal(mean, std).log_prob(x).mean().item()
    assert one.loss(x, seeded()).item() == pytest.approx(expected, rel=1e-5)
    far = GenerativeStochasticNetwork(net, 1, GaussianNoise(0.5), GaussianHead(), walkback=4)
    assert far.loss(x, seeded()).item() > one.loss(x, seeded()).item()  # later steps know less of where the walk began
    with pytest.raises(ShapeError, match=r"\(B, 1\)"):
        one.loss(weft.zeros(3, 2))
