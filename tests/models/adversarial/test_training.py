"""Both players in one compiled step (N1 algorithm 9.1), against the same steps taken by hand; short real trainings."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import weft
from weft import nn, optim
from weft.data import DataLoader, TensorDataset
from weft.data.synthetic import gaussian_ring, ring_centres
from weft.errors import OptionError, ShapeError
from weft.metrics import mode_counts
from weft.models.adversarial import (
    GAN,
    AdversarialTraining,
    Augment,
    AuxiliaryClassifier,
    AuxiliaryClassifierGAN,
    ConcatenationGenerator,
    CycleGAN,
    DCDiscriminator,
    DCGenerator,
    GenerativeStochasticNetwork,
    GradientPenalty,
    History,
    InfoGAN,
    Packed,
    ProjectionDiscriminator,
    ZeroPenalty,
    mlp,
)
from weft.models.autoencoders import Masking
from weft.models.generative import check_ema
from weft.train import Callback, Trainer
from weft.train.callbacks import EMA


def loader(*tensors, size):
    return DataLoader(TensorDataset(*tensors), batch_size=size, drop_last=True)


def fitted(task, *tensors, size, epochs=1, callbacks=(), compile="error"):
    trainer = Trainer(max_epochs=epochs, progress=False, run_folder=False, compile=compile, callbacks=list(callbacks))
    trainer.fit(task, loader(*tensors, size=size))
    return trainer


def points(seed=0):
    weft.manual_seed(seed)
    return GAN(mlp(2, (16,), 2), mlp(2, (16,), 1), 2, "wasserstein", penalties=[GradientPenalty(0.1)])


def weights(module):
    return {name: value.detach().numpy().copy() for name, value in module.state_dict().items()}


@pytest.mark.parametrize("compiled", [False, "error"], ids=["eager", "compiled"])
def test_algorithm_9_1_k_steps_of_one_player_then_one_of_the_other(compiled):
    """The step by hand: k discriminator steps on k parts of the batch with fresh noise, clipping, one generator step."""
    k, x = 3, weft.randn(24, 2, generator=weft.Generator().manual_seed(1))
    model = points()
    twin = copy.deepcopy(model)
    task = AdversarialTraining(model, (1e-2, 2e-2), steps=k, clip=0.3)

    class Seed(Callback):
        def on_train_epoch_start(self, trainer, task):
            weft.manual_seed(5)

    fitted(task, x, size=12, compile=compiled, callbacks=[Seed()])
    weft.manual_seed(5)
    sides = list(twin.generator_parameters()), list(twin.discriminator_parameters())
    drawing, telling = (
        optim.Adam(side, lr=rate, betas=(0.0, 0.9)) for side, rate in zip(sides, (1e-2, 2e-2), strict=True)
    )
    for batch in x.split(12):
        for part in batch.split(4):
            telling.zero_grad()
            twin.discriminator_loss(part).backward()
            telling.step()
            with weft.no_grad():
                for p in sides[1]:
                    p.copy_(p.clamp(-0.3, 0.3))
        drawing.zero_grad()
        twin.generator_loss(part).backward()
        drawing.step()
    for name, value in weights(twin).items():
        np.testing.assert_allclose(weights(model)[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_generator_is_averaged_in_the_step_with_its_buffers():
    """Trap: EMA that leaves batch normalisation's statistics behind. Weights by the recursion, buffers the newest."""
    weft.manual_seed(0)
    make = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    task, seen = AdversarialTraining(GAN(make, mlp(2, (8,), 1), 2), (1e-2, 1e-2)), []

    class Keep(Callback):
        def on_train_batch_end(self, trainer, task, outputs, batch, batch_idx):
            seen.append(weights(task.model.generator))

    average = EMA(0.5, part="model.generator", use_at_end=False)
    fitted(task, weft.randn(40, 2), size=8, callbacks=[average, Keep()])
    expected, found = seen[0], weights(average.average.module)
    for now in seen[1:]:
        expected = {name: 0.5 * value + 0.5 * now[name] for name, value in expected.items()}
    parameters = dict(task.model.generator.named_parameters())
    for name, value in found.items():
        np.testing.assert_allclose(value, (expected if name in parameters else seen[-1])[name], rtol=1e-4, atol=1e-6)
    assert len(seen) == 5
    assert check_ema(average.average.module, average.average.update_parameters, make, 0.5) < 1e-4


def test_rates_are_two_and_fall_in_the_second_half():
    task = AdversarialTraining(points(), (1e-3, 4e-3), epochs=4)
    rates = []

    class Keep(Callback):
        def on_train_batch_end(self, trainer, task, outputs, batch, batch_idx):
            rates.append([optimizer.param_groups[0]["lr"] for optimizer in trainer.optimizers])

    fitted(task, weft.randn(8, 2), size=8, epochs=4, callbacks=[Keep()])
    np.testing.assert_allclose(rates, np.outer([1, 1, 1, 0.5], [1e-3, 4e-3]))


def test_batches_that_cannot_be_shared_out_are_refused():
    with pytest.raises(ShapeError, match="7 examples cannot be shared out to 2"):
        fitted(AdversarialTraining(points(), steps=2), weft.randn(7, 2), size=7)
    with pytest.raises(OptionError, match="at least 1"):
        AdversarialTraining(points(), steps=0)


def images(n=16, size=28):
    return weft.rand(n, 1, size, size, generator=weft.Generator().manual_seed(0)) * 2 - 1


CLASSES = weft.arange(16) % 3


def projection():
    make = ConcatenationGenerator(mlp(5, (8,), 2), 3)
    return GAN(make, ProjectionDiscriminator(mlp(2, (8,), 8), 8, 3), 2, "hinge", conditional=True)


def auxiliary():
    parts = ConcatenationGenerator(mlp(5, (8,), 2), 3), AuxiliaryClassifier(mlp(2, (8,), 8), 8, 3)
    return AuxiliaryClassifierGAN(*parts, 2)


def cycle():
    maps, tellers = [mlp(2, (8,), 2) for _ in range(2)], [mlp(2, (8,), 1) for _ in range(2)]
    return CycleGAN(*maps, *tellers, identity=0.5, histories=(History(8, (2,)), History(8, (2,))))


STEPS = {  # a model and its batches
    "dcgan": (lambda: GAN(DCGenerator(4, width=2), DCDiscriminator(width=2), 4), (images(),)),
    "dcgan r1, augmented": (
        lambda: GAN(
            DCGenerator(4, size=14, width=2),
            DCDiscriminator(size=14, width=2, norm="none"),
            4,
            penalties=[ZeroPenalty()],
            augment=Augment(),
        ),
        (images(size=14),),
    ),
    "projection": (projection, (weft.randn(16, 2), CLASSES)),
    "auxiliary": (auxiliary, (weft.randn(16, 2), CLASSES)),
    "infogan": (lambda: InfoGAN(mlp(7, (8,), 2), mlp(2, (8,), 8), 8, 2, classes=3, numbers=2), (weft.randn(16, 2),)),
    "cyclegan": (cycle, (weft.randn(16, 2), weft.randn(16, 2))),
    "pacgan": (lambda: GAN(mlp(2, (8,), 2), Packed(mlp(4, (8,), 1, spectral=True), 2), 2), (weft.randn(16, 2),)),
}


@pytest.mark.parametrize("name", STEPS)
def test_every_game_steps_in_one_plan_as_it_does_eagerly(name):
    make, data = STEPS[name]
    found = []
    for option in (False, "error"):
        weft.manual_seed(0)
        task = AdversarialTraining(make(), (1e-3, 1e-3), betas=(0.5, 0.99))
        start = weights(task)
        weft.manual_seed(1)
        fitted(task, *data, size=8, compile=option)
        found.append(weights(task))
    for key, value in found[0].items():
        np.testing.assert_allclose(found[1][key], value, rtol=2e-2, atol=2e-3, err_msg=key)
    moved = [key for key in start if not np.array_equal(start[key], found[1][key])]
    assert {"discriminator", "generator"} & {key.split(".")[1] for key in moved} or name == "cyclegan"


def test_a_ring_is_learnt_in_a_second():
    """300 steps: all 8 modes are found, draws are nearer to them than those of the untrained generator."""
    weft.manual_seed(0)
    gan = GAN(mlp(2, (64, 64), 2), mlp(2, (64, 64), 1), 2, "hinge", penalties=[ZeroPenalty(0.1)])
    near = lambda: weft.cdist(gan.sample(2000), ring_centres()).min(1).values.mean().item()
    before, x = near(), gaussian_ring(128 * 300, seed=0)[0]
    fitted(AdversarialTraining(gan, (2e-3, 2e-3), epochs=2), x, size=128)
    found = mode_counts(gan.sample(2000), ring_centres(), 0.02, deviations=10)
    assert near() < 0.3 * before and found.modes == 8


def test_a_stochastic_network_learns_bits_with_walkback():
    """Bits that are all equal: the untrained chain has them equal in 1 of 4 draws, the trained in most."""
    weft.manual_seed(0)
    model = GenerativeStochasticNetwork(mlp(3, (32,), 3), 3, Masking(0.3), walkback=2)
    adam = optim.Adam(model.parameters(), lr=0.02)
    x = (weft.arange(64) % 2).float().reshape(-1, 1).expand(-1, 3)

    @weft.compile
    def step():
        adam.zero_grad()
        model.loss(x).backward()
        adam.step()

    for _ in range(150):
        step()
    drawn = model.sample(1000, steps=30)
    equal = ((drawn.sum(1) == 0) | (drawn.sum(1) == 3)).float().mean()
    assert equal > 0.75 and 0.2 < drawn.mean() < 0.8
