"""Sounds beside SciPy, PyTorch's stft, the standard library's wave, and closed forms."""

from __future__ import annotations

import io
import struct
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.fft
import scipy.io.wavfile
import scipy.signal

import weft
from weft import audio
from weft.audio import functional as A
from weft.audio import transforms as T
from weft.io import FileFormatError

RANDOM = np.random.default_rng(0)
SOUND = RANDOM.normal(size=(2, 900)).astype(np.float32)


@pytest.mark.parametrize("power", [None, 1.0, 2.0, 0.5])
@pytest.mark.parametrize("normalized", [False, "window", "frame_length"])
def test_spectrograms_are_those_of_torchs_stft(power: float | None, normalized: bool | str) -> None:
    torch = pytest.importorskip("torch")
    window = torch.hann_window(100)
    theirs = torch.stft(
        torch.tensor(SOUND), 128, 40, 100, window, normalized=normalized == "frame_length", return_complex=True
    )
    if normalized == "window":
        theirs = theirs / window.square().sum().sqrt()
    expected = (theirs if power is None else theirs.abs() ** power).numpy()
    layer = T.Spectrogram(128, 100, 40, power=power, normalized=normalized)
    found = layer(weft.tensor(SOUND))
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-4, rtol=1e-4)
    if power is None:
        back = T.InverseSpectrogram(128, 100, 40, normalized=normalized)(found, 900)
        np.testing.assert_allclose(back.numpy(), SOUND, atol=1e-5)


def test_a_sine_is_one_line() -> None:
    """A sine of whole periods a frame has N²/16 · … all its power at its frequency, with half of the amplitude at its neighbours."""
    time = np.arange(2048)
    x = np.sin(2 * np.pi * 8 * time / 64).astype(np.float32)
    found = T.Spectrogram(64, hop_length=32, power=1.0, center=False)(weft.tensor(x)).numpy()
    np.testing.assert_allclose(found[8], 16, rtol=1e-4)  # N/4 under a Hann window
    np.testing.assert_allclose(found[7], 8, rtol=1e-4)
    assert np.abs(np.delete(found, [7, 8, 9], 0)).max() < 1e-3


def test_decibels() -> None:
    x = weft.tensor([[1.0, 10.0, 100.0, 1e-20]])
    # not every processor's log10 is exact at powers of ten
    same = lambda found, wanted: np.testing.assert_allclose(found.numpy(), wanted, rtol=3e-7, atol=4e-6)
    same(A.amplitude_to_DB(x, 10.0, 1e-10, 0.0), [[0, 10, 20, -100]])
    same(A.amplitude_to_DB(x, 20.0, 1e-10, 1.0, 30.0), [[-10, 0, 20, -10]])
    np.testing.assert_allclose(A.DB_to_amplitude(weft.tensor([20.0]), 2.0, 0.5).numpy(), [20.0], rtol=1e-6)
    two = weft.tensor(np.array([[[[1.0, 1e-9]]], [[[100.0, 1e-9]]]], np.float32))  # each item has its own largest value
    same(A.amplitude_to_DB(two, 10.0, 1e-10, 0.0, 30.0)[:, 0, 0, 1], [-30, -10])


def test_mel_scales_are_those_of_their_definitions() -> None:
    """HTK has 1000 mel at 1000 Hz (to 0.02 %), Slaney's 15 there; triangles of a bank sum to 1 between tips."""
    assert abs(A._to_mel(1000.0, "htk") - 1000) < 0.02
    assert A._to_mel(1000.0, "slaney") == 15 and abs(A._to_mel(6400.0, "slaney") - 42) < 1e-9
    for scale in ("htk", "slaney"):
        f = np.linspace(0, 8000, 50)
        np.testing.assert_allclose(A._to_hertz(A._to_mel(f, scale), scale), f, atol=1e-6)
        bank = A.melscale_fbanks(513, 0.0, 8000.0, 20, 16000, None, scale).numpy()
        assert bank.shape == (513, 20) and bank.min() >= 0 and bank.max() <= 1
        inner = (bank.argmax(0)[0], bank.argmax(0)[-1])
        np.testing.assert_allclose(bank[inner[0] + 1 : inner[1]].sum(1), 1, atol=1e-5)
    area = A.melscale_fbanks(4001, 0.0, 8000.0, 20, 16000, "slaney", "slaney").numpy().sum(0) * 2.0
    np.testing.assert_allclose(area, 1, rtol=2e-3)
    flat = A.linear_fbanks(101, 0.0, 8000.0, 9, 16000).numpy()
    np.testing.assert_allclose(flat[10:91].sum(1), 1, atol=1e-6)


@pytest.mark.parametrize("norm", [None, "ortho"])
def test_coefficients_are_scipys_cosines(norm: str | None) -> None:
    x = RANDOM.normal(size=(5, 16)).astype(np.float32)
    expected = scipy.fft.dct(x, 2, norm=norm, axis=-1)[:, :7]
    np.testing.assert_allclose(x @ A.create_dct(7, 16, norm).numpy(), expected, atol=1e-5)


def test_mfcc_is_its_parts() -> None:
    options = {"n_fft": 128, "hop_length": 64, "n_mels": 20}
    mel = T.MelSpectrogram(8000, **options)(weft.tensor(SOUND))
    levels = 10 * np.log10(np.maximum(mel.numpy(), 1e-10))
    levels = np.maximum(levels, levels.max() - 80)  # both channels are one item
    expected = scipy.fft.dct(levels, 2, norm="ortho", axis=1)[:, :12]
    layer = T.MFCC(8000, 12, melkwargs=options)
    np.testing.assert_allclose(layer(weft.tensor(SOUND)).numpy(), expected, atol=1e-3)
    logs = T.MFCC(8000, 12, log_mels=True, melkwargs=options)(weft.tensor(SOUND)).numpy()
    np.testing.assert_allclose(
        logs, scipy.fft.dct(np.log(mel.numpy() + 1e-6), 2, norm="ortho", axis=1)[:, :12], atol=1e-3
    )
    assert set(layer.state_dict()) == {
        *("dct_mat", "MelSpectrogram.spectrogram.window", "MelSpectrogram.mel_scale.fb"),
    }  # fmt: skip


@pytest.mark.parametrize(("old", "new"), [(8000, 16000), (16000, 8000), (44100, 16000), (3, 2), (1, 5)])
@pytest.mark.parametrize("method", ["sinc_interp_hann", "sinc_interp_kaiser"])
def test_a_slow_sine_stays_a_sine(old: int, new: int, method: str) -> None:
    frequency = 0.05 * min(old, new)
    x = np.sin(2 * np.pi * frequency * np.arange(2000) / old).astype(np.float32)
    found = A.resample(weft.tensor(x), old, new, 32, resampling_method=method).numpy()
    assert len(found) == -(-2000 * new // old)
    expected = np.sin(2 * np.pi * frequency * np.arange(len(found)) / new)
    edge = len(found) // 5
    np.testing.assert_allclose(found[edge:-edge], expected[edge:-edge], atol=2e-3)


def test_resampling_is_the_sum_that_it_says() -> None:
    """y_j = Σ_i x_i r sinc(r τ) cos²(π r τ / 12), τ = i/orig − j/new in units of the lower rate, |r τ| < 6."""
    x, (old, new) = SOUND[:, :50], (5, 3)
    rate = min(old, new) * 0.99
    expected = np.zeros((2, 30))
    for j in range(30):
        at = (np.arange(50) / old - j / new) * rate
        weights = np.where(np.abs(at) < 6, np.sinc(at) * np.cos(np.pi * at / 12) ** 2 * rate / old, 0)
        expected[:, j] = x @ weights
    np.testing.assert_allclose(A.resample(weft.tensor(x), old, new).numpy(), expected, atol=1e-5)
    assert A.resample(weft.tensor(x), 5, 5) is not None
    np.testing.assert_array_equal(T.Resample(10, 6)(weft.tensor(x)), A.resample(weft.tensor(x), 5, 3))


def test_mu_law_emphasis_deltas_and_gain() -> None:
    x = weft.linspace(-1, 1, 41)
    levels = A.mu_law_encoding(x, 256)
    assert levels[0] == 0 and levels[20] == 128 and levels[-1] == 255
    # steps grow with the value: an error of at most half of the largest step near 1
    assert (A.mu_law_decoding(levels, 256) - x).abs().max() < 0.022
    expected = scipy.signal.lfilter([1, -0.9], [1], SOUND)
    np.testing.assert_allclose(A.preemphasis(weft.tensor(SOUND), 0.9).numpy(), expected, atol=1e-5)
    np.testing.assert_allclose(
        A.deemphasis(weft.tensor(SOUND[:, :60]), 0.9).numpy(),
        scipy.signal.lfilter([1], [1, -0.9], SOUND[:, :60]),
        atol=1e-4,
    )
    line = weft.arange(20.0).reshape(1, 1, 20) * 3
    assert A.compute_deltas(line)[0, 0, 2:-2].tolist() == [3.0] * 16  # the slope of a line
    np.testing.assert_allclose(A.gain(x, 20.0).numpy(), 10 * x.numpy(), rtol=1e-6)


def test_masks_cover_one_run() -> None:
    weft.manual_seed(0)
    spectrum = weft.ones(2, 20, 30)
    for _ in range(20):
        found = T.TimeMasking(10)(spectrum).numpy()
        hidden = np.flatnonzero(found[0, 0] == 0)
        assert len(hidden) < 10 and (not len(hidden) or len(hidden) == hidden[-1] - hidden[0] + 1)
        assert (found == found[0, :1]).all()
        rows = T.FrequencyMasking(5)(spectrum, 7.0).numpy()
        assert ((rows == 7).all((0, 2)) | (rows == 1).all((0, 2))).all() and (rows == 7).all((0, 2)).sum() < 5


def test_gradients_flow_through_spectra() -> None:
    from weft.autograd import gradcheck

    x = weft.tensor(SOUND[:1, :120].astype(np.float64), requires_grad=True)
    window = weft.hann_window(32, dtype=weft.float64)
    assert gradcheck(lambda x: A.spectrogram(x, 0, window, 32, 16, 32, 2.0, False)[:, ::4], (x,))
    assert gradcheck(lambda x: A.resample(x[:, :12], 3, 2), (x,))


# ------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("bits", [8, 16, 24, 32])
def test_whole_numbers_of_the_standard_library(bits: int, tmp_path: Path) -> None:
    width = bits // 8
    values = RANDOM.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (50, 2))
    raw = b"".join(
        int(v + (128 if bits == 8 else 0)).to_bytes(width, "little", signed=bits > 8) for v in values.reshape(-1)
    )
    with wave.open(str(tmp_path / "x.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(width)
        file.setframerate(8000)
        file.writeframes(raw)
    found, rate = audio.load(tmp_path / "x.wav")
    assert rate == 8000 and found.dtype is weft.float32
    np.testing.assert_allclose(found.numpy(), values.T / 2 ** (bits - 1), atol=1e-7)
    part, _ = audio.load(tmp_path / "x.wav", frame_offset=10, num_frames=7, channels_first=False)
    np.testing.assert_array_equal(part.numpy(), found.numpy()[:, 10:17].T)
    about = audio.info(tmp_path / "x.wav")
    assert (about.sample_rate, about.num_frames, about.num_channels, about.bits_per_sample) == (8000, 50, 2, bits)


def test_scipy_reads_what_is_written(tmp_path: Path) -> None:
    x = np.clip(SOUND / 4, -1, 1)
    audio.save(tmp_path / "f.wav", weft.tensor(x), 16000)
    rate, values = scipy.io.wavfile.read(tmp_path / "f.wav")
    assert rate == 16000 and values.dtype == np.float32
    np.testing.assert_array_equal(values.T, x)
    np.testing.assert_array_equal(audio.load(tmp_path / "f.wav")[0].numpy(), x)
    audio.save(tmp_path / "i.wav", weft.tensor(x), 16000, encoding="PCM_S", bits_per_sample=16)
    _, values = scipy.io.wavfile.read(tmp_path / "i.wav")
    assert values.dtype == np.int16
    np.testing.assert_array_equal(values.T, np.clip(np.rint(x.astype(float) * 32768), -32768, 32767))
    for kind in (np.float64, np.int32):
        scipy.io.wavfile.write(tmp_path / "s.wav", 8000, (x.T * (2**30 if kind == np.int32 else 1)).astype(kind))
        np.testing.assert_allclose(
            audio.load(tmp_path / "s.wav")[0].numpy(), x / (2 if kind == np.int32 else 1), atol=1e-6
        )


def sound_file() -> bytes:
    memory = io.BytesIO()
    audio.save(memory, weft.zeros(2, 10), 8000)
    return memory.getvalue()


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda b: b"", "expected a WAV file"),
    "another kind": (lambda b: b"OggS" + b[4:], "expected a WAV file"),
    "no values": (lambda b: b[:36], "no values"),
    "more announced than there is": (lambda b: b[:40] + struct.pack("<I", 2**31) + b[44:], "announces"),
    "no channels": (lambda b: b[:22] + b"\0\0" + b[24:], "0 channels"),
    "12 bits": (lambda b: b[:34] + struct.pack("<H", 12) + b[36:], "12 bits"),
    "mp3 inside": (lambda b: b[:20] + struct.pack("<H", 85) + b[22:], "kind 85"),
    "values first": (lambda b: b[:12] + b"data" + b[16:], "before their description"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_files_say_what_is_wrong(name: str) -> None:
    damage, words = DAMAGE[name]
    with pytest.raises(FileFormatError, match=words):
        audio.load(io.BytesIO(damage(sound_file())))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: A.resample(weft.zeros(3), 0, 5), "whole rates"),
        (lambda: A.resample(weft.zeros(3), 2, 5, resampling_method="linear"), "sinc_interp"),
        (lambda: A.melscale_fbanks(5, 3.0, 2.0, 4, 100), "f_min < f_max"),
        (lambda: A.create_dct(3, 4, "l2"), "norm"),
        (lambda: T.AmplitudeToDB("energy"), "stype"),
        (lambda: T.MFCC(n_mfcc=200), "n_mfcc"),
        (lambda: T.InverseSpectrogram()(weft.zeros(201, 3)), "complex"),
        (lambda: audio.save(io.BytesIO(), weft.zeros(3), 8000), "channels, time"),
        (lambda: audio.save(io.BytesIO(), weft.zeros(1, 3), 8000, format="mp3"), "'wav'"),
    ],
)
def test_what_cannot_be_says_why(call: Callable[[], object], words: str) -> None:
    with pytest.raises(weft.errors.WeftError, match=words):
        call()
