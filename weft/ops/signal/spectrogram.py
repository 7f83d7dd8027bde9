"""The short-time Fourier transform: windows of a signal, each transformed, and the way back."""

from __future__ import annotations

import numpy as np

from ... import dtypes
from ...errors import ArgumentError, DtypeError, OptionError, ShapeError
from ...tape.interpreter import interpreter_of
from ...tensor import Tensor, wrap
from ..core.primitive import operation
from ..linalg.matrix import EXACT
from ..math.elementwise import where
from ..shape.join import cat
from ..shape.view import FOLD_LINE, SLICE, UNFOLD, VIEW_AS_COMPLEX, VIEW_AS_REAL
from .fft import FFT, IRFFT, RFFT, _padded


def _framing(name: str, n_fft: int, hop_length: int | None, win_length: int | None) -> tuple[int, int]:
    """Hop and window length with their defaults, checked."""
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    if hop <= 0:
        raise ShapeError(f"{name}: expected hop_length > 0, but got {hop}")
    if not 0 < length <= n_fft:
        raise ShapeError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={length}, n_fft={n_fft}")
    return hop, length


def _window(name: str, window: Tensor | None, length: int, n_fft: int, kind: dtypes.dtype) -> Tensor:
    """The window (ones by default) with zeros on both sides up to n_fft."""
    if window is None:
        window = wrap(np.ones(length, kind.np))
    if window.ndim != 1 or window.shape[0] != length:
        raise ShapeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={length}, but got shape "
            f"{tuple(window.shape)}"
        )
    if length < n_fft:
        left = (n_fft - length) // 2
        window = _padded(window, 0, left, n_fft - length - left)
    return window


def _mirrored(x: Tensor, start: int, stop: int) -> Tensor:
    """Positions start … stop − 1 of the last dimension in reverse order."""
    rows = ((None, None, None),) * (x.ndim - 1)
    return SLICE(x.narrow(-1, start, stop - start), index=(*rows, (None, None, -1)))


def _extended(x: Tensor, amount: int, pad_mode: str) -> Tensor:
    """The signal with `amount` more samples at both ends."""
    size = x.shape[-1]
    if pad_mode == "constant":
        return _padded(x, x.ndim - 1, amount, amount)
    if pad_mode == "reflect":
        if amount >= size:
            raise ShapeError(
                f"stft: reflect padding of {amount} (n_fft/2) must be less than the signal length {size}; use a longer "
                "signal, a smaller n_fft or center=False"
            )
        return cat([_mirrored(x, 1, amount + 1), x, _mirrored(x, size - amount - 1, size - 1)], -1)
    if pad_mode == "replicate":
        ends = (x.narrow(-1, 0, 1), x.narrow(-1, size - 1, 1))
        first, last = (e.expand(*x.shape[:-1], amount) for e in ends)
        return cat([first, x, last], -1)
    if pad_mode == "circular":
        return cat([x.narrow(-1, size - amount, amount), x, x.narrow(-1, 0, amount)], -1)
    raise OptionError(
        f"stft: pad_mode {pad_mode!r} is not known; choose 'reflect', 'constant', 'replicate' or 'circular'"
    )


@operation()
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """X[…, ω, m] = Σₖ window[k] · input[…, m · hop + k] · e^(−2πi ωk/n): (…, L) → (…, frequencies, frames)."""
    if not isinstance(input, Tensor):
        raise ArgumentError(f"stft: argument 'input' must be a Tensor, got {type(input).__name__}")
    if input.dtype not in EXACT:
        raise DtypeError(
            f"stft: expected a tensor of floating point or complex values, got {input.dtype}; use .float()"
        )
    if input.ndim not in (1, 2):
        raise ShapeError(f"stft: expected a 1D or 2D tensor, but got shape {tuple(input.shape)}")
    complex_signal = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not complex_signal:
            raise OptionError(
                "stft: requires the return_complex parameter be given for real inputs; pass return_complex=True"
            )
        return_complex = True
    if onesided is None:
        onesided = not complex_signal
    if onesided and complex_signal:
        raise OptionError("stft: cannot have onesided output if window or input is complex; pass onesided=False")
    hop, length = _framing("stft", n_fft, hop_length, win_length)
    frames_window = _window("stft", window, length, n_fft, input.dtype.to_real())
    signal = _extended(input, n_fft // 2, pad_mode) if center else input
    if not 0 < n_fft <= signal.shape[-1]:
        raise ShapeError(f"stft: expected 0 < n_fft <= {signal.shape[-1]} (the signal length), but got n_fft={n_fft}")
    frames = UNFOLD(signal, dim=signal.ndim - 1, size=n_fft, step=hop) * frames_window  # (…, frames, n_fft)
    norm = "ortho" if normalized else "backward"
    if onesided:
        spectrum = RFFT(frames, dim=frames.ndim - 1, norm=norm)
    else:
        frames = frames if frames.is_complex() else frames.to(frames.dtype.to_complex())
        spectrum = FFT(frames, dim=(frames.ndim - 1,), inverse=False, norm=norm)
    spectrum = spectrum.transpose(-2, -1)
    return spectrum if return_complex else VIEW_AS_REAL(spectrum)


@operation()
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose windows have the given transforms, by overlap-add divided by Σ window²."""
    spectrum = _checked_spectrum(input, n_fft, onesided, return_complex)
    hop, win_length = _framing("istft", n_fft, hop_length, win_length)
    if hop > win_length:
        raise ShapeError(f"istft: expected 0 < hop_length <= win_length, got {hop} and {win_length}")
    if window is not None and window.is_complex() and not return_complex:
        raise DtypeError("istft: complex windows are incompatible with return_complex=False; pass return_complex=True")
    weights = _window("istft", window, win_length, n_fft, spectrum.dtype.to_real())
    spectrum = spectrum.transpose(-2, -1)  # (…, frames, frequencies)
    norm = "ortho" if normalized else "backward"
    if return_complex:
        frames = FFT(spectrum, dim=(spectrum.ndim - 1,), inverse=True, norm=norm)
    else:  # a real signal needs only the lower half, also of a two-sided spectrum
        half = spectrum.narrow(-1, 0, n_fft // 2 + 1)
        frames = IRFFT(half, size=n_fft, dim=half.ndim - 1, norm=norm)
    return _overlapped(frames, weights, n_fft, hop, center, length)


def _checked_spectrum(input: Tensor, n_fft: int, onesided: bool | None, return_complex: bool) -> Tensor:
    if not isinstance(input, Tensor):
        raise ArgumentError(f"istft: argument 'input' must be a Tensor, got {type(input).__name__}")
    spectrum = input if input.is_complex() else _joined_parts(input)
    if spectrum.numel() == 0:
        raise ShapeError(f"istft: input tensor cannot be empty, got shape {tuple(input.shape)}")
    if spectrum.ndim not in (2, 3):
        raise ShapeError(f"istft: expected a complex tensor with 2 or 3 dimensions, got shape {tuple(input.shape)}")
    rows = spectrum.shape[-2]
    one_sided = rows != n_fft if onesided is None else onesided
    if rows != (n_fft // 2 + 1 if one_sided else n_fft):
        raise ShapeError(
            f"istft: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft / 2 + 1 "
            f"(onesided) or n_fft, but got {rows} for n_fft={n_fft}, onesided={onesided}"
        )
    if return_complex and one_sided:
        raise OptionError("istft: cannot have onesided output if window or input is complex; pass onesided=False")
    return spectrum


def _joined_parts(input: Tensor) -> Tensor:
    if input.ndim == 0 or input.shape[-1] != 2 or input.dtype.category < dtypes.FLOAT:
        raise DtypeError(
            f"istft: requires a complex-valued input tensor matching the output from stft with return_complex=True, "
            f"got {input.dtype} of shape {tuple(input.shape)}"
        )
    return VIEW_AS_COMPLEX(input.contiguous())


def _overlapped(frames: Tensor, weights: Tensor, n_fft: int, hop: int, center: bool, length: int | None) -> Tensor:
    """Windowed frames added up and divided by the added squares of the window, cut to the signal."""
    count = frames.shape[-2]
    total = n_fft + hop * (count - 1)
    at = frames.ndim - 2
    signal = FOLD_LINE(frames * weights, dim=at, size=n_fft, step=hop, length=total)
    squares = (weights * weights).expand(count, n_fft)
    envelope = FOLD_LINE(squares, dim=0, size=n_fft, step=hop, length=total)
    start = n_fft // 2 if center else 0
    stop = total - (n_fft // 2 if center and length is None else 0)
    if length is not None:
        stop = min(start + length, total)
    signal, envelope = signal.narrow(-1, start, stop - start), envelope.narrow(0, start, stop - start)
    _check_envelope(envelope)
    signal = signal / where(envelope.abs() < 1e-11, 1, envelope)
    if length is not None and length > stop - start:
        signal = _padded(signal, signal.ndim - 1, 0, length - (stop - start))
    return signal


def _check_envelope(envelope: Tensor) -> None:
    """Where all windows are 0 the signal is lost (not asked under a transform, which has no values)."""
    if interpreter_of(envelope) is None and bool((envelope.detach().abs() < 1e-11).any()):
        raise ShapeError(
            "istft: window overlap add min is 0: some samples are covered by no window; use a smaller hop_length or a "
            "window without zeros at its ends (or center=True)"
        )
