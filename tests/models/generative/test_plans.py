"""Samplers as plans: one plan whatever generator comes, and the numbers of eager code."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import weft
from weft import nn
from weft.models.energy import BernoulliRBM, BoltzmannMachine, DeepEnergy, IsingLattice, PairwiseMRF, langevin
from weft.models.generative import planned


def seeded(seed: int = 0) -> weft.Generator:
    return weft.Generator().manual_seed(seed)


def rbm() -> BernoulliRBM:
    made = BernoulliRBM(7, 30)
    with weft.no_grad():
        made.weight.normal_(generator=seeded(9))
    return made


def test_fresh_generators_share_one_plan_and_move_as_in_eager_code():
    made = rbm()
    chain, start = planned(made.gibbs), made.start(5, seeded(1))
    for seed in range(4):
        ours, theirs = seeded(seed), seeded(seed)
        assert weft.equal(chain(start, 40, generator=ours), made.gibbs(start, 40, theirs))
        assert (ours.key, ours.offset) == (theirs.key, theirs.offset)
    assert chain.plans == 1


def test_langevin_with_fresh_generators_is_one_plan():
    energy = lambda x: 0.5 * (x**2).sum(-1)
    walk = planned(lambda x, generator: langevin(energy, x, 6, 0.1, generator))
    x = weft.ones(3, 2)
    for seed in range(3):
        np.testing.assert_allclose(
            walk(x, generator=seeded(seed)), langevin(energy, x, 6, 0.1, seeded(seed)), atol=1e-6
        )
    assert walk.plans == 1


def test_the_default_generator_moves_on():
    chain, start = planned(rbm().gibbs), rbm().start(5, seeded(1))
    weft.manual_seed(3)
    first, second = chain(start, 9), chain(start, 9)
    weft.manual_seed(3)
    assert weft.equal(chain(start, 9), first) and not weft.equal(first, second)


MODELS = {
    "rbm": (rbm, {"steps": 20}),
    "pairwise": (lambda: PairwiseMRF(5), {"sweeps": 6}),
    "ising": (lambda: IsingLattice(4, 4, 0.3), {"sweeps": 6}),
    "boltzmann": (lambda: BoltzmannMachine(3, 2), {"sweeps": 6}),
    "deep": (lambda: DeepEnergy(nn.Linear(2, 1), (2,)), {"steps": 6}),
}


@pytest.mark.parametrize("name", MODELS)
def test_sampling_is_one_plan_with_the_stream_of_eager_code(name):
    make, options = MODELS[name]
    model = make()
    found = [model.sample(4, generator=seeded(seed), **options) for seed in (1, 2)]
    eager = type(model).sample.__wrapped__.__wrapped__  # what stands below the promise and the plan
    for seed, drawn in zip((1, 2), found, strict=True):
        np.testing.assert_allclose(drawn, eager(model, 4, generator=seeded(seed), **options), atol=1e-5)
    assert model._plans.made["sample"].plans == 1


def test_copies_and_files_are_without_plans():
    model = rbm()
    drawn = model.sample(3, generator=seeded(1), steps=5)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert not other._plans.made
        with weft.no_grad():
            other.visible_bias.fill_(30.0)
        assert other.sample(3, generator=seeded(1), steps=5).all() and not drawn.all()
    assert set(model.state_dict()) == {"weight", "visible_bias", "hidden_bias"}


def test_annealing_compiles_once_for_all_seeds():
    model, x = rbm(), weft.zeros(2, 7)
    for seed in range(3):
        for side in ("upper", "lower"):
            model.log_prob_bound(x, side, chains=10, temperatures=8, generator=seeded(seed))
    assert {name: plan.plans for name, plan in model._plans.made.items()} == {
        "_annealed": 1,
        "_walked": 1,
        "_annealed_back": 1,
    }
