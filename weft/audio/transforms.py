"""Transforms of sounds as layers, which keep their windows and filters as buffers; arguments are torchaudio's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft

from .. import nn
from ..errors import OptionError
from ..tensor import Tensor
from . import functional as A

__all__ = [
    "MFCC",
    "AmplitudeToDB",
    "ComputeDeltas",
    "FrequencyMasking",
    "InverseSpectrogram",
    "MelScale",
    "MelSpectrogram",
    "MuLawDecoding",
    "MuLawEncoding",
    "Resample",
    "Spectrogram",
    "TimeMasking",
]

Window = Callable[..., Tensor]


class Spectrogram(nn.Module):
    """|STFT|^power: (…, time) → (…, n_fft/2 + 1, frames); the complex STFT if power is None."""

    def __init__(
        self,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        pad: int = 0,
        window_fn: Window = weft.hann_window,
        power: float | None = 2.0,
        normalized: bool | str = False,
        wkwargs: dict[str, Any] | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        onesided: bool = True,
    ) -> None:
        super().__init__()
        self.n_fft, self.win_length = n_fft, win_length or n_fft
        self.hop_length = hop_length or self.win_length // 2
        self.register_buffer("window", window_fn(self.win_length, **(wkwargs or {})))
        self.pad, self.power, self.normalized = pad, power, normalized
        self.center, self.pad_mode, self.onesided = center, pad_mode, onesided

    def forward(self, waveform: Tensor) -> Tensor:
        sizes = self.n_fft, self.hop_length, self.win_length
        options = self.power, self.normalized, self.center, self.pad_mode, self.onesided
        return A.spectrogram(waveform, self.pad, self.window, *sizes, *options)


class InverseSpectrogram(nn.Module):
    """The sound of a complex STFT: (…, freq, frames) → (…, time)."""

    def __init__(
        self,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        pad: int = 0,
        window_fn: Window = weft.hann_window,
        normalized: bool | str = False,
        wkwargs: dict[str, Any] | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        onesided: bool = True,
    ) -> None:
        super().__init__()
        self.n_fft, self.win_length = n_fft, win_length or n_fft
        self.hop_length = hop_length or self.win_length // 2
        self.register_buffer("window", window_fn(self.win_length, **(wkwargs or {})))
        self.pad, self.normalized = pad, normalized
        self.center, self.pad_mode, self.onesided = center, pad_mode, onesided

    def forward(self, spectrogram: Tensor, length: int | None = None) -> Tensor:
        sizes = self.n_fft, self.hop_length, self.win_length
        options = self.normalized, self.center, self.pad_mode, self.onesided
        return A.inverse_spectrogram(spectrogram, length, self.pad, self.window, *sizes, *options)


class AmplitudeToDB(nn.Module):
    """Decibels of powers (stype "power") or of amplitudes ("magnitude"); top_db: no more than this under the largest."""

    def __init__(self, stype: str = "power", top_db: float | None = None) -> None:
        super().__init__()
        if stype not in ("power", "magnitude"):
            raise OptionError(f"AmplitudeToDB: expected stype 'power' or 'magnitude', got {stype!r}")
        if top_db is not None and top_db < 0:
            raise OptionError(f"AmplitudeToDB: top_db must not be negative, got {top_db}")
        self.stype, self.top_db, self.multiplier = stype, top_db, 10.0 if stype == "power" else 20.0

    def forward(self, x: Tensor) -> Tensor:
        return A.amplitude_to_DB(x, self.multiplier, 1e-10, 0.0, self.top_db)


class MelScale(nn.Module):
    """Frequencies gathered by triangles on the mel scale: (…, n_stft, frames) → (…, n_mels, frames)."""

    def __init__(
        self,
        n_mels: int = 128,
        sample_rate: int = 16000,
        f_min: float = 0.0,
        f_max: float | None = None,
        n_stft: int = 201,
        norm: str | None = None,
        mel_scale: str = "htk",
    ) -> None:
        super().__init__()
        self.n_mels, self.sample_rate, self.f_min = n_mels, sample_rate, f_min
        self.f_max = float(sample_rate // 2) if f_max is None else f_max
        bank = A.melscale_fbanks(n_stft, f_min, self.f_max, n_mels, sample_rate, norm, mel_scale)
        self.register_buffer("fb", bank)

    def forward(self, specgram: Tensor) -> Tensor:
        return (specgram.mT @ self.fb).mT


class MelSpectrogram(nn.Module):
    """`Spectrogram`, then `MelScale`: (…, time) → (…, n_mels, frames)."""

    def __init__(
        self,
        sample_rate: int = 16000,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        f_min: float = 0.0,
        f_max: float | None = None,
        pad: int = 0,
        n_mels: int = 128,
        window_fn: Window = weft.hann_window,
        power: float = 2.0,
        normalized: bool | str = False,
        wkwargs: dict[str, Any] | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        norm: str | None = None,
        mel_scale: str = "htk",
    ) -> None:
        super().__init__()
        self.sample_rate, self.n_mels = sample_rate, n_mels
        options = window_fn, power, normalized, wkwargs, center, pad_mode
        self.spectrogram = Spectrogram(n_fft, win_length, hop_length, pad, *options)
        self.n_fft, self.hop_length = n_fft, self.spectrogram.hop_length
        self.mel_scale = MelScale(n_mels, sample_rate, f_min, f_max, n_fft // 2 + 1, norm, mel_scale)

    def forward(self, waveform: Tensor) -> Tensor:
        return self.mel_scale(self.spectrogram(waveform))


class MFCC(nn.Module):
    """The first cosine coefficients of the mel spectrum in decibels: (…, time) → (…, n_mfcc, frames).

    log_mels: ln(mel + 10⁻⁶) in place of decibels. melkwargs: those of `MelSpectrogram`.
    """

    def __init__(
        self,
        sample_rate: int = 16000,
        n_mfcc: int = 40,
        dct_type: int = 2,
        norm: str | None = "ortho",
        log_mels: bool = False,
        melkwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if dct_type != 2:
            raise OptionError(f"MFCC: expected dct_type 2, got {dct_type}")
        self.sample_rate, self.n_mfcc, self.log_mels = sample_rate, n_mfcc, log_mels
        self.MelSpectrogram = MelSpectrogram(sample_rate, **(melkwargs or {}))
        if n_mfcc > self.MelSpectrogram.n_mels:
            raise OptionError(f"MFCC: expected n_mfcc of at most {self.MelSpectrogram.n_mels}, n_mels, got {n_mfcc}")
        self.amplitude_to_DB = AmplitudeToDB("power", 80.0)
        self.register_buffer("dct_mat", A.create_dct(n_mfcc, self.MelSpectrogram.n_mels, norm))

    def forward(self, waveform: Tensor) -> Tensor:
        mel = self.MelSpectrogram(waveform)
        mel = (mel + 1e-6).log() if self.log_mels else self.amplitude_to_DB(mel)
        return (mel.mT @ self.dct_mat).mT


class Resample(nn.Module):
    """`functional.resample`: (…, time) → (…, time′)."""

    def __init__(
        self,
        orig_freq: int = 16000,
        new_freq: int = 16000,
        resampling_method: str = "sinc_interp_hann",
        lowpass_filter_width: int = 6,
        rolloff: float = 0.99,
        beta: float | None = None,
    ) -> None:
        super().__init__()
        self.orig_freq, self.new_freq = orig_freq, new_freq
        self.options = lowpass_filter_width, rolloff, resampling_method, beta

    def forward(self, waveform: Tensor) -> Tensor:
        return A.resample(waveform, self.orig_freq, self.new_freq, *self.options)


class MuLawEncoding(nn.Module):
    """`functional.mu_law_encoding`."""

    def __init__(self, quantization_channels: int = 256) -> None:
        super().__init__()
        self.quantization_channels = quantization_channels

    def forward(self, x: Tensor) -> Tensor:
        return A.mu_law_encoding(x, self.quantization_channels)


class MuLawDecoding(nn.Module):
    """`functional.mu_law_decoding`."""

    def __init__(self, quantization_channels: int = 256) -> None:
        super().__init__()
        self.quantization_channels = quantization_channels

    def forward(self, x_mu: Tensor) -> Tensor:
        return A.mu_law_decoding(x_mu, self.quantization_channels)


class ComputeDeltas(nn.Module):
    """`functional.compute_deltas`."""

    def __init__(self, win_length: int = 5, mode: str = "replicate") -> None:
        super().__init__()
        self.win_length, self.mode = win_length, mode

    def forward(self, specgram: Tensor) -> Tensor:
        return A.compute_deltas(specgram, self.win_length, self.mode)


class _Masking(nn.Module):
    """A run of places overwritten; abstract."""

    axis: int
    random_in_training = True

    def __init__(self, mask_param: int, p: float = 1.0) -> None:
        super().__init__()
        self.mask_param, self.p = mask_param, p

    def forward(self, specgram: Tensor, mask_value: float = 0.0) -> Tensor:
        return A.mask_along_axis(specgram, self.mask_param, mask_value, specgram.ndim + self.axis, self.p)


class FrequencyMasking(_Masking):
    """At most freq_mask_param neighbouring frequencies overwritten: (…, freq, frames)."""

    axis = -2

    def __init__(self, freq_mask_param: int, iid_masks: bool = False) -> None:
        super().__init__(freq_mask_param)
        if iid_masks:
            raise OptionError("FrequencyMasking: iid_masks is not supported; call it for each item")


class TimeMasking(_Masking):
    """At most time_mask_param neighbouring frames overwritten, and at most a share p of all: (…, freq, frames)."""

    axis = -1

    def __init__(self, time_mask_param: int, iid_masks: bool = False, p: float = 1.0) -> None:
        super().__init__(time_mask_param, p)
        if iid_masks:
            raise OptionError("TimeMasking: iid_masks is not supported; call it for each item")
