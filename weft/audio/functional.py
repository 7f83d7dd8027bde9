"""What the transforms of sounds compute; names, arguments and formulas are torchaudio's."""

from __future__ import annotations

import math

import numpy as np

import weft

from ..errors import OptionError, ShapeError
from ..nn import functional as F
from ..tensor import Tensor

__all__ = [
    "DB_to_amplitude",
    "amplitude_to_DB",
    "compute_deltas",
    "create_dct",
    "deemphasis",
    "gain",
    "inverse_spectrogram",
    "linear_fbanks",
    "mask_along_axis",
    "melscale_fbanks",
    "mu_law_decoding",
    "mu_law_encoding",
    "preemphasis",
    "resample",
    "spectrogram",
]


# ------------------------------------------------------------------------------------------- spectra


def spectrogram(
    waveform: Tensor,
    pad: int,
    window: Tensor,
    n_fft: int,
    hop_length: int,
    win_length: int,
    power: float | None,
    normalized: bool | str,
    center: bool = True,
    pad_mode: str = "reflect",
    onesided: bool = True,
) -> Tensor:
    """|STFT|^power, or the complex STFT if power is None. Shape: (…, time) → (…, n_fft/2 + 1, frames)

    pad: zeros added on both sides. normalized: True or "window" divides by √Σ w², "frame_length" by √n_fft.
    """
    by_window, by_length = _normalisation(normalized)
    if pad:
        waveform = F.pad(waveform, (pad, pad))
    shape = waveform.shape
    options = {"center": center, "pad_mode": pad_mode, "normalized": by_length, "onesided": onesided}
    rows = waveform.reshape(-1, shape[-1])
    found = weft.stft(rows, n_fft, hop_length, win_length, window, return_complex=True, **options)
    found = found.reshape(*shape[:-1], *found.shape[-2:])
    if by_window:
        found = found / window.square().sum().sqrt()
    if power is None:
        return found
    return found.abs() if power == 1 else found.abs() ** power


def inverse_spectrogram(
    spectrogram: Tensor,
    length: int | None,
    pad: int,
    window: Tensor,
    n_fft: int,
    hop_length: int,
    win_length: int,
    normalized: bool | str,
    center: bool = True,
    pad_mode: str = "reflect",
    onesided: bool = True,
) -> Tensor:
    """The sound of a complex STFT (…, freq, frames); length: how long it was. → (…, time)"""
    by_window, by_length = _normalisation(normalized)
    if not spectrogram.is_complex():
        raise OptionError(
            "inverse_spectrogram: expected a complex spectrogram (power=None); magnitudes have lost the phase"
        )
    if by_window:
        spectrogram = spectrogram * window.square().sum().sqrt()
    shape = spectrogram.shape
    options = {"center": center, "normalized": by_length, "onesided": onesided}
    wanted = None if length is None else length + 2 * pad
    rows = spectrogram.reshape(-1, *shape[-2:])
    found = weft.istft(rows, n_fft, hop_length, win_length, window, length=wanted, return_complex=False, **options)
    if length is not None and pad:
        found = found[:, pad:-pad]
    return found.reshape(*shape[:-2], found.shape[-1])


def _normalisation(normalized: bool | str) -> tuple[bool, bool]:
    """By the window, by the length of a frame."""
    if normalized not in (True, False, "window", "frame_length"):
        raise OptionError(f"normalized: expected True, False, 'window' or 'frame_length', got {normalized!r}")
    return normalized in (True, "window"), normalized == "frame_length"


def amplitude_to_DB(
    x: Tensor, multiplier: float, amin: float, db_multiplier: float, top_db: float | None = None
) -> Tensor:
    """multiplier · log₁₀ max(x, amin) − multiplier · db_multiplier, at least the largest value less top_db.

    multiplier: 10 for powers, 20 for amplitudes. The largest value is that of each item (channel, freq, frames).
    """
    found = multiplier * x.clamp(min=amin).log10() - multiplier * db_multiplier
    if top_db is None:
        return found
    shape = found.shape
    items = found.reshape(-1, shape[-3] if len(shape) > 2 else 1, *shape[-2:])
    least = items.amax((-3, -2, -1), keepdim=True) - top_db  # (B, 1, 1, 1)
    return weft.maximum(items, least).reshape(shape)


def DB_to_amplitude(x: Tensor, ref: float, power: float) -> Tensor:
    """ref · 10^(x power / 10); power: 1 for powers, ½ for amplitudes."""
    return ref * (10.0 ** (0.1 * x)) ** power


# ------------------------------------------------------------------------------------------- scales


def _to_mel(frequency: np.ndarray | float, scale: str) -> np.ndarray:
    """HTK: 2595 log₁₀(1 + f/700). Slaney: f/(200/3) up to 1000 Hz, then 27 steps for a factor of 6.4."""
    f = np.asarray(frequency, np.float64)
    if scale == "htk":
        return 2595 * np.log10(1 + f / 700)
    with np.errstate(divide="ignore"):
        return np.where(f >= 1000, 15 + np.log(np.maximum(f, 1e-9) / 1000) * 27 / math.log(6.4), f * 3 / 200)


def _to_hertz(mel: np.ndarray, scale: str) -> np.ndarray:
    if scale == "htk":
        return 700 * (10 ** (mel / 2595) - 1)
    return np.where(mel >= 15, 1000 * np.exp((mel - 15) * math.log(6.4) / 27), mel * 200 / 3)


def melscale_fbanks(
    n_freqs: int,
    f_min: float,
    f_max: float,
    n_mels: int,
    sample_rate: int,
    norm: str | None = None,
    mel_scale: str = "htk",
) -> Tensor:
    """Triangles over frequencies whose tips lie evenly on the mel scale. → (n_freqs, n_mels)

    mel_scale: "htk" or "slaney"; norm="slaney": all triangles have the same area.
    """
    if mel_scale not in ("htk", "slaney") or norm not in (None, "slaney"):
        raise OptionError(
            f"melscale_fbanks: expected mel_scale 'htk' or 'slaney', norm None or 'slaney', got {mel_scale!r}, {norm!r}"
        )
    if not 0 <= f_min < f_max:
        raise OptionError(f"melscale_fbanks: expected 0 ≤ f_min < f_max, got {f_min} and {f_max}")
    tips = _to_hertz(np.linspace(_to_mel(f_min, mel_scale), _to_mel(f_max, mel_scale), n_mels + 2), mel_scale)
    bank = _triangles(n_freqs, sample_rate, tips)
    if norm == "slaney":
        bank = bank * 2 / (tips[2:] - tips[:-2])
    return weft.from_numpy(bank.astype(np.float32))


def linear_fbanks(n_freqs: int, f_min: float, f_max: float, n_filter: int, sample_rate: int) -> Tensor:
    """Triangles over frequencies whose tips lie evenly. → (n_freqs, n_filter)"""
    bank = _triangles(n_freqs, sample_rate, np.linspace(f_min, f_max, n_filter + 2))
    return weft.from_numpy(bank.astype(np.float32))


def _triangles(n_freqs: int, sample_rate: int, tips: np.ndarray) -> np.ndarray:
    """Each from 0 at one tip over 1 at the next to 0 at the one after. → (n_freqs, tips − 2)"""
    frequencies = np.linspace(0, sample_rate // 2, n_freqs)
    away = tips - frequencies[:, None]  # (n_freqs, tips)
    steps = np.diff(tips)
    return np.maximum(0, np.minimum(-away[:, :-2] / steps[:-1], away[:, 2:] / steps[1:]))


def create_dct(n_mfcc: int, n_mels: int, norm: str | None) -> Tensor:
    """cos(π k (n + ½)/N), twice that, or with norm "ortho" orthonormal: the DCT of type 2. → (n_mels, n_mfcc)"""
    if norm not in (None, "ortho"):
        raise OptionError(f"create_dct: expected norm None or 'ortho', got {norm!r}")
    n, k = np.arange(n_mels)[:, None], np.arange(n_mfcc)
    table = np.cos(np.pi / n_mels * (n + 0.5) * k)
    table = 2 * table if norm is None else table * math.sqrt(2 / n_mels) * np.where(k == 0, math.sqrt(0.5), 1)
    return weft.from_numpy(table.astype(np.float32))


# ------------------------------------------------------------------------------------------- sounds


def resample(
    waveform: Tensor,
    orig_freq: int,
    new_freq: int,
    lowpass_filter_width: int = 6,
    rolloff: float = 0.99,
    resampling_method: str = "sinc_interp_hann",
    beta: float | None = None,
) -> Tensor:
    """At another rate: values between the samples by sinc functions under a window. Shape: (…, time) → (…, time′)

    time′ = ⌈time · new / orig⌉. lowpass_filter_width: zero crossings on each side; rolloff: the share of the lower Nyquist
    frequency that passes. resampling_method: "sinc_interp_hann", or "sinc_interp_kaiser" with `beta` (14.77 unless given).
    """
    if orig_freq <= 0 or new_freq <= 0 or int(orig_freq) != orig_freq or int(new_freq) != new_freq:
        raise OptionError(f"resample: expected whole rates above 0, got {orig_freq} and {new_freq}")
    if orig_freq == new_freq:
        return waveform
    common = math.gcd(int(orig_freq), int(new_freq))
    orig, new = int(orig_freq) // common, int(new_freq) // common
    kernels, width = _sinc_kernels(orig, new, lowpass_filter_width, rolloff, resampling_method, beta)
    shape, length = waveform.shape, waveform.shape[-1]
    rows = F.pad(waveform.reshape(-1, 1, length), (width, width + orig))
    found = F.conv1d(rows, weft.from_numpy(kernels).to(waveform.dtype), stride=orig)  # (rows, new, frames)
    found = found.transpose(1, 2).reshape(len(rows), -1)[:, : -(-new * length // orig)]
    return found.reshape(*shape[:-1], found.shape[-1])


def _sinc_kernels(
    orig: int, new: int, zeros: int, rolloff: float, method: str, beta: float | None
) -> tuple[np.ndarray, int]:
    """A filter for each of `new` places between two multiples of `orig` samples, (new, 1, taps), and its reach."""
    if method not in ("sinc_interp_hann", "sinc_interp_kaiser"):
        raise OptionError(f"resample: expected 'sinc_interp_hann' or 'sinc_interp_kaiser', got {method!r}")
    rate = min(orig, new) * rolloff
    width = math.ceil(zeros * orig / rate)
    at = np.arange(0, -new, -1)[:, None] / new + np.arange(-width, width + orig) / orig
    at = np.clip(at * rate, -zeros, zeros)
    if method == "sinc_interp_hann":
        window = np.cos(at * np.pi / zeros / 2) ** 2
    else:
        beta = 14.769656459379492 if beta is None else beta
        window = np.i0(beta * np.sqrt(1 - (at / zeros) ** 2)) / np.i0(beta)
    return (np.sinc(at) * window * rate / orig)[:, None].astype(np.float32), width


def mu_law_encoding(x: Tensor, quantization_channels: int) -> Tensor:
    """Levels 0 … Q − 1 of values in [−1, 1]: ⌊(sign(x) ln(1 + μ|x|)/ln(1 + μ) + 1) μ/2 + ½⌋, μ = Q − 1."""
    mu = quantization_channels - 1.0
    x = x if x.is_floating_point() else x.float()
    found = x.sign() * (mu * x.abs()).log1p() / math.log1p(mu)
    return ((found + 1) / 2 * mu + 0.5).to(weft.int64)


def mu_law_decoding(x_mu: Tensor, quantization_channels: int) -> Tensor:
    """Values in [−1, 1] of levels."""
    mu = quantization_channels - 1.0
    x = x_mu.float() / mu * 2 - 1
    return x.sign() * ((x.abs() * math.log1p(mu)).exp() - 1) / mu


def preemphasis(waveform: Tensor, coeff: float = 0.97) -> Tensor:
    """y_t = x_t − coeff · x_{t−1}"""
    return weft.cat([waveform[..., :1], waveform[..., 1:] - coeff * waveform[..., :-1]], -1)


def deemphasis(waveform: Tensor, coeff: float = 0.97) -> Tensor:
    """y_t = x_t + coeff · y_{t−1}: what `preemphasis` took away."""

    def step(last: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + coeff * last
        return y, y

    start = weft.zeros(waveform.shape[:-1], dtype=waveform.dtype)
    return weft.scan(step, start, waveform.movedim(-1, 0))[1].movedim(0, -1)


def gain(waveform: Tensor, gain_db: float = 1.0) -> Tensor:
    """x · 10^(gain_db/20)"""
    return waveform * 10 ** (gain_db / 20)


def compute_deltas(specgram: Tensor, win_length: int = 5, mode: str = "replicate") -> Tensor:
    """d_t = Σₙ n (c_{t+n} − c_{t−n}) / (2 Σₙ n²), n = 1 … (win_length − 1)/2, along the last dimension."""
    if win_length < 3:
        raise ShapeError(f"compute_deltas: expected win_length of 3 or more, got {win_length}")
    reach = (win_length - 1) // 2
    shape = specgram.shape
    rows = F.pad(specgram.reshape(-1, 1, shape[-1]), (reach, reach), mode=mode)
    kernel = weft.arange(-reach, reach + 1, dtype=specgram.dtype).reshape(1, 1, -1)
    return (F.conv1d(rows, kernel) / (reach * (reach + 1) * (2 * reach + 1) / 3)).reshape(shape)


def mask_along_axis(specgram: Tensor, mask_param: int, mask_value: float, axis: int, p: float = 1.0) -> Tensor:
    """The same run of at most mask_param places along `axis` overwritten in all (SpecAugment, Park et al., 2019).

    p: at most this share of the places.
    """
    length = specgram.shape[axis]
    most = min(mask_param, int(length * p))
    if most < 1:
        return specgram
    u = weft.rand(2)
    size = u[0] * most
    first = (u[1] * (length - size)).floor()
    place = weft.arange(length)
    inside = (place >= first) & (place < first + size.floor())
    shape = [1] * specgram.ndim
    shape[axis] = length
    return specgram.masked_fill(inside.reshape(shape), mask_value)
