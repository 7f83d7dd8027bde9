"""Worked examples of the lecture notes with their numbers, and backpropagation written out."""

import itertools

import numpy as np
import pytest

import weft
from weft.autograd import backprop_mlp

f64 = dict(dtype=weft.float64)


def parameters(sizes, seed=0):
    rng = np.random.default_rng(seed)
    weights = [weft.tensor(rng.normal(size=(n, m)), requires_grad=True) for m, n in itertools.pairwise(sizes)]
    biases = [weft.tensor(rng.normal(size=n), requires_grad=True) for n in sizes[1:]]
    return weights, biases, rng


def forward(x, weights, biases, activation, link):
    for number, (w, b) in enumerate(zip(weights, biases, strict=True)):
        x = x @ w.T + b
        x = link(x) if number == len(weights) - 1 else activation(x)
    return x


SQUARED = lambda a, y: ((a - y) ** 2).sum() / 2
CROSS_ENTROPY = lambda a, y: -(y * a.log()).sum()
BINARY = lambda a, y: -(y * a.log() + (1 - y) * (1 - a).log()).sum()


@pytest.mark.parametrize("sizes", [(3, 2), (3, 5, 2), (4, 6, 5, 3)])
@pytest.mark.parametrize(
    ("link", "error", "canonical"),
    [
        (lambda z: z, SQUARED, True),
        (lambda z: z.softmax(-1), CROSS_ENTROPY, True),
        (lambda z: z.sigmoid(), BINARY, True),
        (lambda z: z.sigmoid(), SQUARED, False),
        (lambda z: z.softmax(-1), SQUARED, False),
    ],
)
@pytest.mark.parametrize("batch", [True, False])
def test_delta_recursion_equals_the_tape(sizes, link, error, canonical, batch):
    """N1 §1.4, eqs. 46–54: δ by hand and gradients by backward agree to 1e-10."""
    weights, biases, rng = parameters(sizes)
    x = weft.tensor(rng.normal(size=(7, sizes[0]) if batch else sizes[0]))
    y = weft.tensor(np.eye(sizes[-1])[rng.integers(0, sizes[-1], 7 if batch else ())])
    activation, slope = weft.tanh, lambda z: 1 - weft.tanh(z) ** 2
    found = backprop_mlp(x, y, weights, biases, activation, slope, link, None if canonical else error)
    output = forward(x, weights, biases, activation, link)
    expected = weft.autograd.grad(error(output, y), [*weights, *biases])
    for ours, tape in zip([*found.weights, *found.biases], expected, strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), tape.numpy(), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.output.detach().numpy().reshape(output.shape), output.detach().numpy())
    assert [tuple(d.shape) for d in found.deltas] == [(7 if batch else 1, n) for n in sizes[1:]]


def test_slope_is_found_if_not_given():
    weights, biases, rng = parameters((3, 4, 2), 1)
    x, y = weft.tensor(rng.normal(size=(5, 3))), weft.tensor(rng.normal(size=(5, 2)))
    given = backprop_mlp(x, y, weights, biases, weft.relu, lambda z: (z > 0).double())
    itself = backprop_mlp(x, y, weights, biases, weft.relu)
    for a, b in zip(given.weights, itself.weights, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)


def test_shapes_are_checked():
    weights, biases, _ = parameters((3, 4, 2))
    with pytest.raises(ValueError, match="layer 1"):
        backprop_mlp(weft.ones(5, 2, **f64), weft.ones(5, 2, **f64), weights, biases, weft.tanh)
    with pytest.raises(ValueError, match="one each"):
        backprop_mlp(weft.ones(5, 3, **f64), weft.ones(5, 2, **f64), weights, biases[:1], weft.tanh)


def test_exercise_1_2_gradients_of_a_network_with_two_activations():
    """N1 exercise 1.2, eqs. 94–102: one sigmoid and one tanh unit, a missing connection."""
    rng = np.random.default_rng(2)
    x1, x2, x3, label = rng.normal(size=4)
    names = ("b1", "b2", "w11", "w12", "w21", "w31", "w32", "v1", "v2")
    p = {
        name: weft.tensor(value, **f64, requires_grad=True)
        for name, value in zip(names, rng.normal(size=9), strict=True)
    }
    a1 = (p["w11"] * x1 + p["w21"] * x2 + p["w31"] * x3 + p["b1"]).sigmoid()
    a2 = (p["w12"] * x1 + p["w32"] * x3 + p["b2"]).tanh()
    f = p["v1"] * a1 + p["v2"] * a2
    loss = (f - label) ** 2 / 2
    found = dict(zip(names, weft.autograd.grad(loss, list(p.values())), strict=True))
    v1, v2, s, h = (q.item() for q in (p["v1"], p["v2"], a1, a2))
    first, second = v1 * s * (1 - s), v2 * (1 - h * h)
    by_hand = dict(v1=s, v2=h, w11=first * x1, w21=first * x2, w31=first * x3, b1=first)
    by_hand |= dict(w12=second * x1, w32=second * x3, b2=second)
    for name, slope in by_hand.items():
        assert found[name].item() == pytest.approx((f.item() - label) * slope, rel=1e-12)


def test_exercise_1_3_one_step_of_gradient_descent():
    """N1 exercise 1.3: a 2-2-2 network of rectifiers; the numbers are worked out by hand below.

    h = (ReLU(1·1 + 2·(−0.5) − 0.5), ReLU(1·0.5 + 2·1 − 0.5)) = (0, 2);
    y = (ReLU(0.5·0 − 1·2 + 1), ReLU(−2·0 + 0.5·2 + 1)) = (0, 2); mean squared error ((0−2)² + (2−4)²) / 2 = 4.
    w31 leads from the dead h1 into the dead y1: no change. ∂E/∂w42 = (y2 − t2) h2 = −4.
    ∂E/∂w22 = (y2 − t2) w42 x2 = −2.
    """
    first = weft.tensor([[1.0, 0.5], [-0.5, 1.0]], **f64, requires_grad=True)  # w11 w12; w21 w22
    second = weft.tensor([[0.5, -2.0], [-1.0, 0.5]], **f64, requires_grad=True)  # w31 w32; w41 w42
    b12, b34 = weft.tensor([-0.5, -0.5], **f64), weft.tensor([1.0, 1.0], **f64)
    x, t = weft.tensor([1.0, 2.0], **f64), weft.tensor([2.0, 4.0], **f64)
    h = (x @ first + b12).relu()
    y = (h @ second + b34).relu()
    loss = ((y - t) ** 2).mean()
    assert h.tolist() == [0.0, 2.0] and y.tolist() == [0.0, 2.0] and loss.item() == 4.0
    loss.backward()
    assert second.grad.tolist() == [[0.0, 0.0], [0.0, -4.0]]
    assert first.grad.tolist() == [[0.0, -1.0], [0.0, -2.0]]
    with weft.no_grad():
        first -= 0.01 * first.grad
        second -= 0.01 * second.grad
    assert second[0, 0].item() == 0.5  # w31
    assert second[1, 1].item() == pytest.approx(0.54)  # w42
    assert first[1, 1].item() == pytest.approx(1.02)  # w22
    by_hand = backprop_mlp(
        x, t, [weft.tensor([[1.0, -0.5], [0.5, 1.0]], **f64), weft.tensor([[0.5, -1.0], [-2.0, 0.5]], **f64)],
        [b12, b34], weft.relu, link=weft.relu, error=lambda a, y: ((a - y) ** 2).sum() / 2,
    )  # fmt: skip
    assert by_hand.weights[1].tolist() == [[0.0, 0.0], [0.0, -4.0]]


def test_exercise_3_2_convolution_and_pooling():
    """N1 exercise 3.2: three channels, padding, bias 2, rectifier; then maximum and mean over 2×2 blocks."""
    x = weft.tensor(
        [
            [[2, 1, 0, 0], [0, 0, 2, 1], [0, 2, 0, 1], [2, 1, 0, 1]],
            [[2, 2, 0, 0], [0, 0, 2, 1], [0, 0, 2, 0], [0, 1, 0, 1]],
            [[2, 1, 0, 0], [0, 0, 2, 1], [2, 0, 0, 0], [0, 1, 0, 1]],
        ],
        **f64,
    )
    w = weft.tensor(
        [
            [[1, 0, 0], [0, -2, 0], [0, 0, -1]],
            [[1, 2, 0], [2, 0, -1], [0, -1, 1]],
            [[0, 0, -2], [0, 1, 2], [-2, 2, 0]],
        ],
        **f64,
        requires_grad=True,
    )
    padded = weft.zeros(3, 6, 6, **f64)
    padded[:, 1:5, 1:5] = x
    windows = padded.unfold(1, 3, 1).unfold(2, 3, 1)  # (3, 4, 4, 3, 3)
    channels = (windows * w[:, None, None]).sum((3, 4))  # (3, 4, 4)
    assert channels[0].tolist() == [[-4, -4, -1, 0], [-2, 2, -4, -2], [-1, -4, -1, 0], [-4, -2, 2, -2]]
    y = (channels.sum(0) + 2).relu()
    blocks = y.reshape(2, 2, 2, 2).transpose(1, 2).reshape(2, 2, 4)
    expected = np.array([[0, 5, 8, 0], [6, 10, 1, 5], [4, 0, 2, 11], [0, 1, 11, 3]], float)
    np.testing.assert_array_equal(y.detach().numpy(), expected)
    assert blocks.amax(-1).tolist() == [[10.0, 8.0], [4.0, 11.0]]
    assert blocks.mean(-1).tolist() == [[21 / 4, 7 / 2], [5 / 4, 27 / 4]]
    blocks.mean(-1).sum().backward()
    alive = (expected > 0).astype(float) / 4
    by_hand = np.einsum("cijkl,ij->ckl", windows.detach().numpy(), alive)
    np.testing.assert_allclose(w.grad.numpy(), by_hand)


def test_sigmoid_at_zero():
    """N2 §3.3.1: σ′(0) = σ(0)(1 − σ(0)) = 0.25."""
    u = weft.tensor(0.0, requires_grad=True)
    y = u.sigmoid()
    y.backward()
    assert y.item() == 0.5 and u.grad.item() == 0.25


def test_local_gradients_multiply_and_add():
    """N2 §3.3.2–3.3.5: products along a path, sums over outputs and uses."""
    x, w, b = (weft.tensor(v, requires_grad=True) for v in (3.0, 2.0, 1.0))
    (w * x + b).backward()
    assert (x.grad.item(), w.grad.item(), b.grad.item()) == (2.0, 3.0, 1.0)
    v = weft.tensor(0.7, **f64, requires_grad=True)
    v.sin().exp().log1p().backward()
    s = np.exp(np.sin(0.7))
    assert v.grad.item() == pytest.approx(np.cos(0.7) * s / (1 + s))
    u = weft.tensor(0.4, **f64, requires_grad=True)
    g = u.sin()
    (g * 2 + g * g + g.exp()).backward()
    assert u.grad.item() == pytest.approx(np.cos(0.4) * (2 + 2 * np.sin(0.4) + np.exp(np.sin(0.4))))


def test_logistic_regression_with_two_examples():
    """N2 §3.3.7: ∇w = Σ (σ(wᵀx) − y) x."""
    x = weft.tensor([[1.0, 2.0], [3.0, -1.0]], **f64)
    y = weft.tensor([1.0, 0.0], **f64)
    w = weft.tensor([0.5, -0.3], **f64, requires_grad=True)
    p = (x @ w).sigmoid()
    (-(y * p.log() + (1 - y) * (1 - p).log()).sum()).backward()
    np.testing.assert_allclose(w.grad.numpy(), ((p - y) @ x).detach().numpy(), rtol=1e-12)


def test_attention_weights():
    """N2 §5.5.2: scores Kq and weights S(Kq) of four queries to the words of one sentence."""
    keys = weft.tensor([[0.1, 0, 2], [5, 4, 3], [-4, 0, -3], [-0.2, 0, 1], [5, -3, -4]])
    queries = weft.tensor([[5.0, 0, 0], [-5, 0, 0], [5, 4, 0], [0, 0, 0]])
    scores = queries @ keys.T
    expected = [[0.5, 25, -20, -1, 25], [-0.5, -25, 20, 1, -25], [0.5, 41, -20, -1, 13], [0, 0, 0, 0, 0]]
    np.testing.assert_allclose(scores.numpy(), expected, atol=1e-5)
    weights = [[0, 0.5, 0, 0, 0.5], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0], [0.2] * 5]
    np.testing.assert_allclose(scores.softmax(1).numpy(), weights, atol=1e-6)
    one_by_one = weft.vmap(lambda q: (keys @ q).softmax(0))(queries)
    np.testing.assert_allclose(one_by_one.numpy(), weights, atol=1e-6)


class TestGraphLaplacian:
    """N2 §7.1: the path of three vertices."""

    adjacency = weft.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]], **f64)
    degrees = adjacency.sum(1)
    laplacian = weft.diag(degrees) - adjacency

    def test_laplacians(self):
        assert self.degrees.tolist() == [1.0, 2.0, 1.0]
        assert self.laplacian.tolist() == [[1, -1, 0], [-1, 2, -1], [0, -1, 1]]
        root = self.degrees**-0.5
        symmetric = weft.eye(3, **f64) - root[:, None] * self.adjacency * root
        r = 1 / np.sqrt(2)
        np.testing.assert_allclose(symmetric.numpy(), [[1, -r, 0], [-r, 1, -r], [0, -r, 1]], rtol=1e-15)
        walk = weft.eye(3, **f64) - self.adjacency / self.degrees[:, None]
        assert walk.tolist() == [[1, -1, 0], [-0.5, 1, -0.5], [0, -1, 1]]
        np.testing.assert_allclose((weft.diag(1 / self.degrees) @ self.laplacian).numpy(), walk.numpy())

    @pytest.mark.parametrize(("signal", "expected"), [([1.0, 1, 1], 0.0), ([-1.0, 0, 1], 2.0), ([1.0, -2, 1], 18.0)])
    def test_quadratic_form(self, signal, expected):
        """fᵀLf = ½ Σ aᵢⱼ (fᵢ − fⱼ)², with gradient 2Lf and Hessian 2L."""
        f = weft.tensor(signal, **f64)
        form = lambda f: f @ self.laplacian @ f
        differences = self.adjacency * (f[:, None] - f) ** 2
        assert form(f).item() == expected == differences.sum().item() / 2
        np.testing.assert_allclose(weft.func.grad(form)(f).numpy(), 2 * (self.laplacian @ f).numpy(), atol=1e-12)
        np.testing.assert_allclose(weft.func.hessian(form)(f).numpy(), 2 * self.laplacian.numpy(), atol=1e-12)

    def test_positive_semidefinite(self):
        """Symmetric, smallest eigenvalue 0 with the constant vector; the path P₃ has eigenvalues 0, 1, 3."""
        assert weft.equal(self.laplacian, self.laplacian.T)
        values = weft.linalg.eigvalsh(self.laplacian)
        np.testing.assert_allclose(values.numpy(), [0, 1, 3], atol=1e-12)
        assert (self.laplacian @ weft.ones(3, **f64)).tolist() == [0.0, 0.0, 0.0]
