"""Hierarchical softmax and its trees, sampled losses against the full softmax, sets and similarity."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import weft
import weft.nn.functional as F
from weft import nn

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _same_numbers_for_every_test() -> None:
    RANDOM.bit_generator.state = np.random.default_rng(0).bit_generator.state
    weft.manual_seed(0)


def sample(*shape: int) -> weft.Tensor:
    return weft.tensor(RANDOM.standard_normal(shape)).requires_grad_()


# ------------------------------------------------------------------------------------------------- trees


def least_cost(weights: tuple[float, ...], arity: int) -> float:
    """Σ f · depth of the best of all trees, by trying every way to share the classes out among children."""

    @functools.cache
    def best(classes: frozenset[int]) -> float:
        if len(classes) == 1:
            return 0.0
        return sum(weights[c] for c in classes) + min(sum(map(best, parts)) for parts in shares(classes, arity))

    def shares(classes: frozenset[int], parts: int) -> Any:
        """All divisions into 2 … parts non-empty sets, the first of which holds the smallest class."""
        first, *rest = sorted(classes)
        for size in range(len(rest)):
            for others in itertools.combinations(rest, size):
                part = frozenset((first, *others))
                remainder = classes - part
                yield (part, remainder)
                if parts > 2 and len(remainder) > 1:
                    yield from ((part, *more) for more in shares(remainder, parts - 1))

    return best(frozenset(range(len(weights))))


@pytest.mark.parametrize("arity", [2, 3, 4])
@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7])
def test_huffman_is_the_best_of_all_trees(count: int, arity: int) -> None:
    for weights in (RANDOM.integers(1, 30, count), RANDOM.random(count), 2.0 ** np.arange(count), np.ones(count)):
        found = nn.expected_path_length(nn.huffman_tree(weights, arity), weights) * weights.sum()
        assert found == pytest.approx(least_cost(tuple(map(float, weights)), arity))


@pytest.mark.parametrize("count", [2, 10, 100, 1000])
def test_huffman_lies_within_a_bit_of_the_entropy(count: int) -> None:
    """Shannon: H ≤ Σ p · depth < H + 1."""
    for p in (RANDOM.dirichlet(np.ones(count)), RANDOM.dirichlet(np.full(count, 0.1)) + 1e-12):
        entropy = -(p / p.sum() * np.log2(p / p.sum())).sum()
        length = nn.expected_path_length(nn.huffman_tree(p), p)
        assert entropy - 1e-9 <= length < entropy + 1
        assert length <= nn.expected_path_length(nn.balanced_tree(count), p) + 1e-9


def test_huffman_of_powers_of_two_meets_the_entropy() -> None:
    tree = nn.huffman_tree([1 / 2, 1 / 4, 1 / 8, 1 / 8])
    assert nn.path_lengths(tree) == [1, 2, 3, 3]
    assert nn.expected_path_length(tree, [1 / 2, 1 / 4, 1 / 8, 1 / 8]) == 1.75


@pytest.mark.parametrize("arity", [2, 3, 5])
@pytest.mark.parametrize("count", [2, 3, 7, 16, 100])
def test_balanced_trees_are_logarithmic(count: int, arity: int) -> None:
    depths = nn.path_lengths(nn.balanced_tree(count, arity))
    power = next(k for k in itertools.count() if arity**k >= count)  # ⌈log C⌉
    assert max(depths) == power and min(depths) >= power - 1
    assert sum(float(arity) ** -d for d in depths) <= 1 + 1e-12  # Kraft


@pytest.mark.parametrize("tree", [(0, (1, 1)), (0, (2, 3)), ((0,), 1), 0, ()])
def test_bad_trees_are_refused(tree: Any) -> None:
    with pytest.raises(ValueError, match="tree of classes"):
        nn.HierarchicalSoftmax(3, tree)


# ------------------------------------------------------------------------------------ hierarchical softmax

TREES = {
    "flat": nn.flat_tree(9),
    "balanced": nn.balanced_tree(9),
    "ternary": nn.balanced_tree(9, 3),
    "huffman": nn.huffman_tree([1, 1, 2, 3, 5, 8, 13, 21, 34]),
    "by hand": ((8, 7, 6), 5, ((4, 3), (2, (1, 0)))),
    "two classes": (1, 0),
}


def by_walking(tree: Any, weight: np.ndarray, bias: np.ndarray, z: np.ndarray) -> dict[int, tuple[float, set[int]]]:
    """For every class its probability and the rows on its path, following the notes vertex by vertex in level order."""
    found, row, level = {}, 0, [(tree, 1.0, set())]
    while level:
        following = []
        for subtree, probability, rows in level:
            if isinstance(subtree, int):
                found[subtree] = (probability, rows)
                continue
            own = range(row, row + len(subtree) - 1)
            row += len(own)
            scores = np.exp([0.0, *(weight[r] @ z + bias[r] for r in own)])
            shares = scores / scores.sum()
            following += [(c, probability * s, rows | set(own)) for c, s in zip(subtree, shares, strict=True)]
        level = following
    assert row == len(weight)
    return found


@pytest.mark.parametrize("name", TREES)
def test_probabilities_are_products_along_paths(name: str) -> None:
    layer = nn.HierarchicalSoftmax(4, TREES[name]).to(weft.float64)
    count, z = layer.num_classes, sample(3, 4)
    assert layer.weight.shape == (count - 1, 4)
    p = layer.log_prob(z).exp().detach().numpy()
    np.testing.assert_allclose(p.sum(-1), 1, atol=1e-12)
    for row, probabilities in zip(z.detach().numpy(), p, strict=True):
        walked = by_walking(TREES[name], layer.weight.detach().numpy(), layer.bias.detach().numpy(), row)
        np.testing.assert_allclose(probabilities, [walked[c][0] for c in range(count)], atol=1e-12)
    y = weft.tensor(RANDOM.integers(0, count, 3))
    output, loss = layer(z, y)
    np.testing.assert_allclose(output.exp().detach().numpy(), p[np.arange(3), y.numpy()], atol=1e-12)
    assert loss.item() == pytest.approx(-output.mean().item())
    assert layer(z[0], y[0]).output.item() == pytest.approx(output[0].item())
    assert layer.predict(z).tolist() == p.argmax(-1).tolist()


@pytest.mark.parametrize("name", TREES)
def test_gradient_touches_only_the_path(name: str) -> None:
    layer = nn.HierarchicalSoftmax(4, TREES[name]).to(weft.float64)
    for label in range(layer.num_classes):
        layer.zero_grad()
        layer(sample(1, 4), weft.tensor([label])).loss.backward()
        touched = set(np.nonzero(np.abs(layer.weight.grad.numpy()).sum(1))[0])
        walked = by_walking(TREES[name], layer.weight.detach().numpy(), layer.bias.detach().numpy(), np.zeros(4))
        assert touched == walked[label][1] == set(np.nonzero(layer.bias.grad.numpy())[0])


def test_four_of_fifteen_vectors() -> None:
    """The example of N2 §4.5.1: a class among 16 depends on 4 of 15 weight vectors."""
    layer = nn.HierarchicalSoftmax(5, nn.balanced_tree(16))
    layer(weft.randn(1, 5), weft.tensor([0b0101])).loss.backward()
    assert layer.weight.shape[0] == 15
    assert int((layer.weight.grad.abs().sum(1) > 0).sum()) == 4


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("bias", [True, False])
def test_gradients_are_true_both_ways(name: str, bias: bool) -> None:
    layer = nn.HierarchicalSoftmax(3, TREES[name], bias).to(weft.float64)
    z, y = sample(2, 3), weft.tensor([0, 1])
    parameters = tuple(layer.parameters())
    assert weft.autograd.gradcheck(lambda z, *_: layer(z, y).output, (z, *parameters))
    assert weft.autograd.gradcheck(lambda z, *_: layer.log_prob(z), (z, *parameters))


def test_flat_tree_is_a_softmax() -> None:
    layer, z = nn.HierarchicalSoftmax(4, nn.flat_tree(6)).to(weft.float64), sample(5, 4)
    weight = torch.cat([torch.zeros(1, 4, dtype=torch.float64), torch.tensor(layer.weight.detach().numpy())])
    bias = torch.cat([torch.zeros(1, dtype=torch.float64), torch.tensor(layer.bias.detach().numpy())])
    expected = torch.nn.functional.linear(torch.tensor(z.detach().numpy()), weight, bias).log_softmax(-1)
    np.testing.assert_allclose(layer.log_prob(z).detach().numpy(), expected.numpy(), atol=1e-12)


def test_wrong_inputs_of_the_tree() -> None:
    layer = nn.HierarchicalSoftmax(4, nn.flat_tree(6))
    with pytest.raises(RuntimeError, match="HierarchicalSoftmax: expected"):
        layer(weft.zeros(2, 5), weft.tensor([0, 1]))
    with pytest.raises(IndexError, match="0…5, got values from 0 to 6"):
        layer(weft.zeros(2, 4), weft.tensor([0, 6]))


# ----------------------------------------------------------------------------------------- sampled losses

C, D = 10, 4


def output_layer(loss: Callable, weights: list[int] | None = None) -> nn.SampledSoftmax:
    proposal = None if weights is None else nn.FixedProposal(C, weft.tensor(weights, dtype=weft.float64))
    return nn.SampledSoftmax(D, C, 7, loss, proposal).to(weft.float64)


def exact_draws(layer: nn.SampledSoftmax, times: int) -> weft.Tensor:
    """Every class as often as its probability says, so that sums over draws are expectations."""
    q = layer.proposal.probability.numpy()
    return weft.tensor(np.repeat(np.arange(C), np.round(q / q.min()).astype(int) * times))


def gradients(loss: weft.Tensor, layer: nn.SampledSoftmax, z: weft.Tensor) -> np.ndarray:
    found = weft.autograd.grad(loss, (z, layer.weight, layer.bias))
    return np.concatenate([g.numpy().ravel() for g in found])


def of_softmax(layer: nn.SampledSoftmax, z: weft.Tensor, y: weft.Tensor) -> tuple[float, np.ndarray]:
    loss = F.cross_entropy(F.linear(z, layer.weight, layer.bias), y)
    return loss.item(), gradients(loss, layer, z)


UNEVEN = [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


@pytest.mark.parametrize("loss", [nn.sampled_softmax_loss, nn.importance_sampling_loss])
@pytest.mark.parametrize("weights", [None, UNEVEN])
def test_with_exact_draws_the_loss_is_the_softmax_loss(loss: Callable, weights: list[int] | None) -> None:
    layer, z, y = output_layer(loss, weights), sample(6, D), weft.tensor(RANDOM.integers(0, C, 6))
    found = loss(layer.scores(z, y, exact_draws(layer, 2))).mean()
    expected, gradient = of_softmax(layer, z, y)
    assert found.item() == pytest.approx(expected)
    np.testing.assert_allclose(gradients(found, layer, z), gradient, atol=1e-12)


@pytest.mark.parametrize("loss", [nn.sampled_softmax_loss, nn.importance_sampling_loss])
def test_the_normaliser_is_estimated_without_bias(loss: Callable) -> None:
    """E[exp(loss + η_y)] = Σ_c exp η_c over the draws, also for K = 2."""
    layer, z, y = output_layer(loss, UNEVEN), sample(1, D), weft.tensor([3])
    estimates = []
    for classes in itertools.product(range(C), repeat=2):
        scores = layer.scores(z, y, weft.tensor(classes))
        probability = math.exp(float(scores.log_q_drawn.sum()))
        estimates.append(probability * math.exp(float(loss(scores) + scores.target)))
    total = float(F.linear(z, layer.weight, layer.bias).exp().sum())
    assert sum(estimates) == pytest.approx(total)


@pytest.mark.parametrize("weights", [None, UNEVEN])
def test_nce_gradient_approaches_the_softmax_gradient(weights: list[int] | None) -> None:
    """For normalised scores the expected gradient differs from that of softmax by O(1/K)."""
    layer, z, y = output_layer(nn.noise_contrastive_loss, weights), sample(1, D), weft.tensor([3])
    with weft.no_grad():
        layer.bias -= F.linear(z, layer.weight, layer.bias).logsumexp(-1)  # Σ exp η = 1
    _, gradient = of_softmax(layer, z, y)
    errors = []
    for times in (1, 10, 100, 1000):
        found = nn.noise_contrastive_loss(layer.scores(z, y, exact_draws(layer, times))).mean()
        errors.append(np.abs(gradients(found, layer, z) - gradient).max())
    assert errors[-1] < 1e-3
    for before, after in itertools.pairwise(errors):
        assert after < before / 5
    assert errors[-1] == pytest.approx(errors[-2] / 10, rel=0.1)


@pytest.mark.parametrize("loss", [nn.sampled_softmax_loss, nn.importance_sampling_loss, nn.noise_contrastive_loss])
def test_random_draws_approach_the_softmax_gradient(loss: Callable) -> None:
    layer, z, y = output_layer(loss, UNEVEN), sample(1, D), weft.tensor([3])
    with weft.no_grad():
        layer.bias -= F.linear(z, layer.weight, layer.bias).logsumexp(-1)
    _, gradient = of_softmax(layer, z, y)
    errors = []
    for count in (10, 200000):
        found = loss(layer.scores(z, y, layer.proposal.draw(count))).mean()
        errors.append(np.abs(gradients(found, layer, z) - gradient).max())
    assert errors[1] < 0.02 < errors[0]


def test_negative_sampling_formula_and_optimum() -> None:
    """Against the sum; and at η_c = log p_c − log(K q_c (1 − p_c)) the expected gradient over y ∼ p vanishes."""
    target, drawn = sample(3), sample(3, 4)
    hit = weft.tensor([[False, True, False, False]] * 3)
    scores = nn.SampledScores(target, drawn, weft.zeros(3), weft.zeros(4), hit)
    sigmoid = lambda x: 1 / (1 + np.exp(-x))
    expected = -np.log(sigmoid(target.detach().numpy())) - np.log(sigmoid(-drawn.detach().numpy()[:, [0, 2, 3]])).sum(1)
    np.testing.assert_allclose(nn.negative_sampling_loss(scores).detach().numpy(), expected)

    p, q, times = RANDOM.dirichlet(np.ones(C)), 1 / C, 3
    layer = output_layer(nn.negative_sampling_loss)
    with weft.no_grad():
        layer.weight.zero_()
        layer.bias.copy_(weft.tensor(np.log(p / (times * C * q * (1 - p)))))
    every = layer.scores(weft.zeros(C, D, dtype=weft.float64), weft.arange(C), exact_draws(layer, times))
    (weft.tensor(p) * nn.negative_sampling_loss(every)).sum().backward()
    np.testing.assert_allclose(layer.bias.grad.numpy(), 0, atol=1e-12)


def test_negative_samples_are_uniform_unless_told() -> None:
    """N2 §4.5.2 samples uniformly; word2vec from counts to the power 3/4."""
    q = nn.FixedProposal(4).probability.numpy()
    np.testing.assert_allclose(q, 0.25)
    counts = np.array([1.0, 16.0, 81.0, 256.0])
    proposal = nn.FixedProposal(4, weft.tensor(counts), 0.75)
    np.testing.assert_allclose(proposal.probability.numpy(), np.array([1, 8, 27, 64]) / 100, rtol=1e-6)
    frequency = np.bincount(proposal.draw(40000).numpy(), minlength=4) / 40000
    np.testing.assert_allclose(frequency, np.array([1, 8, 27, 64]) / 100, atol=0.01)
    with pytest.raises(ValueError, match="positive weights"):
        nn.FixedProposal(3, weft.tensor([1.0, 0.0, 2.0]))


def test_adaptive_proposal_follows_the_model() -> None:
    """Drawn from and corrected by itself, q settles at the model's distribution, and estimates get better."""
    scores = weft.tensor(3 * RANDOM.standard_normal(C))
    p = scores.softmax(-1).numpy()
    proposal = nn.AdaptiveProposal(C, rate=0.02, floor=0.05)
    for _ in range(500):
        classes = proposal.draw(50)
        proposal.observe(classes, scores[classes].unsqueeze(0))
    assert proposal.probability.sum().item() == pytest.approx(1, abs=1e-5)
    assert np.abs(proposal.followed.numpy() - p).sum() / 2 < 0.05
    assert (proposal.probability.numpy() >= 0.05 / C - 1e-9).all()

    def spread(q: nn.Module) -> float:
        """Variance of exp(η_c) / q(c), whose mean is the normaliser, relative to its square."""
        probability = q.probability.numpy()
        ratio = np.exp(scores.numpy()) / probability
        return float((probability * ratio**2).sum() / (probability * ratio).sum() ** 2 - 1)

    assert spread(proposal) < spread(nn.FixedProposal(C)) / 10


@pytest.mark.parametrize(
    "loss",
    [
        nn.sampled_softmax_loss,
        nn.importance_sampling_loss,
        nn.noise_contrastive_loss,
        nn.negative_sampling_loss,
    ],
)
@pytest.mark.parametrize("adaptive", [False, True])
def test_sampled_layers_learn(loss: Callable, adaptive: bool) -> None:
    """Points around ten orthogonal centres: each loss teaches a classifier that gets nearly all right."""
    y = RANDOM.integers(0, C, 300)
    z, y = weft.tensor(3 * np.eye(C)[y] + 0.5 * RANDOM.standard_normal((300, C)), dtype=weft.float32), weft.tensor(y)
    layer = nn.SampledSoftmax(C, C, 20, loss, nn.AdaptiveProposal(C) if adaptive else None)
    for _ in range(150):
        layer.zero_grad()
        layer(z, y).backward()
        with weft.no_grad():
            for parameter in layer.parameters():
                parameter -= 0.1 * parameter.grad
    assert float((layer.predict(z) == y).to(weft.float32).mean()) > 0.98
    np.testing.assert_allclose(layer.log_prob(z).exp().sum(-1).detach().numpy(), 1, atol=1e-5)


def test_only_the_rows_in_use_get_a_gradient() -> None:
    layer, z = nn.SampledSoftmax(D, 1000, 5), weft.randn(2, D)
    weft.manual_seed(3)
    classes = layer.proposal.draw(5)
    weft.manual_seed(3)
    layer(z, weft.tensor([7, 9])).backward()
    touched = set(np.nonzero(layer.weight.grad.abs().sum(1).numpy())[0])
    assert touched == {7, 9, *classes.tolist()}
    with pytest.raises(RuntimeError, match="expected input"):
        layer(weft.randn(2, D), weft.tensor([7]))


# ------------------------------------------------------------------------------------ sets and similarity


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("leading", [(), (3,), (2, 3)])
def test_set_embedding_is_the_multi_hot_product(mode: str, leading: tuple[int, ...]) -> None:
    """z = Eᵀ m, divided by |S| for the mean; gradients too."""
    layer = nn.SetEmbedding(8, 4, mode).to(weft.float64)
    numbers = RANDOM.integers(0, 8, (*leading, 5))
    mask = RANDOM.random((*leading, 5)) < 0.6
    if leading:
        mask[(0,) * len(leading)] = False
    multi_hot = (np.eye(8)[numbers] * mask[..., None]).sum(-2)
    multi_hot /= np.maximum(mask.sum(-1, keepdims=True), 1) if mode == "mean" else 1
    found = layer(weft.tensor(numbers), weft.tensor(mask))
    np.testing.assert_allclose(found.detach().numpy(), multi_hot @ layer.weight.detach().numpy(), atol=1e-12)
    g = RANDOM.standard_normal(found.shape)
    found.backward(weft.tensor(g))
    expected = (
        np.tensordot(multi_hot, g, (range(len(leading)), range(len(leading)))) if leading else np.outer(multi_hot, g)
    )
    np.testing.assert_allclose(layer.weight.grad.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_set_embedding_is_pytorchs_bag_and_ignores_order(mode: str) -> None:
    layer = nn.SetEmbedding(8, 4, mode)
    bag = torch.nn.EmbeddingBag(8, 4, mode=mode)
    bag.load_state_dict({"weight": torch.tensor(layer.weight.detach().numpy())})
    numbers = RANDOM.integers(0, 8, (3, 5))
    expected = bag(torch.tensor(numbers)).detach().numpy()
    for order in (numbers, numbers[:, ::-1].copy()):
        np.testing.assert_allclose(layer(weft.tensor(order)).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match="must be equal"):
        layer(weft.tensor(numbers), weft.ones(3, dtype=weft.bool))
    with pytest.raises(ValueError, match="'mean' or 'sum'"):
        nn.SetEmbedding(8, 4, "max")


def test_softmax_as_similarity() -> None:
    """N2 §4.3: with vectors of one length, inner product and cosine give the same probabilities."""
    plain, cosine = (
        nn.SimilaritySoftmax(4, 6).to(weft.float64),
        nn.SimilaritySoftmax(4, 6, cosine=True).to(weft.float64),
    )
    z, w = sample(5, 4).detach().numpy(), plain.weight.detach().numpy()
    scores = np.exp(z @ w.T)
    np.testing.assert_allclose(plain(weft.tensor(z)).detach().numpy(), scores / scores.sum(1, keepdims=True))
    unit = lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)
    cosine.weight.data.copy_(weft.tensor(w))
    plain.weight.data.copy_(weft.tensor(unit(w)))
    np.testing.assert_allclose(cosine(weft.tensor(z)).detach().numpy(), plain(weft.tensor(unit(z))).detach().numpy())


def test_similar_classes() -> None:
    layer = nn.SimilaritySoftmax(3, 7).to(weft.float64)
    w = layer.weight.detach().numpy()
    cosines = (w @ w[2]) / np.linalg.norm(w, axis=1) / np.linalg.norm(w[2])
    expected = [c for c in np.argsort(-cosines) if c != 2][:4]
    values, numbers = layer.similar(2, 4)
    assert numbers.tolist() == expected
    np.testing.assert_allclose(values.numpy(), cosines[expected])
