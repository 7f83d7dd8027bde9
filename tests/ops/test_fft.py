"""Fourier transforms beyond the tables: definitions, theorems, precision, and the short-time transform's inverse."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft.errors import DtypeError, IndexRangeError, OptionError, ShapeError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 13])
def test_fft_is_its_definition(n):
    x = RNG.standard_normal(n) + 1j * RNG.standard_normal(n)
    k = np.arange(n)
    matrix = np.exp(-2j * np.pi * np.outer(k, k) / n)
    np.testing.assert_allclose(weft.fft.fft(weft.tensor(x)).numpy(), matrix @ x, atol=1e-12)
    np.testing.assert_allclose(weft.fft.ifft(weft.tensor(x)).numpy(), matrix.conj() @ x / n, atol=1e-12)


@pytest.mark.parametrize("n", [7, 8])
def test_parseval_and_its_gradient(n):
    """Σ |X|² = Σ |x|² with the unitary norm, so the gradient of the left side is 2 x."""
    x = weft.tensor(RNG.standard_normal((3, n))).requires_grad_()
    power = (weft.fft.fft(x, norm="ortho").abs() ** 2).sum()
    power.backward()
    np.testing.assert_allclose(power.item(), (x.detach().numpy() ** 2).sum())
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy(), rtol=1e-10)


@pytest.mark.parametrize("n", [7, 8])
def test_convolution_theorem(n):
    x, y = RNG.standard_normal((2, n))
    product = weft.fft.irfft(weft.fft.rfft(weft.tensor(x)) * weft.fft.rfft(weft.tensor(y)), n=n)
    circular = [sum(x[j] * y[(k - j) % n] for j in range(n)) for k in range(n)]
    np.testing.assert_allclose(product.numpy(), circular, atol=1e-12)


def test_single_precision_stays_single():
    x = weft.ones(4)
    assert weft.fft.fft(x).dtype is weft.complex64
    assert weft.fft.irfft(weft.fft.rfft(x)).dtype is weft.float32
    assert weft.fft.fft(x.double()).dtype is weft.complex128
    assert weft.fft.fft(x.int()).dtype is weft.complex64


def test_second_derivatives_of_real_transforms():
    grads = []
    for library in (weft, torch):
        x = library.tensor(np.linspace(-1, 2, 10)).requires_grad_()
        loss = (library.fft.irfft(library.fft.rfft(x) ** 3, n=9) ** 2).sum()
        (first,) = library.autograd.grad(loss, x, create_graph=True)
        (second,) = library.autograd.grad((first**2).sum(), x)
        grads.append(second.numpy())
    np.testing.assert_allclose(*grads, rtol=1e-9)


def test_shift_of_frequencies_sorts_them():
    for n in (4, 5):
        f = weft.fft.fftfreq(n, d=0.5)
        shifted = weft.fft.fftshift(f)
        assert shifted.tolist() == sorted(f.tolist())
        assert weft.fft.ifftshift(shifted).tolist() == f.tolist()


@pytest.mark.parametrize(
    "options", [{}, {"normalized": True}, {"onesided": False}, {"hop_length": 3, "win_length": 12}]
)
def test_istft_recovers_the_signal(options):
    x = weft.tensor(RNG.standard_normal((2, 100)))
    window = weft.tensor(np.hanning(options.get("win_length", 16) + 2)[1:-1])
    spectrum = weft.stft(x, 16, window=window, return_complex=True, **options)
    found = weft.istft(spectrum, 16, window=window, length=100, **options)
    edge = 100 if "hop_length" not in options else 97  # what the last window covers
    np.testing.assert_allclose(found.numpy()[:, :edge], x.numpy()[:, :edge], atol=1e-10)


@pytest.mark.parametrize("pad_mode", ["reflect", "constant", "replicate", "circular"])
def test_stft_padding(pad_mode):
    x = RNG.standard_normal((2, 30)).astype(np.float32)
    ours = weft.stft(weft.tensor(x), 8, pad_mode=pad_mode, return_complex=True)
    theirs = torch.stft(torch.tensor(x), 8, window=torch.ones(8), pad_mode=pad_mode, return_complex=True)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-5)


BAD_CALLS = [
    (lambda: weft.fft.fft(weft.tensor(1.0)), IndexRangeError, ("fft.fft", "no dimensions")),
    (lambda: weft.fft.fft(weft.ones(3), n=0), ShapeError, ("fft.fft", "(0)", "≥ 1")),
    (lambda: weft.fft.fft(weft.ones(3), norm="unitary"), OptionError, ("fft.fft", "'unitary'", "'ortho'")),
    (lambda: weft.fft.fft(weft.ones(3).half()), DtypeError, ("fft.fft", "float16", ".float()")),
    (lambda: weft.fft.rfft(weft.ones(3) * 1j), DtypeError, ("fft.rfft", "complex64", "real")),
    (lambda: weft.fft.fftn(weft.ones(3), s=(2, 2)), ShapeError, ("fft.fftn", "2", "1")),
    (lambda: weft.fft.fft2(weft.ones(3, 3), dim=(0, -2)), ShapeError, ("fft.fft2", "multiple times")),
    (lambda: weft.stft(weft.ones(20), 8), OptionError, ("stft", "return_complex")),
    (lambda: weft.stft(weft.ones(3), 8, return_complex=True), ShapeError, ("stft", "3", "center=False")),
    (lambda: weft.stft(weft.ones(20), 8, window=weft.ones(5), return_complex=True), ShapeError, ("stft", "(5,)")),
    (
        lambda: weft.istft(weft.ones(5, 4) * 1j, 8, hop_length=8, window=weft.zeros(8)),
        ShapeError,
        ("istft", "overlap", "hop_length"),
    ),
]


@pytest.mark.parametrize("number", range(len(BAD_CALLS)))
def test_errors_name_operation_values_and_remedy(number):
    call, kind, parts = BAD_CALLS[number]
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert text.startswith(parts[0]), text
    for part in parts[1:]:
        assert part in text, text
