"""Special functions where PyTorch is no measure: special values, identities, closed forms, missing derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special as sp
import torch

import weft

INF, NAN = math.inf, math.nan


def values(result):
    return result.detach().numpy()


@pytest.mark.parametrize("name", "erf erfc erfinv lgamma digamma i0 sinc".split())
def test_special_values_equal_pytorch(name):
    x = np.array([0.0, -0.0, 1.0, -1.0, -2.5, INF, -INF, NAN, 1e-30, 30.0, -30.0])
    expected = getattr(torch, name)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(values(getattr(weft, name)(weft.tensor(x))), expected, rtol=1e-12)


@pytest.mark.parametrize("name", "entr erfcx i0e i1 i1e log_ndtr ndtri xlogy xlog1py".split())
def test_special_values_of_the_namespace_equal_pytorch(name):
    x = np.array([0.0, 1.0, -1.0, 0.5, -0.5, INF, -INF, NAN, 20.0])
    args = np.meshgrid(x, x) if name.startswith("xlog") else [x]
    expected = getattr(torch.special, name)(*map(torch.from_numpy, args)).numpy()
    found = getattr(weft.special, name)(*map(weft.tensor, args))
    np.testing.assert_allclose(values(found), expected, rtol=1e-12)


def test_trigamma_closed_forms():
    x = weft.tensor([0.5, 1.0, 2.0], dtype=weft.float64)
    expected = [math.pi**2 / 2, math.pi**2 / 6, math.pi**2 / 6 - 1]
    np.testing.assert_allclose(values(weft.polygamma(1, x)), expected, rtol=1e-14)


def test_polygamma_recurrence():
    """ψ⁽ⁿ⁾(x + 1) = ψ⁽ⁿ⁾(x) + (−1)ⁿ n! / xⁿ⁺¹."""
    x = weft.linspace(0.3, 5, 20, dtype=weft.float64)
    for n in range(5):
        step = (-1) ** n * math.factorial(n) / values(x) ** (n + 1)
        np.testing.assert_allclose(values(weft.polygamma(n, x + 1) - weft.polygamma(n, x)), step, rtol=1e-10)


def test_bessel_wronskians():
    """J₁Y₀ − J₀Y₁ = 2/(πx) and I₀K₁ + I₁K₀ = 1/x."""
    x = weft.linspace(0.2, 20, 50, dtype=weft.float64)
    s = weft.special
    plain = s.bessel_j1(x) * s.bessel_y0(x) - s.bessel_j0(x) * s.bessel_y1(x)
    np.testing.assert_allclose(values(plain), 2 / (math.pi * values(x)), rtol=1e-12)
    modified = s.i0(x) * s.modified_bessel_k1(x) + s.i1(x) * s.modified_bessel_k0(x)
    np.testing.assert_allclose(values(modified), 1 / values(x), rtol=1e-12)


def test_bessel_derivatives():
    x = weft.linspace(0.2, 10, 30, dtype=weft.float64, requires_grad=True)
    for name, slope in dict(bessel_j0=sp.jvp, bessel_y0=sp.yvp, modified_bessel_k0=sp.kvp).items():
        (g,) = weft.autograd.grad(getattr(weft.special, name)(x).sum(), x)
        np.testing.assert_allclose(values(g), slope(0, values(x)), rtol=1e-12)


@pytest.mark.parametrize("kind", "tuvw")
def test_chebyshev_on_cosines(kind):
    """The four kinds as ratios of sines and cosines of multiples of θ, x = cos θ; also shifted."""
    theta = np.linspace(0.1, 3.0, 9)[:, None]
    n = np.arange(12)
    expected = {
        "t": np.cos(n * theta),
        "u": np.sin((n + 1) * theta) / np.sin(theta),
        "v": np.cos((n + 0.5) * theta) / np.cos(theta / 2),
        "w": np.sin((n + 0.5) * theta) / np.sin(theta / 2),
    }[kind]
    x, order = weft.tensor(np.cos(theta)), weft.tensor(n)
    plain = getattr(weft.special, f"chebyshev_polynomial_{kind}")(x, order)
    shifted = getattr(weft.special, f"shifted_chebyshev_polynomial_{kind}")((x + 1) / 2, order)
    np.testing.assert_allclose(values(plain), expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(values(shifted), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("legendre_polynomial_p", sp.roots_legendre),
        ("hermite_polynomial_h", sp.roots_hermite),
        ("hermite_polynomial_he", sp.roots_hermitenorm),
        ("laguerre_polynomial_l", sp.roots_laguerre),
    ],
)
def test_polynomials_are_orthogonal(name, nodes):
    x, w = nodes(12)
    p = values(getattr(weft.special, name)(weft.tensor(x)[:, None], weft.arange(6)))
    gram = np.einsum("x,xi,xj->ij", w, p, p)
    scale = np.sqrt(np.outer(np.diag(gram), np.diag(gram)))
    np.testing.assert_allclose(gram / scale, np.eye(6), atol=1e-10)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_is_rounded_once(dtype):
    """Computed in float32: the error is that of one rounding."""
    x = weft.linspace(0.05, 0.95, 50).to(getattr(weft, dtype))
    half_step = weft.finfo(x.dtype).eps / 2
    for name, truth in dict(lgamma=sp.gammaln, digamma=sp.psi, erfinv=sp.erfinv, logit=sp.logit).items():
        found = getattr(weft, name)(x)
        assert found.dtype is x.dtype
        np.testing.assert_allclose(values(found.double()), truth(values(x.double())), rtol=half_step * 1.01, atol=1e-7)


def test_frexp_puts_numbers_together_again():
    x = weft.tensor([0.0, -3.0, 0.1, 1024.0, INF])
    result = weft.frexp(x)
    assert result._fields == ("mantissa", "exponent") and result.exponent.dtype is weft.int32
    assert weft.equal(weft.ldexp(result.mantissa, result.exponent), x)


def test_derivatives_that_nobody_has():
    a = weft.tensor([1.5], requires_grad=True)
    for call in (lambda: weft.igamma(a, weft.ones(1)), lambda: weft.special.zeta(a, weft.ones(1))):
        with pytest.raises(RuntimeError, match="derivative for 'input' is not implemented"):
            call().sum().backward()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: weft.polygamma(-1, weft.ones(2)), RuntimeError, "polygamma"),
        (lambda: weft.polygamma(1.5, weft.ones(2)), TypeError, "integer"),
        (lambda: weft.mvlgamma(weft.ones(2), 0), RuntimeError, "p has to be"),
        (lambda: weft.special.xlog1py(2, 3), TypeError, "Tensor"),
        (lambda: weft.erf(weft.ones(2, dtype=weft.complex64)), RuntimeError, "complex64"),
        (lambda: weft.igamma(weft.ones(2, dtype=weft.int64), weft.ones(2, dtype=weft.int64)), RuntimeError, "int64"),
        (lambda: weft.frexp(weft.arange(3)), RuntimeError, "floating-point"),
        (lambda: weft.polar(weft.ones(2), weft.ones(2, dtype=weft.float64)), RuntimeError, "float64"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()
