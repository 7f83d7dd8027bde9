"""Fourier transforms: complex and real, in any number of dimensions, and the short-time transform.

Three primitives carry everything: `Fft` over several dimensions in either direction, `Rfft` and
`Irfft` along one. The adjoint of a transform is the opposite one with the dual normalisation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import ArgumentError, DtypeError, IndexRangeError, OptionError, ShapeError
from ...runtime.lazy import LazyModule
from ...sizes import wrap_dim, wrap_dims
from ...tensor import Tensor, wrap
from ..core.primitive import Opaque, operation
from ..create.create import kind_of, made
from ..math.elementwise import conj
from ..shape.join import cat
from ..shape.view import PLACE
from .lines import back_from_half, lines, scale_of, to_half

__all__ = ["FFT", "IRFFT", "RFFT"]

transform = LazyModule("scipy.fft")

DUAL = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


class _Transform(Opaque, abstract=True):
    """A transform along dimensions `dim`: a batch in front shifts them by one."""

    linear = (0,)

    def batch(self, inputs, batched, size, params):
        dim = params["dim"]
        shifted = tuple(d + 1 for d in dim) if isinstance(dim, tuple) else dim + 1
        return self(*inputs, **{**params, "dim": shifted})


class Fft(_Transform):
    """X[k] = c Σⱼ x[j] e^(∓2πi jk/n) along `dim`; c by `norm`, the upper sign unless `inverse`."""

    def reference(self, x, *, dim, inverse, norm):
        if not dim:
            return x.copy()
        return (transform.ifftn if inverse else transform.fftn)(x, axes=dim, norm=norm)

    def planes(self, x, *, dim, inverse, norm):
        for d in dim:
            x = lines(x, d, 1 if inverse else -1, scale_of(x.tensors()[0].shape[d], norm, inverse))
        return x

    def vjp(self, g, y, x, *, dim, inverse, norm):
        return (FFT(g, dim=dim, inverse=not inverse, norm=DUAL[norm]),)


class Rfft(_Transform):
    """The transform of a real signal along `dim`: frequencies 0 … n/2, the others are their conjugates."""

    def reference(self, x, *, dim, norm):
        return transform.rfft(x, axis=dim, norm=norm)

    def planes(self, x, *, dim, norm):
        return to_half(x, dim, scale_of(x.shape[dim], norm, False))

    def vjp(self, g, y, x, *, dim, norm):
        size = x.shape[dim]
        return (IRFFT(g * _folding(size, g, dim, 0.5), size=size, dim=dim, norm=DUAL[norm]),)


class Irfft(_Transform):
    """The real signal of length `size` whose frequencies 0 … size/2 are given along `dim`."""

    def reference(self, x, *, size, dim, norm):
        return transform.irfft(x, size, axis=dim, norm=norm)

    def planes(self, x, *, size, dim, norm):
        return back_from_half(x, dim, size, scale_of(size, norm, True))

    def vjp(self, g, y, x, *, size, dim, norm):
        return (RFFT(g, dim=dim, norm=DUAL[norm]) * _folding(size, g, dim, 2.0),)


FFT, RFFT, IRFFT = Fft(), Rfft(), Irfft()


def _folding(size: int, like: Tensor, dim: int, inside: float) -> Tensor:
    """1 for the frequencies that stand for themselves (0 and size/2), `inside` for those that stand for two."""
    weights = np.full(size // 2 + 1, inside, like.dtype.to_real().np)
    weights[0] = 1
    if size % 2 == 0:
        weights[-1] = 1
    return wrap(weights.reshape(-1, *(1,) * (like.ndim - 1 - dim)))


# ----------------------------------------------------------------------------------------- arguments


def _norm(name: str, norm: Any) -> str:
    if norm is None:
        return "backward"
    if norm not in DUAL:
        raise OptionError(f"{name}: invalid normalization mode: {norm!r}; choose 'backward', 'forward' or 'ortho'")
    return norm


def _as_float(name: str, x: Tensor) -> Tensor:
    if not isinstance(x, Tensor):
        raise ArgumentError(f"{name}: argument 'input' must be a Tensor, got {type(x).__name__}")
    if x.dtype in dtypes.LOW_PRECISION:
        raise DtypeError(f"{name}: unsupported dtype {x.dtype}; convert it with .float() first")
    return x.to(dtypes.get_default_dtype()) if x.dtype.category < dtypes.FLOAT else x


def _as_complex(name: str, x: Tensor) -> Tensor:
    x = _as_float(name, x)
    return x if x.dtype.is_complex else x.to(x.dtype.to_complex())


def _as_real(name: str, x: Tensor) -> Tensor:
    x = _as_float(name, x)
    if x.dtype.is_complex:
        raise DtypeError(f"{name}: expects a real input tensor, but got {x.dtype}; use the complex transform, or .real")
    return x


def _resized(name: str, x: Tensor, dim: int, size: int) -> Tensor:
    """x cut or filled with zeros to `size` along `dim`."""
    if size < 1:
        raise ShapeError(
            f"{name}: invalid number of data points ({size}) specified along dimension {dim}; it must be ≥ 1"
        )
    present = x.shape[dim]
    if present > size:
        return x.narrow(dim, 0, size)
    if present < size:
        return _padded(x, dim, 0, size - present)
    return x


def _padded(x: Tensor, dim: int, before: int, after: int) -> Tensor:
    """x with zeros in front and behind along `dim`."""
    size = x.shape[dim]
    shape = (*x.shape[:dim], before + size + after, *x.shape[dim + 1 :])
    return PLACE(x, index=((None, None, None),) * dim + ((before, before + size, 1),), shape=shape)


def _one_dim(name: str, x: Tensor, dim: int) -> int:
    if x.ndim == 0:
        raise IndexRangeError(f"{name}: dimension specified as {dim} but tensor has no dimensions; unsqueeze it")
    return wrap_dim(dim, x.ndim, name)


def _many_dims(name: str, x: Tensor, s: Any, dim: Any) -> tuple[tuple[int, ...], list[int]]:
    """The transformed dimensions and their sizes (as given, or −1 for as they are)."""
    s = (s,) if isinstance(s, int) else s
    if dim is None:
        count = x.ndim if s is None else len(s)
        if count > x.ndim:
            raise ShapeError(f"{name}: got shape with {count} values but input tensor only has {x.ndim} dimensions")
        dims = tuple(range(x.ndim - count, x.ndim))
    else:
        if x.ndim == 0 and dim not in ((), []):
            raise IndexRangeError(f"{name}: dimension specified as {dim} but tensor has no dimensions; unsqueeze it")
        dims = wrap_dims(dim, x.ndim, name)
    if s is not None and len(s) != len(dims):
        raise ShapeError(
            f"{name}: when given, dim and shape arguments must have the same length, got {dims} and {tuple(s)}"
        )
    return dims, list(s) if s is not None else [-1] * len(dims)


def _fitted(name: str, x: Tensor, dims: tuple[int, ...], sizes: list[int]) -> Tensor:
    for d, size in zip(dims, sizes, strict=True):
        x = _resized(name, x, d, x.shape[d] if size == -1 else size)
    return x


# ------------------------------------------------------------------------------------ one dimension


def _line(name: str, input: Tensor, n: Any, dim: int, norm: Any, inverse: bool) -> Tensor:
    x = _as_complex(name, input)
    at = _one_dim(name, x, dim)
    x = _resized(name, x, at, x.shape[at] if n is None else n)
    return FFT(x, dim=(at,), inverse=inverse, norm=_norm(name, norm))


@operation("fft.fft", method=False, out=True)
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """X[k] = Σⱼ x[j] e^(−2πi jk/n) along one dimension, cut or zero-filled to length n."""
    return _line("fft.fft", input, n, dim, norm, False)


@operation("fft.ifft", method=False, out=True)
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """x[j] = 1/n Σₖ X[k] e^(2πi jk/n) along one dimension."""
    return _line("fft.ifft", input, n, dim, norm, True)


def _real_line(name: str, input: Tensor, n: Any, dim: int, norm: str) -> Tensor:
    x = _as_real(name, input)
    at = _one_dim(name, x, dim)
    return RFFT(_resized(name, x, at, x.shape[at] if n is None else n), dim=at, norm=norm)


def _half_line(name: str, input: Tensor, n: Any, dim: int, norm: str) -> Tensor:
    x = _as_complex(name, input)
    at = _one_dim(name, x, dim)
    size = 2 * (x.shape[at] - 1) if n is None else n
    if size < 1:
        raise ShapeError(
            f"{name}: invalid number of data points ({size}) specified along dimension {at}; it must be ≥ 1"
        )
    return IRFFT(_resized(name, x, at, size // 2 + 1), size=size, dim=at, norm=norm)


@operation("fft.rfft", method=False, out=True)
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The frequencies 0 … n/2 of a real signal."""
    return _real_line("fft.rfft", input, n, dim, _norm("fft.rfft", norm))


@operation("fft.irfft", method=False, out=True)
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real signal of length n (default 2 (m − 1)) from its m lowest frequencies."""
    return _half_line("fft.irfft", input, n, dim, _norm("fft.irfft", norm))


@operation("fft.hfft", method=False, out=True)
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real spectrum of a signal that is Hermitian in time, given by its first half."""
    return _half_line("fft.hfft", conj(_as_float("fft.hfft", input)), n, dim, DUAL[_norm("fft.hfft", norm)])


@operation("fft.ihfft", method=False, out=True)
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The first half of the Hermitian signal with a real spectrum: the inverse of hfft."""
    return conj(_real_line("fft.ihfft", input, n, dim, DUAL[_norm("fft.ihfft", norm)]))


# -------------------------------------------------------------------------------- several dimensions


def _space(name: str, input: Tensor, s: Any, dim: Any, norm: Any, inverse: bool) -> Tensor:
    x = _as_complex(name, input)
    dims, sizes = _many_dims(name, x, s, dim)
    return FFT(_fitted(name, x, dims, sizes), dim=dims, inverse=inverse, norm=_norm(name, norm))


def _real_space(name: str, input: Tensor, s: Any, dim: Any, norm: str, inverse: bool) -> Tensor:
    """Rfft along the last of the dimensions, then the complex transform along the others."""
    x = _as_real(name, input)
    dims, sizes = _many_dims(name, x, s, dim)
    if not dims:
        raise ShapeError(f"{name}: must transform at least one axis, got shape {tuple(x.shape)}")
    half = RFFT(_fitted(name, x, dims, sizes), dim=dims[-1], norm=DUAL[norm] if inverse else norm)
    if inverse:
        half = conj(half)
    return FFT(half, dim=dims[:-1], inverse=inverse, norm=norm) if len(dims) > 1 else half


def _half_space(name: str, input: Tensor, s: Any, dim: Any, norm: str, inverse: bool) -> Tensor:
    """The complex transform along all dimensions but the last, then Irfft along it."""
    x = _as_complex(name, input)
    dims, sizes = _many_dims(name, x, s, dim)
    if not dims:
        raise ShapeError(f"{name}: must transform at least one axis, got shape {tuple(x.shape)}")
    size = 2 * (x.shape[dims[-1]] - 1) if sizes[-1] == -1 else sizes[-1]
    if size < 1:
        raise ShapeError(f"{name}: invalid number of data points ({size}) along dimension {dims[-1]}; it must be ≥ 1")
    x = _fitted(name, x, dims, [*sizes[:-1], size // 2 + 1])
    if len(dims) > 1:
        x = FFT(x, dim=dims[:-1], inverse=inverse, norm=norm)
    if inverse:
        return IRFFT(x, size=size, dim=dims[-1], norm=norm)
    return IRFFT(conj(x), size=size, dim=dims[-1], norm=DUAL[norm])


_SPACES: dict[str, tuple[Callable, bool, str]] = {
    "fft": (_space, False, "The complex transform"),
    "ifft": (_space, True, "The inverse complex transform"),
    "rfft": (_real_space, False, "The transform of a real signal (half of the last dimension)"),
    "irfft": (_half_space, True, "The real signal from half of its transform"),
    "hfft": (_half_space, False, "The real transform of a signal that is Hermitian in time"),
    "ihfft": (_real_space, True, "The inverse of the transform of a Hermitian signal"),
}


def _publish_space(stem: str, transform: Callable, inverse: bool, summary: str) -> None:
    """Make fft.…2 (the last two dimensions) and fft.…n (all, or those given) of one transform."""

    def plane(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
        return transform(f"fft.{stem}2", input, s, dim, _norm(f"fft.{stem}2", norm), inverse)

    def space(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
        return transform(f"fft.{stem}n", input, s, dim, _norm(f"fft.{stem}n", norm), inverse)

    for suffix, function, where in (("2", plane, "two"), ("n", space, "several")):
        function.__name__ = function.__qualname__ = stem + suffix
        function.__doc__ = f"{summary} along {where} dimensions."
        operation(f"fft.{stem}{suffix}", method=False, out=True)(function)


for _stem, _how in _SPACES.items():
    _publish_space(_stem, *_how)


# ------------------------------------------------------------------------------ frequencies, shifting


def _frequencies(name: str, numbers: np.ndarray, n: int, d: float, options: dict[str, Any]) -> Tensor:
    dtype, device = options.pop("dtype", None), options.pop("device", None)
    grad = options.pop("requires_grad", False)
    kind = kind_of(dtype)
    if kind.category < dtypes.FLOAT:
        raise DtypeError(f"{name}: {name} requires a floating point or complex dtype, got {kind}")
    return made((numbers / (n * d)).astype(kind.np), grad, device)


@operation("fft.fftfreq", method=False, out=True, differentiable=False)
def fftfreq(n: int, d: float = 1.0, **options: Any) -> Tensor:
    """The frequencies (0, 1, …, −2, −1) / (n d) of fft."""
    numbers = np.concatenate([np.arange((n + 1) // 2), np.arange(-(n // 2), 0)]).astype(float)
    return _frequencies("fft.fftfreq", numbers, n, d, options)


@operation("fft.rfftfreq", method=False, out=True, differentiable=False)
def rfftfreq(n: int, d: float = 1.0, **options: Any) -> Tensor:
    """The frequencies (0, 1, …, n/2) / (n d) of rfft."""
    return _frequencies("fft.rfftfreq", np.arange(n // 2 + 1, dtype=float), n, d, options)


def _shifted(name: str, x: Tensor, dim: Any, sign: int) -> Tensor:
    if x.ndim == 0:
        raise ShapeError(f"{name}: a 0-d tensor has no dimension to shift; unsqueeze it")
    for d in wrap_dims(dim, x.ndim, name):
        size = x.shape[d]
        half = size // 2 if sign > 0 else (size + 1) // 2  # how many elements move from the end to the front
        if 0 < half < size:
            x = cat([x.narrow(d, size - half, half), x.narrow(d, 0, size - half)], d)
    return x


@operation("fft.fftshift", method=False)
def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Frequency 0 moved to the middle of each dimension."""
    return _shifted("fft.fftshift", input, dim, 1)


@operation("fft.ifftshift", method=False)
def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Frequency 0 moved from the middle back to the front: the inverse of fftshift."""
    return _shifted("fft.ifftshift", input, dim, -1)
