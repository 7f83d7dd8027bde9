"""Signals on graphs: Fourier transform, filters, convolution; the DFT as the transform of a ring."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import weft
from weft import graphs as G
from weft.errors import OptionError, ShapeError

from .conftest import UNDIRECTED, exact, of_networkx

NAMES = ["karate", "karate weighted", "two components and a lone node", "grid", "loops"]


def signal(graph: G.Graph, channels: int = 2) -> weft.Tensor:
    return weft.from_numpy(np.random.default_rng(1).standard_normal((graph.num_nodes, channels)))


@pytest.mark.parametrize("name", NAMES)
def test_quadratic_form_is_the_sum_of_squared_differences(name):
    graph = exact(of_networkx(UNDIRECTED[name]()))
    x = signal(graph)
    L = G.laplacian(graph).to_dense().numpy()
    np.testing.assert_allclose(G.quadratic_form(graph, x), np.diag(x.numpy().T @ L @ x.numpy()))
    assert G.quadratic_form(graph, weft.ones(graph.num_nodes)).item() == 0
    values, vectors = G.spectrum(graph)
    np.testing.assert_allclose(G.rayleigh_quotient(graph, vectors), values, atol=1e-10)
    assert weft.autograd.gradcheck(lambda f: G.quadratic_form(graph, f).sum(), (x.requires_grad_(),))


def test_the_fiedler_vector_is_the_best_signal():
    """Rayleigh–Ritz: no signal orthogonal to 1 of length 1 is smoother."""
    graph = exact(of_networkx(UNDIRECTED["karate"]()))
    value, vector = G.fiedler_vector(graph)
    assert abs(vector.sum().item()) < 1e-10 and G.quadratic_form(graph, vector).item() == pytest.approx(value)
    f = signal(graph, 200).numpy()
    f = f - f.mean(0)
    assert (G.rayleigh_quotient(graph, weft.from_numpy(f)).numpy() >= value - 1e-12).all()


@pytest.mark.parametrize("normalization", [None, "sym"])
@pytest.mark.parametrize("name", NAMES)
def test_transform_and_filters(name, normalization):
    graph = exact(of_networkx(UNDIRECTED[name]()))
    x, fourier = signal(graph), G.GraphFourier(graph, normalization)
    np.testing.assert_allclose(fourier.inverse(fourier.transform(x)), x, atol=1e-12)
    np.testing.assert_allclose((fourier.transform(x) ** 2).sum(0), (x**2).sum(0))  # Parseval
    L = G.laplacian(graph, normalization).to_dense().numpy()
    np.testing.assert_allclose(
        fourier.filter(x, G.heat_filter(0.7)), scipy.linalg.expm(-0.7 * L) @ x.numpy(), atol=1e-10
    )
    np.testing.assert_allclose(fourier.filter(x, lambda values: values), L @ x.numpy(), atol=1e-10)
    cut = float(fourier.eigenvalues[len(fourier.eigenvalues) // 2]) + 1e-9
    low, high = (fourier.filter(x, kind(cut)) for kind in (G.low_pass, G.high_pass))
    np.testing.assert_allclose(low + high, x, atol=1e-12)
    np.testing.assert_allclose(fourier.filter(low, G.low_pass(cut)), low, atol=1e-12)
    assert (G.quadratic_form(graph, low) <= G.quadratic_form(graph, x) + 1e-9).all()


@pytest.mark.parametrize("name", ["karate", "grid"])
def test_few_frequencies_project(name):
    graph = exact(of_networkx(UNDIRECTED[name]()))
    x, few = signal(graph), G.GraphFourier(graph, k=5)
    projected = few.inverse(few.transform(x))
    np.testing.assert_allclose(few.inverse(few.transform(projected)), projected, atol=1e-12)
    np.testing.assert_allclose(
        projected, G.GraphFourier(graph).filter(x, G.low_pass(float(few.eigenvalues[-1]) + 1e-9)), atol=1e-9
    )


@pytest.mark.parametrize("normalization", [None, "sym", "rw"])
@pytest.mark.parametrize("name", NAMES)
def test_chebyshev_is_the_exact_filter(name, normalization):
    """Polynomials at once, smooth responses to rounding with enough terms."""
    graph = exact(of_networkx(UNDIRECTED[name]()))
    x = signal(graph)
    L = G.laplacian(graph, normalization).to_dense().numpy()
    if normalization == "rw":
        found = G.chebyshev_filter(graph, x, lambda v: 1 - v + 0.5 * v**3, 3, "rw", largest=2.0)
        np.testing.assert_allclose(found, x.numpy() - L @ x.numpy() + 0.5 * L @ L @ L @ x.numpy(), atol=1e-10)
        return
    largest = G.largest_eigenvalue(graph, normalization)
    assert largest == pytest.approx(np.linalg.eigvalsh(L).max())
    cubic = lambda v: 1 - v + 0.5 * v**3
    fourier = G.GraphFourier(graph, normalization)
    for order in (3, 6):
        found = G.chebyshev_filter(graph, x, cubic, order, normalization)
        np.testing.assert_allclose(found, fourier.filter(x, cubic), atol=1e-7 * largest**3)
    heat = G.heat_filter(0.5)
    errors = [
        np.abs(G.chebyshev_filter(graph, x, heat, k, normalization) - fourier.filter(x, heat)).max() for k in (2, 8, 40)
    ]
    assert errors[0] > errors[1] > errors[2] and errors[2] < 1e-11


def test_a_chebyshev_filter_of_order_k_sees_k_steps():
    graph = exact(G.path(20))
    x = weft.zeros(20, dtype=weft.float64)
    x[5] = 1.0
    reached = np.flatnonzero(np.abs(G.chebyshev_filter(graph, x, G.heat_filter(1.0), 3).numpy()) > 1e-12)
    assert reached.tolist() == list(range(2, 9))


def test_gradients_of_filters():
    graph = exact(G.ring(5))
    x = signal(graph).requires_grad_()
    c = weft.tensor([0.3, -0.2, 0.1], dtype=weft.float64, requires_grad=True)
    assert weft.autograd.gradcheck(lambda x, c: G.chebyshev_filter(graph, x, c, largest=4.0), (x, c))
    t = weft.tensor(0.4, dtype=weft.float64, requires_grad=True)
    fourier = G.GraphFourier(graph)
    assert weft.autograd.gradcheck(lambda x, t: fourier.filter(x, G.heat_filter(t)), (x, t))
    theta = weft.ones(5, 2, 3, dtype=weft.float64, requires_grad=True)
    assert weft.autograd.gradcheck(lambda x, theta: G.spectral_convolution(fourier, x, theta), (x, theta))


def test_spectral_convolution_is_a_sum_of_filters():
    graph = exact(of_networkx(UNDIRECTED["karate"]()))
    fourier, x = G.GraphFourier(graph), signal(graph, 2)
    gains = [[G.heat_filter(0.1), G.low_pass(1.0)], [lambda v: v, lambda v: v**2]]
    theta = weft.stack([weft.stack([gains[c][o](fourier.eigenvalues) for o in range(2)], -1) for c in range(2)], 1)
    expected = weft.stack([sum(fourier.filter(x[:, c], gains[c][o]) for c in range(2)) for o in range(2)], -1)
    np.testing.assert_allclose(G.spectral_convolution(fourier, x, theta), expected, atol=1e-9)


# ------------------------------------------------------------------------------------------ the ring
@pytest.mark.parametrize("n", [3, 8, 15])
def test_the_dft_is_the_transform_of_the_ring(n):
    F = G.dft_matrix(n).numpy()
    np.testing.assert_allclose(F @ F.conj().T, np.eye(n), atol=1e-12)
    np.testing.assert_allclose(F, np.fft.fft(np.eye(n), norm="ortho"), atol=1e-12)
    ring = G.GraphFourier.of_ring(n)
    L = G.laplacian(exact(G.ring(n))).to_dense().numpy()
    np.testing.assert_allclose(F @ L @ F.conj().T, np.diag(ring.eigenvalues.numpy()), atol=1e-12)
    shift = G.adjacency(G.ring(n, directed=True)).to_dense().numpy()
    np.testing.assert_allclose(F @ shift @ F.conj().T, np.diag(np.exp(2j * np.pi * np.arange(n) / n)), atol=1e-7)
    x, w = (weft.from_numpy(np.random.default_rng(s).standard_normal(n)) for s in (0, 1))
    np.testing.assert_allclose(ring.transform(x), np.fft.fft(x.numpy(), norm="ortho"), atol=1e-12)
    np.testing.assert_allclose(ring.inverse(ring.transform(x)).real, x, atol=1e-12)
    circular = [sum(x[j].item() * w[(i - j) % n].item() for j in range(n)) for i in range(n)]
    np.testing.assert_allclose(np.sqrt(n) * ring.convolve(x, w).numpy(), circular, atol=1e-10)
    graph = G.GraphFourier(exact(G.ring(n)))
    np.testing.assert_allclose(ring.filter(x, G.heat_filter(0.3)), graph.filter(x, G.heat_filter(0.3)), atol=1e-12)


def test_convolution_is_a_product_of_frequencies():
    fourier = G.GraphFourier(exact(of_networkx(UNDIRECTED["grid"]())))
    x, w = (weft.from_numpy(np.random.default_rng(s).standard_normal(20)) for s in (0, 1))
    product = fourier.transform(fourier.convolve(x, w))
    np.testing.assert_allclose(product, fourier.transform(x) * fourier.transform(w), atol=1e-12)


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
def test_types_stay(dtype):
    graph = G.ring(6)
    x = weft.ones(6, dtype=dtype)
    fourier = G.GraphFourier(graph)
    found = [
        fourier.transform(x),
        fourier.filter(x, G.heat_filter(1.0)),
        G.chebyshev_filter(graph, x, G.heat_filter(1.0), 4),
    ]
    assert all(part.dtype == dtype for part in (*found, G.quadratic_form(graph, x)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: G.quadratic_form(G.ring(3), weft.ones(4)), ShapeError, "N = 3"),
        (lambda: G.quadratic_form(G.ring(3), weft.ones(3, dtype=weft.int64)), ShapeError, "floats"),
        (lambda: G.GraphFourier(G.ring(3), "rw"), OptionError, "orthogonal"),
        (lambda: G.GraphFourier(G.ring(3)).transform(weft.ones(4)), ShapeError, "expected 3 rows"),
        (lambda: G.chebyshev_filter(G.ring(3), weft.ones(3), G.heat_filter(1.0)), OptionError, "needs an order"),
        (lambda: G.chebyshev_coefficients(G.heat_filter(1.0), -1, 2.0), OptionError, "at least 0"),
        (lambda: G.dft_matrix(0), OptionError, "at least 1"),
        (
            lambda: G.spectral_convolution(G.GraphFourier(G.ring(3)), weft.ones(3, 2), weft.ones(2, 2, 1)),
            ShapeError,
            r"\(3, 2, O\)",
        ),
    ],
)
def test_signals_that_cannot_be(call, error, message):
    with pytest.raises(error, match=message):
        call()
