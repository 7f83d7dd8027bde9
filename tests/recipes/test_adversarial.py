"""Recipes of adversarial models: short runs write what they promise; what they are judged by is right."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import weft
from weft import recipes
from weft.data.sources import trusted
from weft.errors import OptionError
from weft.metrics.samples import FeatureExtractor
from weft.models.adversarial import gradient_penalty, wasserstein_discriminator
from weft.recipes.adversarial import critic_1d, cyclegan_moons, dcgan_fashion, gan_grid, gan_ring, plane, stacked_mnist
from weft.train import RunFolder

from .files import write_all

pytestmark = pytest.mark.filterwarnings("ignore:.*is not the canonical", "ignore:.*reads no files")

STUDIES = {  # recipe → settings that make it quick, rows of its table
    "gan-ring": (["steps=2", "batch_size=8", "hidden=4", "critic_steps=2"], 3),
    "critic-1d": (["steps=2", "batch_size=8", "hidden=4"], 3),
    "cyclegan-moons": (["steps=2", "batch_size=8", "hidden=4"], 1),
}


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_writes_its_rows_and_a_picture(name, tmp_path):
    words, count = STUDIES[name]
    result = recipes.run(name, words, folder=tmp_path / "run", progress=False)
    run = RunFolder(result.folder)
    assert run.result["figures"] == result.figures and len(run.rows("epoch")) == count and not result.reached
    assert {recipes.get(name).goal.metric, recipes.get(name).goal.beside} <= set(result.figures)
    assert (result.folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(OptionError, match=f"{name} is a study"):
        recipes.load(result.folder)


@pytest.mark.parametrize(("recipe", "modes"), [(gan_ring.recipe, 8), (gan_grid.recipe, 25)])
def test_data_of_the_mixtures_count_as_good(recipe, modes):
    """Within three deviations in the plane: 1 − e^−4.5 = 0.989 of a Gaussian."""
    points = recipe.points(20_000, weft.Generator().manual_seed(0))
    found = plane.mode_counts(points, recipe.centres(), recipe.noise)
    assert found.modes == modes and found.good == pytest.approx(1 - math.exp(-4.5), abs=0.004)


def test_a_game_without_all_modes_counts_as_nothing(monkeypatch, tmp_path):
    kept = gan_ring.recipe.centres()[:7]
    monkeypatch.setattr(plane.PlaneGAN, "played", lambda self, name, settings: kept)
    assert recipes.run("gan-ring", folder=tmp_path / "a", progress=False).figures["good"] == 0
    monkeypatch.setattr(plane.PlaneGAN, "played", lambda self, name, settings: self.centres())
    assert recipes.run("gan-ring", folder=tmp_path / "b", progress=False).figures["good"] == 1


def test_a_critics_estimate_is_the_distance_for_the_best_critic_and_less_for_others():
    x = weft.linspace(-10, 10, 4001, dtype=weft.float64)
    cell = 20 / 4000
    p, q = (weft.distributions.Normal(m, 1.0).log_prob(x).exp().double() for m in (0.0, 2.0))
    assert critic_1d.estimated(-3 * x, p, q, cell) == pytest.approx(2, rel=1e-4)  # whatever its scale
    assert critic_1d.estimated(-x.tanh(), p, q, cell) < 1.9


def test_a_trained_critic_says_the_distance_within_two_percent():
    pair = critic_1d.densities()["shift"]  # W₁ = 2
    penalty = lambda f, x, y: gradient_penalty(f, x, y, one_sided=True)
    net = critic_1d.learnt(pair, critic_1d.CriticSettings(), wasserstein_discriminator, penalty)
    x = weft.linspace(-10, 10, 4001, dtype=weft.float64)
    p, q = (side.log_prob(x.float()).exp().double() for side in pair)
    with weft.no_grad():
        found = critic_1d.estimated(net(x.float().unsqueeze(1))[:, 0].double(), p, q, 20 / 4000)
    assert found == pytest.approx(2, rel=0.02)


def test_gaussian_transport_finds_a_symmetric_map_and_moves_mean_and_covariance():
    weft.manual_seed(0)
    x = weft.randn(5000, 2) * weft.tensor([1.0, 2.0])
    a = weft.tensor([[2.0, 0.5], [0.5, 1.0]])
    y = x @ a + 1
    np.testing.assert_allclose(cyclegan_moons.gaussian_transport(x, y)(x), y, atol=1e-3)


def test_the_true_map_of_the_moons_turns_by_sixty_degrees():
    moved = cyclegan_moons.truth(weft.tensor([[1.0, 0.0], [0.0, 0.0]]))
    step = (moved[0] - moved[1]).numpy()
    assert math.degrees(math.atan2(step[1], step[0])) == pytest.approx(60, abs=1e-3)
    upper = cyclegan_moons.lopsided(400, 0.0, weft.Generator().manual_seed(0)) + weft.tensor([0.25, 0.45])
    assert (upper[:, 1] >= 0.5).sum() > 180 and upper.shape == (400, 2)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    write_all(root)
    with trusted():
        yield root


def toy(monkeypatch, module):
    """Features of an untrained network in the place of a classifier's."""
    weft.manual_seed(0)
    net = weft.nn.Sequential(weft.nn.Flatten(), weft.nn.Linear(784, 6), weft.nn.ReLU(), weft.nn.Linear(6, 10))
    monkeypatch.setattr(module, "classifier_features", lambda *a, **k: FeatureExtractor(net, "toy"))


@pytest.mark.parametrize(
    ("name", "module", "words"),
    [
        ("dcgan-fashion", dcgan_fashion, []),
        pytest.param("stacked-mnist", stacked_mnist, ["examples=50"], marks=pytest.mark.slow),
    ],
)
def test_convolutional_games_run_and_are_loaded_again(name, module, words, files, tmp_path, monkeypatch):
    toy(monkeypatch, module)
    small = ["epochs=1", "width=2", "latent=4", "batch_size=10", "limit=30", "draws=20", *words]
    result = recipes.run(name, small, root=files, folder=tmp_path / "run", progress=False)
    assert result.figures[recipes.get(name).goal.metric] >= 0 and not result.reached
    loaded = recipes.load(result.folder)
    inputs = np.zeros((2, recipes.get(name).channels, 28, 28))
    said = loaded.recipe.predict(loaded.task, inputs)
    assert said == loaded.recipe.predict(result.task.eval(), inputs) and json.dumps(said)


def test_modes_of_stacks_are_read_channel_by_channel():
    reader = FeatureExtractor(weft.nn.Sequential(weft.nn.Flatten(), weft.nn.Identity()), "the brightest pixel")
    images = weft.zeros(2, 3, 28, 28)
    for row, digits in enumerate([(1, 2, 3), (9, 0, 7)]):
        for channel, digit in enumerate(digits):
            images[row, channel, 0, digit] = 1
    assert stacked_mnist.modes_of(images, reader).tolist() == [123, 907]
