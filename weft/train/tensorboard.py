"""SummaryWriter: TensorBoard's event files by the calls of PyTorch's `torch.utils.tensorboard`.

Value { 1: tag   2: simple_value (float)   4: image   5: histo   8: tensor   9: metadata }
Image { 1: height   2: width   3: colorspace   4: encoded_image_string (PNG) }
HistogramProto { 1: min  2: max  3: num  4: sum  5: sum_squares  6: bucket_limit (packed)  7: bucket (packed) }
TensorProto { 1: dtype (7: string)   2: shape { 2: dim { 1: size } }   8: string_val }
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor
from .events import EventWriter, _bytes, _event, _integer, _varint

__all__ = ["SummaryWriter"]

LIMITS = np.concatenate([-(edges := 1e-12 * 1.1 ** np.arange(774))[::-1], [0.0], edges])  # TensorBoard's usual bins


class SummaryWriter:
    """Writes scalars, histograms, images and text for TensorBoard into `log_dir` (runs/<date>_<machine> if not given).

    >>> with SummaryWriter("runs/one") as writer:  # doctest: +SKIP
    ...     writer.add_scalar("loss/train", 0.5, global_step=3)
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        now = time.strftime("%b%d_%H-%M-%S")
        self.log_dir = os.fspath(log_dir) if log_dir else os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self._purge = purge_step or 0
        self._writers: dict[str, EventWriter] = {}
        self._writer("")

    def _writer(self, folder: str) -> EventWriter:
        if folder not in self._writers:
            place = os.path.join(self.log_dir, folder) if folder else self.log_dir
            os.makedirs(place, exist_ok=True)
            self._writers[folder] = EventWriter(place, self._purge)
        return self._writers[folder]

    def _add(self, tag: str, content: bytes, step: int | None) -> None:
        value = _bytes(1, _bytes(1, tag.encode()) + content)
        self._writer("")._write(_event(int(step or 0), _bytes(5, value)))

    def get_logdir(self) -> str:
        """The folder of the files."""
        return self.log_dir

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: Any = None, *_: Any, **__: Any
    ) -> None:
        """One number of a curve."""
        self._writer("").add_scalars({tag: float(scalar_value)}, int(global_step or 0))

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: int | None = None, walltime: Any = None
    ) -> None:
        """Several curves in one picture: each in a folder of its own, as PyTorch does."""
        for name, value in tag_scalar_dict.items():
            folder = f"{main_tag.replace('/', '_')}_{name}"
            self._writer(folder).add_scalars({main_tag: float(value)}, int(global_step or 0))

    def add_histogram(self, tag: str, values: Any, global_step: int | None = None, *_: Any, **__: Any) -> None:
        """How the values are spread."""
        flat = _array(values).astype(np.float64).ravel()
        flat = flat[np.isfinite(flat)]
        if not flat.size:
            raise ArgumentError("add_histogram: there is no finite value")
        counts, limits = np.histogram(flat, LIMITS)
        kept = (
            slice(max(int(np.nonzero(counts)[0][0]) - 1, 0), int(np.nonzero(counts)[0][-1]) + 2)
            if counts.any()
            else slice(1)
        )
        numbers = (flat.min(), flat.max(), flat.size, flat.sum(), flat @ flat)
        histogram = b"".join(_varint(i << 3 | 1) + struct.pack("<d", x) for i, x in enumerate(numbers, 1))
        histogram += _bytes(6, limits[1:][kept].astype("<f8").tobytes()) + _bytes(
            7, counts[kept].astype("<f8").tobytes()
        )
        self._add(tag, _bytes(5, histogram), global_step)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: Any = None, dataformats: str = "CHW"
    ) -> None:
        """A picture: floats in [0, 1] or bytes, in the order of dimensions that `dataformats` says."""
        image = _arranged(_array(img_tensor), dataformats)
        height, width, channels = image.shape
        content = _integer(1, height) + _integer(2, width) + _integer(3, channels) + _bytes(4, _png(image))
        self._add(tag, _bytes(4, content), global_step)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: Any = None, dataformats: str = "NCHW"
    ) -> None:
        """A batch of pictures side by side, eight in a row."""
        batch = _array(img_tensor)
        batch = np.moveaxis(batch, dataformats.index("N"), 0)
        images = [_arranged(image, dataformats.replace("N", "")) for image in batch]
        rows = [images[i : i + 8] for i in range(0, len(images), 8)]
        rows[-1] += [np.zeros_like(images[0])] * (len(rows[0]) - len(rows[-1]))
        grid = np.concatenate([np.concatenate(row, 1) for row in rows])
        self.add_image(tag, grid, global_step, walltime, "HWC")

    def add_figure(self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, *_: Any) -> None:
        """A figure of Matplotlib's, as a picture."""
        figure.canvas.draw()
        pixels = np.asarray(figure.canvas.buffer_rgba())
        if close:
            import matplotlib.pyplot as plt

            plt.close(figure)
        self.add_image(tag, pixels, global_step, dataformats="HWC")

    def add_text(self, tag: str, text_string: str, global_step: int | None = None, walltime: Any = None) -> None:
        """A text, in Markdown."""
        self._add_strings(f"{tag}/text_summary", [text_string], "text", global_step)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        *_: Any,
    ) -> None:
        """Precision and recall of probabilities (N,) for labels 0 and 1 (N,), at thresholds from 0 to 1."""
        truth, scores = _array(labels).astype(bool).ravel(), _array(predictions).astype(np.float64).ravel()
        given = scores[None] >= np.linspace(0, 1, num_thresholds)[:, None]  # (T, N)
        right, wrong = (given & truth).sum(1), (given & ~truth).sum(1)
        left, missed = (~truth).sum() - wrong, truth.sum() - right
        precision = right / np.maximum(right + wrong, 1e-7)
        recall = right / np.maximum(right + missed, 1e-7)
        self.add_pr_curve_raw(tag, right, wrong, left, missed, precision, recall, global_step, num_thresholds)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        *_: Any,
    ) -> None:
        """The same from counts, each (T,)."""
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        table = np.stack([_array(row).astype("<f4") for row in (*counts, precision, recall)])  # (6, T)
        tensor = _integer(1, 1) + _bytes(2, b"".join(_bytes(2, _integer(1, n)) for n in table.shape))
        plugin = _bytes(1, b"pr_curves") + _bytes(2, _integer(2, num_thresholds))
        self._add(tag, _bytes(9, _bytes(1, plugin)) + _bytes(8, tensor + _bytes(4, table.tobytes())), global_step)

    def add_audio(
        self, tag: str, snd_tensor: Any, global_step: int | None = None, sample_rate: int = 44100, *_: Any
    ) -> None:
        """A sound: samples in [−1, 1], one channel (any shape of one row)."""
        samples = np.clip(_array(snd_tensor).astype(np.float64).ravel(), -1, 1)
        data = (samples * 32767).astype("<i2").tobytes()
        head = struct.pack("<IHHIIHH", 16, 1, 1, sample_rate, 2 * sample_rate, 2, 16)
        body = b"WAVEfmt " + head + b"data" + struct.pack("<I", len(data)) + data
        content = _varint(1 << 3 | 5) + struct.pack("<f", sample_rate) + _integer(2, 1) + _integer(3, samples.size)
        content += _bytes(4, b"RIFF" + struct.pack("<I", len(body)) + body) + _bytes(5, b"audio/wav")
        self._add(tag, _bytes(6, content), global_step)

    def _add_strings(self, tag: str, texts: list[str], plugin: str, step: int | None) -> None:
        tensor = _integer(1, 7) + _bytes(2, _bytes(2, _integer(1, len(texts))))
        tensor += b"".join(_bytes(8, text.encode()) for text in texts)
        metadata = _bytes(1, _bytes(1, plugin.encode()))
        self._add(tag, _bytes(9, metadata) + _bytes(8, tensor), step)

    def add_hparams(self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any], *_: Any, **__: Any) -> None:
        """Settings and the figures they led to: the settings as a text, the figures as scalars."""
        self.add_text("hparams", "```\n" + json.dumps(dict(hparam_dict), default=str, indent=1) + "\n```")
        for name, value in metric_dict.items():
            self.add_scalar(name, value)

    def add_graph(self, model: Any, input_to_model: Any = None, *_: Any, **__: Any) -> None:
        """The layers of a model as a text (PyTorch draws its graph)."""
        self.add_text("graph", f"```\n{model!r}\n```")

    def add_embedding(
        self, mat: Any, metadata: Any = None, *_: Any, global_step: int | None = None, tag: str = "default", **__: Any
    ) -> None:
        """Vectors (and their names) as tab-separated tables, which the projector reads."""
        place = os.path.join(self.log_dir, f"{int(global_step or 0):05d}", tag)
        os.makedirs(place, exist_ok=True)
        np.savetxt(os.path.join(place, "tensors.tsv"), _array(mat), delimiter="\t")
        if metadata is not None:
            with open(os.path.join(place, "metadata.tsv"), "w", encoding="utf-8") as file:
                file.writelines(f"{row}\n" for row in metadata)

    def flush(self) -> None:
        """Nothing to do: every event is written at once."""

    def close(self) -> None:
        """Close the files; a later call opens new ones."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _array(values: Any) -> np.ndarray:
    return values.detach().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _arranged(image: np.ndarray, order: str) -> np.ndarray:
    """Any order of dimensions → (H, W, 1, 3 or 4) bytes."""
    if image.ndim != len(order) or set(order) - set("CHW"):
        raise ShapeError(f"add_image: dataformats {order!r} does not fit a picture of sizes {image.shape}")
    image = image if "C" in order else image[..., None]
    order = order if "C" in order else order + "C"
    image = image.transpose([order.index(axis) for axis in "HWC"])
    image = image if image.dtype == np.uint8 else (np.clip(image, 0, 1) * 255).astype(np.uint8)
    if image.shape[2] not in (1, 3, 4):
        raise ShapeError(f"add_image: expected 1, 3 or 4 channels, got {image.shape[2]} ({order})")
    return image


def _png(image: np.ndarray) -> bytes:
    """(H, W, C) bytes as a PNG file."""
    height, width, channels = image.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], 1)
    colour = {1: 0, 3: 2, 4: 6}[channels]

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows.tobytes()))
        + chunk(b"IEND", b"")
    )
