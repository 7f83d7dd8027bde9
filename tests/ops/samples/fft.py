"""Sample calls of the Fourier transforms: `weft/ops/signal/fft.py` and `weft/ops/signal/spectrogram.py`."""

from .base import S, T

LINE, PLANE, SPACE = T((2, 6)), T((2, 4, 5)), T((2, 3, 4, 2))
HALF = T((2, 4), kind="complex")

SAMPLES: dict[str, list[S]] = {
    "fft.fft": [S(LINE), S(LINE, n=4), S(LINE, n=9, dim=0, norm="ortho"), S(LINE, norm="forward")],
    "fft.ifft": [S(LINE), S(LINE, n=4), S(LINE, n=3, dim=0, norm="forward")],
    "fft.rfft": [S(LINE), S(T((2, 5))), S(LINE, n=4, norm="ortho"), S(LINE, dim=0, n=5, norm="forward")],
    "fft.irfft": [S(HALF), S(HALF, n=7), S(HALF, n=4, norm="ortho"), S(LINE, norm="forward")],
    "fft.hfft": [S(HALF), S(HALF, n=7, norm="ortho")],
    "fft.ihfft": [S(LINE), S(LINE, n=5, norm="forward")],
    "fft.fft2": [S(PLANE), S(PLANE, s=(3, 6), norm="ortho"), S(PLANE, dim=(0, 1))],
    "fft.ifft2": [S(PLANE), S(PLANE, s=(3, 6), norm="forward")],
    "fft.fftn": [S(SPACE), S(SPACE, s=(5, 2)), S(SPACE, dim=(0, 2), norm="ortho")],
    "fft.ifftn": [S(SPACE), S(SPACE, dim=(1, 3))],
    "fft.rfft2": [S(PLANE), S(PLANE, s=(3, 6), norm="ortho")],
    "fft.irfft2": [S(PLANE), S(PLANE, s=(3, 6), norm="forward")],
    "fft.rfftn": [S(SPACE), S(SPACE, dim=(0, 2), norm="ortho")],
    "fft.irfftn": [S(SPACE), S(SPACE, s=(3, 5), dim=(0, 2))],
    "fft.hfft2": [S(PLANE), S(PLANE, s=(3, 6), norm="ortho")],
    "fft.ihfft2": [S(PLANE), S(PLANE, norm="forward")],
    "fft.hfftn": [S(SPACE), S(SPACE, dim=(0, 2))],
    "fft.ihfftn": [S(SPACE), S(SPACE, dim=(0, 2), norm="ortho")],
    "fft.fftfreq": [S(5), S(8, 0.5)],
    "fft.rfftfreq": [S(5), S(8, d=0.5)],
    "fft.fftshift": [S(T((5,))), S(PLANE), S(PLANE, dim=(0, 2))],
    "fft.ifftshift": [S(T((5,))), S(PLANE), S(PLANE, dim=2)],
    "stft": [
        S(T((2, 20)), 8, return_complex=True),
        S(T((20,)), 8, hop_length=3, win_length=6, window=T((6,)), return_complex=True, normalized=True),
        S(T((2, 20)), 8, center=False, onesided=False, return_complex=True),
        S(T((1, 20)), 7, pad_mode="constant", return_complex=True),
    ],
    "istft": [
        S(T((2, 5, 6), kind="complex"), 8),
        S(T((5, 6), kind="complex"), 8, hop_length=3, window=T((8,), 0.5, 1.5), length=19, normalized=True),
        S(T((2, 5, 6), kind="complex"), 8, center=False),
    ],
}
