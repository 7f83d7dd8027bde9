"""Deep belief networks and deep Boltzmann machines against sums over all states, and bounds against their gaps."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft
from weft.errors import OptionError, ShapeError
from weft.models.energy import (
    BernoulliRBM,
    DeepBelief,
    DeepBoltzmannMachine,
    PersistentContrastiveDivergence,
    UpDown,
)
from weft.models.generative import binary_states, check_normalised

from .test_rbm import bernoulli, filled, seeded


def states(bits: int) -> weft.Tensor:
    return binary_states(bits, weft.float64)


# ------------------------------------------------------------------------------ copies of units


def test_copies_are_units_with_tied_weights():
    """A machine with two copies of each visible unit is one of twice the units and the same weights twice."""
    copied, tied = filled(BernoulliRBM(3, 2, weft.float64, copies=(2, 1))), BernoulliRBM(6, 2, weft.float64)
    with weft.no_grad():
        tied.weight.copy_(copied.weight.repeat(2, 1))
        tied.visible_bias.copy_(copied.visible_bias.repeat(2))
        tied.hidden_bias.copy_(copied.hidden_bias)
    v = states(6)
    counted = v[:, :3] + v[:, 3:]
    np.testing.assert_allclose(copied.free_energy(counted).detach(), tied.free_energy(v).detach(), atol=1e-10)
    np.testing.assert_allclose(copied.encode(counted).detach(), tied.encode(v).detach(), atol=1e-10)
    h = states(2)
    np.testing.assert_allclose(copied.decode(h).detach(), 2 * tied.decode(h)[:, :3].detach(), atol=1e-10)
    assert not copied.enumerable and set(copied.start(50, seeded()).flatten().tolist()) == {0.0, 1.0, 2.0}


def test_copies_of_hidden_units_too():
    copied, tied = filled(BernoulliRBM(3, 2, weft.float64, copies=(1, 2))), BernoulliRBM(3, 4, weft.float64)
    with weft.no_grad():
        tied.weight.copy_(copied.weight.repeat(1, 2))
        tied.visible_bias.copy_(copied.visible_bias)
        tied.hidden_bias.copy_(copied.hidden_bias.repeat(2))
    v = states(3)
    np.testing.assert_allclose(copied.free_energy(v).detach(), tied.free_energy(v).detach(), atol=1e-10)
    ours, theirs = copied.statistics(v), tied.statistics(v)
    np.testing.assert_allclose(ours[0].detach(), (theirs[0][:, :2] + theirs[0][:, 2:]).detach(), atol=1e-10)
    with pytest.raises(OptionError, match="at least one copy"):
        BernoulliRBM(3, 2, copies=(0, 1))


# -------------------------------------------------------------------- the deep Boltzmann machine


def machine(scale: float = 1.0) -> DeepBoltzmannMachine:
    made = DeepBoltzmannMachine(5, 4, 3, steps=200, dtype=weft.float64)
    filled(made.joint, scale)
    return made


def parts(made: DeepBoltzmannMachine):
    """W¹, W², b, c¹, c² as the formula has them."""
    joint, d = made.joint, made.visible
    return joint.weight[:d], joint.weight[d:].mT, joint.visible_bias[:d], joint.hidden_bias, joint.visible_bias[d:]


def energies(made: DeepBoltzmannMachine, v: weft.Tensor) -> weft.Tensor:
    """−E(v, h¹, h²) of all hidden states: (B, 2^H¹, 2^H²)"""
    one, two, b, c, d = parts(made)
    first, second = states(4), states(3)
    with_v = (v @ one) @ first.mT + (v @ b).unsqueeze(1) + first @ c  # (B, 2^H¹)
    return with_v.unsqueeze(2) + first @ two @ second.mT + second @ d


def test_the_joint_machine_is_the_deep_one():
    made, v = machine(), states(5)
    log_joint = energies(made, v)
    log_z = log_joint.flatten().logsumexp(0)
    assert made.joint.log_partition().item() == pytest.approx(log_z.item(), abs=1e-9)
    np.testing.assert_allclose(
        made.log_prob(v).detach(), (log_joint.flatten(1).logsumexp(1) - log_z).detach(), atol=1e-9
    )
    check_normalised(made.log_prob, v, tolerance=1e-9)


def test_the_gap_of_the_bound_is_the_divergence_from_the_posterior():
    made, v = machine(0.7), states(5)[::3]
    bound = made.log_prob_bound(v)
    posterior = energies(made, v).flatten(1).log_softmax(1).detach()  # (B, 2^7)
    second = made.mean_field(v)[1]
    one, two, _, c, _ = parts(made)
    first = weft.sigmoid(v @ one + c + second @ two.mT).detach()
    bits = lambda s, mean: (weft.xlogy(s, mean.unsqueeze(1)) + weft.xlogy(1 - s, 1 - mean.unsqueeze(1))).sum(-1)
    q = (bits(states(4), first).unsqueeze(2) + bits(states(3), second).unsqueeze(1)).flatten(1)  # log q(h¹, h² | v)
    divergence = (q.exp() * (q - posterior)).sum(1)
    gap = made.log_prob(v).detach() - bound.value
    np.testing.assert_allclose(gap, divergence, atol=1e-9)
    assert bound.side == "lower" and (gap > 1e-4).all() and not bound.error.any()


def test_mean_field_is_a_fixed_point_and_exact_without_couplings():
    made, v = machine(0.5), states(5)
    first, second = made.mean_field(v)
    one, two, _, c, d = parts(made)
    np.testing.assert_allclose(first, weft.sigmoid(v @ one + c + second @ two.mT).detach(), atol=1e-9)
    np.testing.assert_allclose(second, weft.sigmoid(first @ two + d).detach(), atol=1e-9)
    with weft.no_grad():
        made.joint.weight[5:].zero_()  # nothing joins the hidden layers
    np.testing.assert_allclose(made.log_prob_bound(v).value, made.log_prob(v).detach(), atol=1e-9)


def test_learning_follows_the_bound():
    """With enumerated negatives the slope is that of the bound: at the fixed point the means may be held (envelope)."""
    made, v = machine(0.5), states(5)[[3, 9, 20]]
    joint = made.joint
    every = states(8)
    weights = (-joint.free_energy(every)).softmax(0).detach()
    loss = PersistentContrastiveDivergence(joint, 10).loss(made.completed(v), every, weights)
    found = weft.autograd.grad(loss, list(joint.parameters()))
    small, slopes = 1e-5, []
    for parameter in joint.parameters():
        flat = parameter.data.flatten()
        numeric = []
        for place in range(0, flat.numel(), 5):
            both = []
            for sign in (1, -1):
                with weft.no_grad():
                    parameter.data.view(-1)[place] += sign * small
                    both.append(made.log_prob_bound(v).value.mean().item())
                    parameter.data.view(-1)[place] -= sign * small
            numeric.append(-(both[0] - both[1]) / (2 * small))
        slopes.append(numeric)
    for ours, numeric in zip(found, slopes, strict=True):
        np.testing.assert_allclose(ours.flatten()[::5].numpy(), numeric, atol=1e-6)


def test_annealing_gives_the_bound_of_machines_too_large_to_sum():
    made = DeepBoltzmannMachine(8, 21, 21)
    filled(made.joint, 0.1)
    with weft.no_grad():
        made.joint.weight[8:].zero_()  # the layers part: Z is known
    v = binary_states(8)[:20]
    bound = made.log_prob_bound(v, chains=200, temperatures=100, base=weft.zeros(8), generator=seeded(1))
    alone = BernoulliRBM(8, 21)
    with weft.no_grad():
        alone.weight.copy_(made.joint.weight[:8])
        alone.visible_bias.copy_(made.joint.visible_bias[:8])
        alone.hidden_bias.copy_(made.joint.hidden_bias)
    exact = alone.log_prob(v).detach()
    assert "log_prob" not in made.promises
    assert ((bound.value - exact).abs() < 4 * bound.error + 1e-3).all() and bound.error[0] > 0


def test_two_machines_make_a_deep_one():
    bottom, top = filled(BernoulliRBM(5, 4, copies=(2, 1))), filled(BernoulliRBM(4, 3, copies=(1, 2)), seed=1)
    made = DeepBoltzmannMachine(5, 4, 3)
    made.start_from(bottom, top)
    one, two, b, c, d = parts(made)
    assert weft.equal(one, bottom.weight) and weft.equal(two, top.weight) and weft.equal(b, bottom.visible_bias)
    assert weft.equal(d, top.hidden_bias) and weft.allclose(c, (bottom.hidden_bias + top.visible_bias) / 2)
    with pytest.raises(OptionError, match="do not fit"):
        made.start_from(top, bottom)
    assert made.sample(3, generator=seeded(), steps=4).shape == (3, 5) and made.encode(states(5).float()).shape == (
        32,
        7,
    )


# ------------------------------------------------------------------------ deep belief networks


def network() -> DeepBelief:
    made = DeepBelief((5, 4, 3), dtype=weft.float64)
    for number, rbm in enumerate(made.machines):
        filled(rbm, seed=number)
    made.tie(0)
    with weft.no_grad():
        made.recognition[0].weight.add_(0.3)
    return made


def exact_log_prob(made: DeepBelief, v: weft.Tensor) -> weft.Tensor:
    """log Σ_h p(v | h) p(h), p(h) of the top machine."""
    h, bottom = states(4), made.machines[0]
    logits = bottom.visible_bias + h @ bottom.weight.mT  # (2^H, D)
    given = v @ logits.mT - weft.nn.functional.softplus(logits).sum(1)  # (B, 2^H)
    return (given + made.top.log_prob(h)).logsumexp(1).detach()


def test_the_bound_lies_below_by_the_divergence_of_its_arrows():
    made, v = network(), states(5)[::4]
    truth = exact_log_prob(made, v)
    assert exact_log_prob(made, states(5)).exp().sum().item() == pytest.approx(1)
    found = made.log_prob_bound(v, samples=1500, generator=seeded(1))
    h, bottom = states(4), made.machines[0]
    logits = bottom.visible_bias + h @ bottom.weight.mT
    joint = v @ logits.mT - weft.nn.functional.softplus(logits).sum(1) + made.top.log_prob(h)
    q = weft.sigmoid(made.recognition[0](v)).unsqueeze(1)
    log_q = (weft.xlogy(h, q) + weft.xlogy(1 - h, 1 - q)).sum(-1)
    divergence = (log_q.exp() * (log_q - joint.log_softmax(1))).sum(1).detach()
    assert ((truth - divergence - found.value).abs() < 4.5 * found.error).all()
    assert found.side == "lower" and (divergence > 0.01).all()


def test_a_machine_unfolded_is_the_machine_itself():
    """The network (D, H, D) that is an RBM upside down on top of itself has its p(v), and the bound has no gap."""
    made = DeepBelief((5, 4, 5), dtype=weft.float64)
    bottom = filled(made.machines[0])
    made.tie(0)
    made.unfold(1)
    v = states(5)
    found = made.log_prob_bound(v, generator=seeded(2))
    np.testing.assert_allclose(found.value, bottom.log_prob(v).detach(), atol=1e-9)
    with pytest.raises(ShapeError, match="sizes swapped"):
        network().unfold(1)


def test_wake_and_sleep_are_delta_rules():
    made, v = network(), states(5)[[1, 7, 30, 12]]
    learning = UpDown(made)
    learning(v, seeded(3)).backward()
    generator = seeded(3)  # the same draws again, by hand
    h = weft.bernoulli(weft.sigmoid(made.recognition[0](v)).detach(), generator=generator)
    negatives = made.top.gibbs(h, 1, generator)
    bottom = made.machines[0]
    down = weft.sigmoid(bottom.visible_bias + h @ bottom.weight.mT).detach()
    np.testing.assert_allclose(bottom.weight.grad, -((v - down).mT @ h) / 4, atol=1e-10)
    dream = bottom.draw_visible((negatives @ bottom.weight.mT).detach(), bottom.visible_bias.detach(), generator)
    up = weft.sigmoid(made.recognition[0](dream)).detach()
    np.testing.assert_allclose(made.recognition[0].weight.grad, -((negatives - up).mT @ dream) / 4, atol=1e-10)
    assert made.top.weight.grad.abs().sum() > 0 and bottom.hidden_bias.grad is None


def test_up_down_raises_the_bound_and_compiled_steps_are_eager_ones():
    random = np.random.default_rng(0)
    stripes = np.repeat(random.integers(0, 2, (256, 3)), 3, axis=1) ^ (random.random((256, 9)) < 0.03)
    v = weft.tensor(stripes.astype(np.float32))

    def trained(steps: int, compiled: bool):
        weft.manual_seed(1)
        made, generator = DeepBelief((9, 8, 6)), seeded(4)
        learning = UpDown(made)
        optimizer = weft.optim.Adam(made.parameters(), lr=0.02)

        def step(v):
            optimizer.zero_grad()
            learning(v, generator).backward()
            optimizer.step()

        run = weft.compile(step) if compiled else step
        for _ in range(steps):
            run(v)
        return made

    figure = lambda made: made.log_prob_bound(v, samples=5, generator=seeded(5)).value.mean().item()
    before, after = figure(trained(0, True)), figure(trained(250, True))
    independent = 9 * math.log(0.5)
    assert after > before + 1 and after > independent + 1, (before, after)
    for a, b in zip(trained(3, True).parameters(), trained(3, False).parameters(), strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), atol=1e-5)


def test_the_classifier_begins_with_what_was_learned():
    made, v = network(), states(5)
    net = made.classifier(10, dropout=(0.2, 0.5))
    names = [type(layer).__name__ for layer in net]
    assert names == ["Dropout", "Linear", "Sigmoid", "Dropout", "Linear", "Sigmoid", "Linear"]
    np.testing.assert_allclose(net.eval()[:-1](v).detach(), made.encode(v).detach(), atol=1e-12)
    with pytest.raises(OptionError, match="shares of dropout"):
        made.classifier(10, dropout=(0.1,) * 5)
    with pytest.raises(ShapeError, match="at least two layers"):
        DeepBelief((5,))


def test_a_network_of_one_machine_samples_as_it_does():
    made = DeepBelief((7, 3))
    filled(made.top)
    assert weft.equal(made.sample(6, generator=seeded(1), steps=9), made.top.sample(6, generator=seeded(1), steps=9))
    assert bernoulli(3, 2).sample(2, generator=seeded(), steps=2).shape == (2, 3)
