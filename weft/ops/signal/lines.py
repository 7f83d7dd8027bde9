"""Fourier transforms in compiled code: along one dimension, with real and imaginary parts in planes of their own.

Lengths whose prime factors are small have a kernel. Others are written as a convolution with a chirp (Bluestein): with
c[j] = e^(±πi j²/n),   X[k] = c[k] Σⱼ (x[j] c[j]) c̄[k−j],   which transforms of a longer, smooth length compute.
"""

from __future__ import annotations

import numpy as np

from ...runtime.lazy import LazyModule
from ...tensor import Tensor, wrap
from ..core.planes import Planes
from ..core.primitive import Opaque
from ..shape.join import cat
from ..shape.view import PLACE

__all__ = ["back_from_half", "lines", "scale_of", "to_half"]

transform = LazyModule("scipy.fft")


class FourierLine(Opaque):
    """scale · Σⱼ x[j] e^(sign 2πi jk/n) along `dim`; inputs and results are planes, a missing imaginary one is 0.

    form: 'complex', 'real' (frequencies 0 … n/2 of a real line) or 'half' (the real line back from those).
    """

    differentiable = False

    def reference(self, real, imag=None, *, dim, n, form, sign, scale):
        if form == "half":
            return (transform.irfft(_joined(real, imag), n, axis=dim, norm="forward") * scale).astype(real.dtype)
        if form == "real":
            found = transform.rfft(real, axis=dim)
        elif sign < 0:
            found = transform.fft(_joined(real, imag), axis=dim)
        else:
            found = transform.ifft(_joined(real, imag), axis=dim, norm="forward")
        return (found.real * scale).astype(real.dtype), (found.imag * scale).astype(real.dtype)

    def shapes(self, real, imag=None, *, dim, n, form, sign, scale):
        size = n // 2 + 1 if form == "real" else n
        kind = ((*real.shape[:dim], size, *real.shape[dim + 1 :]), real.dtype)
        return kind if form == "half" else (kind, kind)

    def native(self, node):
        from ...kernels.signal.anchors import fourier_lines

        return fourier_lines(node, **node.params)


LINE = FourierLine()


def _joined(real: np.ndarray, imag: np.ndarray | None) -> np.ndarray:
    return real + 0j if imag is None else real + 1j * imag


def scale_of(n: int, norm: str, inverse: bool) -> float:
    """The factor that a normalisation puts in front of a transform of n points."""
    if norm == "ortho":
        return n**-0.5
    return 1 / n if (norm == "backward") == inverse else 1.0


# -------------------------------------------------------------------------------------- one dimension


def lines(x: Planes, dim: int, sign: int, scale: float) -> Planes:
    """The complex transform along `dim`."""
    real = x.tensors()[0]
    n = real.shape[dim]
    if n == 1:
        return x * scale
    if not _is_smooth(n):
        return _by_chirp(x, dim, sign, scale)
    inputs = x.tensors() if isinstance(x.imag, Tensor) or x.imag != 0 else (real,)
    return Planes(*LINE(*inputs, dim=dim, n=n, form="complex", sign=sign, scale=scale))


def to_half(x: Tensor, dim: int, scale: float) -> Planes:
    """The frequencies 0 … n/2 of a real line."""
    n = x.shape[dim]
    if n > 1 and _is_smooth(n):
        return Planes(*LINE(x, dim=dim, n=n, form="real", sign=-1, scale=scale))
    found = lines(Planes(x), dim, -1, scale)
    return Planes(*(p.narrow(dim, 0, n // 2 + 1) if isinstance(p, Tensor) else p for p in (found.real, found.imag)))


def back_from_half(x: Planes, dim: int, n: int, scale: float) -> Tensor:
    """The real line of n points whose frequencies 0 … n/2 are given."""
    real, imag = x.tensors()
    if n == 1:
        return real.narrow(dim, 0, 1) * scale
    if _is_smooth(n):
        return LINE(real, imag, dim=dim, n=n, form="half", sign=1, scale=scale)
    count = n - n // 2 - 1  # frequencies above n/2, the conjugates of those below in reverse
    first = imag.narrow(dim, 0, 1) * 0
    inside, above = imag.narrow(dim, 1, n // 2), imag.narrow(dim, 1, count).flip(dim)
    if n % 2 == 0:
        inside = cat([imag.narrow(dim, 1, count), first], dim)  # that of n/2 does not count
    whole = cat([real, real.narrow(dim, 1, count).flip(dim)], dim)
    return lines(Planes(whole, cat([first, inside, -above], dim)), dim, 1, scale).real


# ------------------------------------------------------------------------------------- other lengths


def _is_smooth(n: int) -> bool:
    from ...kernels.signal.fourier import factors_of

    return factors_of(n) is not None


def _by_chirp(x: Planes, dim: int, sign: int, scale: float) -> Planes:
    real = x.tensors()[0]
    n, after = real.shape[dim], real.ndim - dim - 1
    m = 1 << (2 * n - 2).bit_length()
    j = np.arange(n)
    angle = sign * np.pi * (j * j % (2 * n)) / n
    chirp, line = np.exp(1j * angle), np.zeros(m, complex)
    line[:n], line[m - n + 1 :] = chirp.conj(), chirp[:0:-1].conj()
    constant = lambda z: Planes(
        *(wrap(np.array(p, real.dtype.np).reshape(-1, *(1,) * after)) for p in (z.real, z.imag))
    )
    first = x * constant(chirp)
    padded = Planes(*(_padded(part, dim, m) for part in first.tensors()))
    product = lines(padded, dim, -1, 1.0) * constant(np.fft.fft(line))
    found = lines(product, dim, 1, scale / m)
    return Planes(found.real.narrow(dim, 0, n), found.imag.narrow(dim, 0, n)) * constant(chirp)


def _padded(x: Tensor, dim: int, size: int) -> Tensor:
    shape = (*x.shape[:dim], size, *x.shape[dim + 1 :])
    return PLACE(x, index=((None, None, None),) * dim + ((0, x.shape[dim], 1),), shape=shape)
