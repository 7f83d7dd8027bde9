"""torchaudio's common names: sounds from and into WAV files, spectrograms, mel scales, MFCC, resampling.

Sounds are tensors (…, time) of values in [−1, 1]; channels come before time. `functional` has functions, `transforms` the
layers that keep their windows and filters. Gradients flow through everything but the files.

>>> mel = weft.audio.transforms.MelSpectrogram(sample_rate=16000, n_fft=400, n_mels=40)
>>> mel(weft.zeros(1, 16000)).shape
Size([1, 40, 81])
"""

from ..runtime.lazy import later as _later

__version__ = "2.13.0"

_NAMES: dict[str, tuple[str, ...]] = {"wav": ("AudioMetaData", "info", "load", "save")}
_MODULES = ("functional", "transforms")

__all__ = [*_MODULES, *_NAMES["wav"]]

__getattr__, __dir__ = _later(__name__, _MODULES, _NAMES)
