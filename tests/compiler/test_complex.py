"""Complex numbers and Fourier transforms in plans: native, and equal to SciPy and to eager code."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.fft

import weft
from weft import nn

from .spectral import AutoCorrelation, DiagonalStateSpace, FourierLayer, FourierMixing

EPSILON = {np.float32: 1e-6, np.float64: 3e-15}
LENGTHS = (1, 2, 3, 4, 7, 13, 17, 60, 96)


def numbers(shape: tuple[int, ...], kind: type) -> np.ndarray:
    rng = np.random.default_rng(len(shape) + shape[0])
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.result_type(kind, np.complex64))


def native(function: Callable, *args: Any) -> Any:
    """What the compiled function gives; all of it was computed by kernels."""
    compiled = weft.compile(function)
    result = compiled(*args)
    assert compiled.host_work() == {}
    return result


def check(found: Any, truth: np.ndarray, kind: type) -> None:
    assert found.dtype == np.result_type(found.dtype, kind) and found.shape == truth.shape
    assert np.abs(found - truth).max() <= EPSILON[kind] * np.abs(truth).max()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "dim"), [((3,), 0), ((5,), 1), ((19, 3), 1), ((2, 2, 20), 2)])
def test_transforms_are_scipys(shape: tuple[int, ...], dim: int, kind: type) -> None:
    """Several lengths in one function: few lines, many, and lines that lie across."""
    compare_transforms(shape, dim, kind, LENGTHS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_transforms_of_many_lengths_are_scipys(kind: type) -> None:
    for shape, dim in (((3,), 0), ((19, 3), 1)):
        compare_transforms(
            shape, dim, kind, (5, 6, 8, 9, 11, 12, 15, 16, 20, 34, 46, 101, 169, 210, 256, 720, 1031, 4096)
        )


def compare_transforms(shape: tuple[int, ...], dim: int, kind: type, lengths: tuple[int, ...]) -> None:
    dim = min(dim, len(shape) - (shape == (3,)))
    shapes = [(*shape[:dim], n, *shape[dim:]) for n in lengths] if shape != (3,) else [(n,) for n in lengths]
    arrays = [numbers(s, kind) for s in shapes]
    halves = [numbers((*s[:dim], n // 2 + 1, *s[dim + 1 :]), kind) for s, n in zip(shapes, lengths, strict=True)]

    def every(zs: list[Any], hs: list[Any]) -> list[Any]:
        return [
            [weft.fft.fft(z, dim=dim) for z in zs],
            [weft.fft.ifft(z, dim=dim) for z in zs],
            [weft.fft.rfft(z.real, dim=dim, norm="ortho") for z in zs],
            [weft.fft.irfft(h, n=n, dim=dim) for h, n in zip(hs, lengths, strict=True)],
        ]

    found = native(every, [weft.tensor(z) for z in arrays], [weft.tensor(h) for h in halves])
    for n, z, h, *results in zip(lengths, arrays, halves, *found, strict=True):
        z, h = z.astype(complex), h.astype(complex)
        truths = (
            scipy.fft.fft(z, axis=dim),
            scipy.fft.ifft(z, axis=dim),
            scipy.fft.rfft(z.real, axis=dim, norm="ortho"),
            scipy.fft.irfft(h, n, axis=dim),
        )
        for result, truth in zip(results, truths, strict=True):
            check(result.numpy(), truth, kind)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_planes_and_their_gradients(threads: int) -> None:
    """rfft2, a product, irfft2; and the gradients, which are transforms as well."""
    x, w = weft.randn(3, 12, 10, requires_grad=True), weft.randn(12, 6, dtype=weft.complex64, requires_grad=True)

    def loss(x: Any, w: Any) -> Any:
        return (weft.fft.irfft2(weft.fft.rfft2(x) * w, s=(12, 10)).tanh() ** 2).sum()

    def step(x: Any, w: Any) -> Any:
        return weft.autograd.grad(loss(x, w), (x, w))

    compiled = weft.compile(step, threads=threads)
    for found, truth in zip(compiled(x, w), step(x, w), strict=True):
        weft.testing.assert_close(found, truth, rtol=1e-4, atol=1e-5)
    assert compiled.host_work() == {}


def test_a_nan_stays_in_its_line() -> None:
    x = weft.randn(9, 24)
    x[4, 3] = float("nan")
    for function in (lambda x: weft.fft.rfft(x), lambda x: weft.fft.irfft(weft.fft.rfft(x) * 2)):
        wrong = native(function, x).isnan().any(-1)
        assert wrong.tolist() == [n == 4 for n in range(9)]


# ---------------------------------------------------------------------------------- complex arithmetic

FUNCTIONS = (
    "exp expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan sinh cosh tanh sigmoid square sgn abs angle"
)


@pytest.mark.parametrize("kind", [np.complex64, np.complex128])
def test_functions_are_numpys(kind: type) -> None:
    """Over sizes from 1e-3 to 10 in all directions; NumPy in extended precision is the truth."""
    size, angle = np.geomspace(1e-3, 10, 40)[:, None], np.linspace(-3.1, 3.1, 32)[None]
    z = (size * np.exp(1j * angle)).astype(kind)
    found = native(lambda z: [getattr(z, name)() for name in FUNCTIONS.split()], weft.tensor(z))
    z = z.astype(np.clongdouble)
    truths: dict[str, Any] = {
        "rsqrt": 1 / np.sqrt(z),
        "sigmoid": 1 / (1 + np.exp(-z)),
        "sgn": z / np.abs(z),
    }
    epsilon = np.finfo(kind).eps
    for name, y in zip(FUNCTIONS.split(), found, strict=True):
        truth = truths[name] if name in truths else getattr(np, name)(z)
        error = np.abs(y.numpy() - truth) / np.abs(truth)
        assert error.max() < 40 * epsilon, name


def test_arithmetic_is_eager() -> None:
    x, y = weft.randn(7, 5, dtype=weft.complex64), weft.randn(5, dtype=weft.complex64)

    def several(x: Any, y: Any) -> list[Any]:
        return [
            *(x + y, x - 1j, x * y, 2 * x, x / y, 3 / x, x / 2j, -x, x.conj(), x**2, x**-3, x**y, x**0.5),
            *(x == y, x != x.conj(), x.real * x.imag, weft.where(x.real > 0, x, y), x.sum(0), x.mean(), x.cumsum(1)),
            *(x.mT @ x, weft.einsum("ij,j->i", x, y), x.reshape(5, 7).flip(0), weft.cat([x, x[:2]]), x[:, [0, 3]]),
            *(weft.complex(x.real, x.imag + 1), weft.view_as_real(x), weft.polar(x.abs(), x.angle()), x.norm(dim=1)),
        ]

    for found, truth in zip(native(several, x, y), several(x, y), strict=True):
        weft.testing.assert_close(found, truth, rtol=1e-5, atol=1e-5)


def test_quotients_do_not_overflow() -> None:
    """|z|² would not be a number any more; SciPy's and NumPy's quotients are."""
    z = weft.tensor([1e30 + 1e30j, 1e-30 - 2e-30j, 3e38 + 0j], dtype=weft.complex64)
    found = native(lambda z: [z / z, 1 / (z * 1e-3), z.abs()], z)
    truth = z.numpy().astype(complex)
    for y, t in zip(found, (np.ones(3), 1 / (truth * 1e-3), np.abs(truth)), strict=True):
        np.testing.assert_allclose(y.numpy(), t, rtol=1e-5)


def test_views_of_the_parts_are_written_and_read() -> None:
    """Writes through .real, .imag and view_as_real show in the complex tensor, and the other way round."""

    def write(z: Any, x: Any) -> Any:
        z.real.mul_(2)
        weft.view_as_real(z)[..., 1] += 1
        z[0] = 5j
        w = weft.view_as_complex(x)
        w *= 1j
        return z + 0, z.imag + 0, x + 0, w + 0

    z, x = weft.randn(4, 3, dtype=weft.complex64), weft.randn(4, 2)
    copies = z.clone(), x.clone()
    compiled = weft.compile(write)
    for found, truth in zip(compiled(z, x), write(*copies), strict=True):
        weft.testing.assert_close(found, truth)
    weft.testing.assert_close(z, copies[0])
    weft.testing.assert_close(x, copies[1])
    assert compiled.host_work() == {}


# ------------------------------------------------------------------------------------------- programs

PROGRAMS: dict[str, Callable[[], tuple[nn.Module, Any]]] = {
    "state space": lambda: (DiagonalStateSpace(6), weft.randn(3, 6, 48)),
    "fourier operator": lambda: (FourierLayer(4, 3, 3), weft.randn(2, 4, 12, 16)),
    "autocorrelation": lambda: (AutoCorrelation(8, 2), weft.randn(3, 24, 8)),
    "fourier mixing": lambda: (FourierMixing(8), weft.randn(3, 12, 8)),
}


def trained(name: str, compiles: bool) -> tuple[list[float], list[Any], Any]:
    """Losses of three steps, the weights they lead to, and what was called."""
    weft.manual_seed(1)
    model, x = PROGRAMS[name]()
    optimizer = weft.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step(x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    run = weft.compile(step) if compiles else step
    return [run(x).item() for _ in range(3)], list(model.parameters()), run


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_train_natively(name: str) -> None:
    losses, weights, _ = trained(name, False)
    found, others, run = trained(name, True)
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    for w, v in zip(weights, others, strict=True):
        weft.testing.assert_close(v.detach(), w.detach(), rtol=1e-4, atol=1e-6)
    assert run.host_work() == {}


def test_adam_updates_complex_weights() -> None:
    """Adam takes the parts of a complex weight as real numbers of their own."""

    def run(compiles: bool) -> Any:
        w = weft.nn.Parameter(weft.tensor([1 + 2j, -1j, 0.5], dtype=weft.complex64))
        optimizer = weft.optim.Adam([w], lr=0.1)

        def step(x: Any) -> None:
            optimizer.zero_grad()
            ((w * x - 1).abs() ** 2).sum().backward()
            optimizer.step()

        call = weft.compile(step) if compiles else step
        for _ in range(3):
            call(weft.tensor([1.0, 2.0, 3.0]))
        assert not compiles or call.host_work() == {}
        return w.detach()

    weft.testing.assert_close(run(True), run(False), rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------------------------ what is left is named


def test_explain_names_what_python_computes() -> None:
    compiled = weft.compile(lambda x: weft.linalg.eigvalsh(x @ x.mT) + weft.linalg.eigvalsh(x + x.mT))
    x = weft.randn(3, 3)
    compiled(x)
    assert compiled.host_work() == {"eigvalsh": 2}
    assert str(compiled.explain(x)).endswith("computed by Python at every call: 2 × eigvalsh")


def test_the_trainer_names_what_python_computes() -> None:
    from weft.train.running.step import Steps

    steps = Steps(lambda x: weft.linalg.eigvalsh(x + x.mT).sum(), "the training step", True)
    with pytest.warns(UserWarning, match="NumPy computes between its kernels at every call: eigvalsh"):
        steps(weft.randn(3, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps(weft.randn(4, 4))  # said once
