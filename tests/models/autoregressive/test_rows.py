"""FVSBN, NADE, MADE and orderless NADE: what sees what, densities that sum to one, ensembles that are honest."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

import weft
from weft.errors import ArgumentError, ConditionError, OptionError, ShapeError, UnsupportedError
from weft.models.autoregressive import FVSBN, MADE, NADE, RNADE, LaplaceMixtureHead, OrderlessNADE
from weft.models.generative import binary_states, check_autoregressive, check_normalised, grid

from .common import classes_of, drawn_as_promised, filled, seeded

DOUBLE = {"dtype": weft.float64}
ORDERS = ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2])
MODELS = {
    "fvsbn": lambda d, **o: FVSBN(d, **DOUBLE, **o),
    "nade": lambda d, **o: NADE(d, 7, **DOUBLE, **o),
    "nade-rescaled": lambda d, **o: NADE(d, 7, activation=weft.tanh, rescale=True, **DOUBLE, **o),
    "made": lambda d, **o: MADE(d, (9,), **DOUBLE, **o),
    "made-deep": lambda d, **o: MADE(d, (13, 11), direct=True, activation=weft.tanh, **DOUBLE, **o),
    "orderless": lambda d, **o: OrderlessNADE(d, (8, 7), activation=weft.tanh, **DOUBLE, **o),
}


@pytest.fixture(params=MODELS)
def make(request):
    return lambda features, **options: filled(MODELS[request.param](features, **options))


# ---- what sees what ------------------------------------------------------------------------------------------


def later_slopes(conditionals, x, order) -> float:
    """The largest |∂ parameters of xᵢ / ∂ xⱼ| for j not before i, by autograd."""
    rank = np.argsort(order)
    slopes = weft.func.jacrev(lambda row: conditionals(row.unsqueeze(0))[0].sum(-1))(x)
    return np.abs(np.where(rank[None] >= rank[:, None], slopes.detach().numpy(), 0)).max()


def test_no_parameter_depends_on_what_comes_later(make):
    model = make(7)
    x = weft.rand(6, 7, dtype=weft.float64, generator=seeded(2))
    seen = check_autoregressive(model.conditionals, x, model.order)
    assert (seen > 0).sum() == 21 or isinstance(model, MADE)  # all that may be seen is; MADE's units see some
    assert max(later_slopes(model.conditionals, row, model.order) for row in x) == 0.0


def test_large_made_in_stairs_is_the_masked_autoencoder():
    """Zeros of large masks are left out; log p and all slopes are PyTorch's of W ⊙ M, which multiplies by them."""
    model = filled(MADE(290, (260,), direct=True, **DOUBLE), 0.05)
    layers = (*model.layers, model.output, model.direct)
    assert all(len(layer.stairs) == 6 for layer in layers)
    work = sum(rows * seen for layer in layers for rows, seen in layer.stairs)
    assert work < 0.6 * sum(layer.weight.numel() for layer in layers)
    x = weft.bernoulli(weft.full((5, 290), 0.5, dtype=weft.float64), generator=seeded(3))
    found = model.log_prob(x)
    found.sum().backward()
    ranks, degrees = (torch.tensor(part[0].tolist()) for part in (model.ranks, model.degrees0))
    masks = (degrees[:, None] >= ranks, ranks[:, None] > degrees, ranks[:, None] > ranks)
    weights = [torch.tensor(layer.weight.detach().numpy(), requires_grad=True) for layer in layers]
    seen, output, direct = (weight * mask for weight, mask in zip(weights, masks, strict=True))
    bits, biases = torch.tensor(x.numpy()), [torch.tensor(layer.bias.detach().numpy()) for layer in layers[:2]]
    logits = (bits @ seen.T + biases[0]).relu() @ output.T + biases[1] + bits @ direct.T
    expected = -torch.nn.functional.binary_cross_entropy_with_logits(logits, bits, reduction="none").sum(1)
    expected.sum().backward()
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-11)
    for layer, weight in zip(layers, weights, strict=True):
        np.testing.assert_allclose(layer.weight.grad.numpy(), weight.grad.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_made_in_every_order(order):
    model = filled(MADE(4, (40, 30), orders=order, **DOUBLE))
    x = weft.rand(5, 4, dtype=weft.float64, generator=seeded(1))
    assert model.order == list(order)
    seen = check_autoregressive(model.conditionals, x, order)
    assert (seen > 0).sum() == 6  # and with enough units everything that may be seen is seen


@pytest.mark.parametrize("orders", ["natural", "random"])
def test_made_under_every_mask(orders):
    model = filled(MADE(6, (20, 17), masks=5, orders=orders, direct=True, head="mixture", **DOUBLE))
    x = weft.rand(5, 6, dtype=weft.float64, generator=seeded(1))
    for mask in range(5):
        check_autoregressive(lambda x, mask=mask: model.conditionals(x, mask=mask), x, model.order_of(mask))
    different = {tuple(model.order_of(mask)) for mask in range(5)}
    assert len(different) == (1 if orders == "natural" else 5)
    assert len({tuple(row) for row in model.degrees0.tolist()}) == 5


@pytest.mark.parametrize("order", ORDERS)
def test_orderless_along_every_order(order):
    model = filled(OrderlessNADE(4, (9, 8), **DOUBLE))
    model.orders[0] = weft.tensor(order)
    x = weft.rand(5, 4, dtype=weft.float64, generator=seeded(1))
    assert (check_autoregressive(model.conditionals, x, order) > 0).sum() == 6


# ---- densities -----------------------------------------------------------------------------------------------


def test_probabilities_of_all_states_sum_to_one(make):
    model = make(12)
    assert check_normalised(model.log_prob, binary_states(12, weft.float64), tolerance=1e-9) == pytest.approx(1)


def test_densities_given_a_class_sum_to_one_and_differ(make):
    model, states = make(5, classes=3), binary_states(5, weft.float64)
    each = [model.log_prob(states, classes_of(model, states, number)) for number in range(3)]
    for found in each:
        assert found.exp().sum().item() == pytest.approx(1)
    assert (each[0] - each[1]).abs().max() > 0.1


REAL = {
    "rnade": lambda: RNADE(2, 6, components=3, **DOUBLE),
    "rnade-laplace": lambda: RNADE(2, 6, LaplaceMixtureHead(3), **DOUBLE),
    "made-gaussian": lambda: MADE(2, (8,), "gaussian", masks=2, orders="random", **DOUBLE),
    "made-mixture": lambda: MADE(2, (8,), "mixture", **DOUBLE),
    "orderless-mixture": lambda: OrderlessNADE(2, (8,), "mixture", orders=2, **DOUBLE),
}


@pytest.mark.parametrize("name", REAL)
def test_densities_of_real_numbers_integrate_to_one(name):
    model = filled(REAL[name](), 0.2)
    tolerance = 2e-3 if name == "rnade-laplace" else 1e-4  # peaks with an edge between the points of the grid
    check_normalised(model.log_prob, *grid([(-9, 9)] * 2, 150), tolerance=tolerance)
    x = weft.randn(3, 2, dtype=weft.float64, generator=seeded(2))
    slope = weft.func.grad(lambda x: model.log_prob(x).sum())(x)
    np.testing.assert_allclose(model.score(x).detach().numpy(), slope.detach().numpy(), rtol=1e-9)


@pytest.mark.parametrize("head", ["bernoulli", "mixture"])
@pytest.mark.parametrize("rescale", [False, True])
def test_the_running_sum_is_the_definition(head, rescale):
    model = filled(NADE(15, 6, head, rescale=rescale, classes=2, **DOUBLE))
    x = weft.rand(4, 15, dtype=weft.float64, generator=seeded(1))
    given = classes_of(model, x)
    difference = model.conditionals(x, given) - model.naive_conditionals(x, given)
    assert difference.abs().max() < 1e-12


def test_nade_and_its_gradient_against_pytorch():
    model = filled(NADE(9, 5, **DOUBLE), 0.5)
    x = (weft.rand(6, 9, generator=seeded(1)) < 0.4).double()
    w, c, v, b = (
        torch.tensor(p.detach().numpy(), requires_grad=True)
        for p in (model.weight, model.hidden_bias, model.output_weight.squeeze(1), model.output_bias.squeeze(1))
    )
    bits = torch.tensor(x.numpy())
    hidden = torch.sigmoid(c + torch.cumsum(bits[:, :, None] * w, 1) - bits[:, :, None] * w)  # before each i
    theirs = torch.distributions.Bernoulli(logits=(hidden * v).sum(-1) + b).log_prob(bits).sum(1)
    theirs.mean().backward()
    weft.compile(lambda x: model.log_prob(x).mean().backward())(x)
    np.testing.assert_allclose(model.log_prob(x).detach().numpy(), theirs.detach(), rtol=1e-9)
    for ours, other in ((model.weight, w), (model.hidden_bias, c), (model.output_weight, v), (model.output_bias, b)):
        np.testing.assert_allclose(ours.grad.numpy().reshape(other.shape), other.grad, atol=1e-10)


def test_made_against_pytorch_with_masks_by_definition():
    """A path from input j to output i exists in the masks exactly where j comes before i; the outputs are PyTorch's."""
    model = filled(MADE(5, (16, 12), orders=[2, 0, 4, 1, 3], **DOUBLE), 0.5)
    x = (weft.rand(6, 5, generator=seeded(1)) < 0.5).double()
    degrees = [model.ranks[0].numpy(), model.degrees0[0].numpy(), model.degrees1[0].numpy()]
    masks = [a[:, None] >= b[None] for a, b in zip(degrees[1:], degrees[:-1], strict=True)]
    masks.append(degrees[0][:, None] > degrees[2][None])
    paths = masks[2].astype(int) @ masks[1].astype(int) @ masks[0].astype(int)
    assert ((paths > 0) == (degrees[0][:, None] > degrees[0][None])).all()
    h = torch.tensor(x.numpy())
    for number, (layer, mask) in enumerate(zip([*model.layers, model.output], masks, strict=True)):
        weight, bias = (torch.tensor(p.detach().numpy()) for p in (layer.weight, layer.bias))
        h = torch.nn.functional.linear(h, weight * torch.tensor(mask), bias)
        h = h.relu() if number < 2 else h
    theirs = torch.distributions.Bernoulli(logits=h).log_prob(torch.tensor(x.numpy())).sum(1)
    np.testing.assert_allclose(model.log_prob(x).detach().numpy(), theirs, rtol=1e-9)


# ---- ensembles -----------------------------------------------------------------------------------------------

ENSEMBLES = {
    "made": lambda: MADE(6, (30,), masks=4, orders="random", **DOUBLE),
    "orderless": lambda: OrderlessNADE(6, (20,), orders=4, **DOUBLE),
}


def members(model, x):
    """log p of each member, and its logits: (M, B), (M, B, D)"""
    if isinstance(model, MADE):
        under = range(model.masks)
        logits = [model.conditionals(x, mask=mask).squeeze(-1) for mask in under]
        return weft.stack([model.log_prob_under(x, mask) for mask in under]), weft.stack(logits)
    logits = []
    kept = model.orders.clone()
    for order in kept:
        model.orders[0] = order
        logits.append(model.conditionals(x).squeeze(-1))
    model.orders.copy_(kept)
    return weft.stack([model.log_prob_along(x, order) for order in kept]), weft.stack(logits)


@pytest.mark.parametrize("name", ENSEMBLES)
def test_an_ensemble_means_densities(name):
    model, states = filled(ENSEMBLES[name]()), binary_states(6, weft.float64)
    each, _ = members(model, states)
    assert (each.exp().sum(1) - 1).abs().max() < 1e-9
    np.testing.assert_allclose(model.log_prob(states).exp().detach().numpy(), each.exp().mean(0).detach(), rtol=1e-9)
    check_normalised(model.log_prob, states, tolerance=1e-9)


@pytest.mark.parametrize("name", ENSEMBLES)
def test_means_of_logits_are_no_density_and_are_found_out(name):
    """The trap: outputs that are meant over orders see everything, and their probabilities do not sum to one."""
    model, states = filled(ENSEMBLES[name]()), binary_states(6, weft.float64)
    meant = lambda x: members(model, x)[1].mean(0)
    with pytest.raises(ConditionError, match="depends on"):
        check_autoregressive(meant, states)
    wrong = lambda x: model.head.log_prob(meant(x).unsqueeze(-1), x).sum(1)
    with pytest.raises(ConditionError, match="sum to"):
        check_normalised(wrong, states)


def test_the_order_agnostic_loss_is_the_mean_over_all_orders():
    """Enumerated for D = 3: the mean of −log p over the 3! orders, which one random set of known elements estimates."""
    model = filled(OrderlessNADE(3, (6,), **DOUBLE))
    x = weft.tensor([[1.0, 0.0, 1.0]], **DOUBLE)
    orders = [weft.tensor(order) for order in itertools.permutations(range(3))]
    true = -np.mean([model.log_prob_along(x, order).item() for order in orders])
    with weft.no_grad():
        rows = x.expand(20_000, 3)
        found = model.loss(rows, generator=seeded(3)).item()
        some = [model.loss(x.expand(200, 3), generator=seeded(s)).item() for s in range(100)]
    assert found == pytest.approx(true, abs=5 * np.std(some) / math.sqrt(100))


def test_masks_go_round_in_a_compiled_step():
    model = MADE(6, (8,), masks=3, orders="random", **DOUBLE)
    x = (weft.rand(4, 6, generator=seeded(0)) < 0.5).double()
    step = weft.compile(lambda x: model.log_prob_under(x, model.next_mask()))
    for mask in (1, 2, 0, 1):
        np.testing.assert_allclose(step(x).detach().numpy(), model.log_prob_under(x, mask).detach().numpy(), rtol=1e-9)


# ---- samples -------------------------------------------------------------------------------------------------


def test_samples_are_those_of_whole_passes_bit_for_bit(make):
    model = make(9, classes=2)
    drawn = model.sample(40, 1, generator=seeded(5))
    assert drawn.shape == (40, 9)
    assert weft.equal(drawn, model.naive_sample(40, 1, generator=seeded(5)))
    with weft.no_grad():  # the same without a plan
        eager = model.drawn(model.noise(40, seeded(5)), classes_of(model, drawn))
    assert weft.equal(drawn, eager)


@pytest.mark.parametrize("name", ["fvsbn", "nade", "made"])
def test_samples_have_the_promised_probabilities(name):
    model, states = filled(MODELS[name](4), 0.7), binary_states(4, weft.float64)
    drawn_as_promised(model.sample(4000, generator=seeded(1)), states, model.log_prob(states))


@pytest.mark.parametrize("name", ENSEMBLES)
def test_samples_of_ensembles_have_the_mean_probabilities(name):
    model, states = filled(ENSEMBLES[name](), 0.5), binary_states(6, weft.float64)
    drawn_as_promised(model.sample(6000, generator=seeded(2)), states, model.log_prob(states))


def test_samples_of_real_numbers():
    model = filled(RNADE(2, 6, components=2, **DOUBLE), 0.5)
    drawn = model.sample(4000, generator=seeded(1))
    with weft.no_grad():
        eager = model.drawn(model.noise(4000, seeded(1)))
    assert weft.equal(eager, model.naive_sample(4000, generator=seeded(1)))
    np.testing.assert_allclose(drawn.numpy(), eager.numpy(), rtol=1e-9, atol=1e-12)  # a plan may round otherwise
    points, cell = grid([(-14, 14)] * 2, 200)
    weight = model.log_prob(points).exp().detach() * cell
    mean = (points * weight.unsqueeze(1)).sum(0)
    spread = ((points - mean) ** 2 * weight.unsqueeze(1)).sum(0).sqrt()
    error = (drawn.mean(0) - mean) / (spread / math.sqrt(4000))
    assert error.abs().max() < 4.5


# ---- questions that have no answer ---------------------------------------------------------------------------


def test_what_is_wrong_is_said():
    with pytest.raises(ShapeError, match=r"NADE: expected x of shape \(B, 5\), got \(3, 4\)"):
        NADE(5, 2).log_prob(weft.zeros(3, 4))
    with pytest.raises(UnsupportedError, match="takes no condition"):
        NADE(5, 2).sample(3, condition=1)
    with pytest.raises(ArgumentError, match="needs a condition, classes 0 … 2"):
        NADE(5, 2, classes=3).sample(3)
    with pytest.raises(ShapeError, match="expected 2 classes"):
        NADE(5, 2, classes=3).log_prob(weft.zeros(2, 5), weft.tensor([0, 1, 2]))
    with pytest.raises(OptionError, match="in some order"):
        MADE(3, (4,), orders=[0, 0, 1])
    with pytest.raises(OptionError, match="at least 1 mask"):
        MADE(3, ())
    assert NADE(5, 2).promises == {"log_prob": "exact", "energy": "exact", "sample": "exact"}
    assert RNADE(5, 2).promises["score"] == "exact" and "score" not in NADE(5, 2).promises
