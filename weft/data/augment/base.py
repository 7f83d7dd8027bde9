"""What every augmentation is: a function of a batch of images and of random numbers, drawn image by image.

`t(x, generator=None)` takes a tensor or array (N, C, H, W), one image (C, H, W) or (H, W), or a PIL image, and returns
the same kind. uint8 images have the range 0…255, floating ones 0…1; the dtype is kept.

Reproducibility. A call takes one block of numbers from its generator, however large the batch: the same generator gives
the same result, and the next call with it another one. Image i of a batch is treated by the generator and i alone, so the
first images of a batch are treated alike whatever follows them. To be independent of how samples are put into batches,
give each sample a generator of its own, as a list: `t(x, sample_generators(generator, indices))`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ArgumentError, DtypeError, OptionError, ShapeError
from ...ops.create.sample import generator_of
from ...random import Generator
from ...runtime.extras import extra
from ...tensor import Tensor, wrap

__all__ = [
    "Augmentation",
    "Generators",
    "Source",
    "Transform",
    "batched",
    "bounds",
    "filling",
    "finished",
    "is_pil",
    "opened",
    "pair",
    "pil_image",
    "probability",
    "working",
]

Shape = tuple[int, ...]
Generators = Generator | Sequence[Generator] | None
_APART = 2**32  # children of `take` are numbered from here, beyond any number of draws


class Augmentation(ABC):
    """A random function: of images, of batches, of sequences or of graphs."""

    @abstractmethod
    def __call__(self, x: Any, generator: Generators = None) -> Any:
        """The changed x; without a generator, by the default one."""

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({options})"

    def as_module(self) -> Any:
        """This as a module, as containers of modules ask for it."""
        from .as_module import AsModule

        return AsModule(self)


class Transform(Augmentation):
    """A map of images. Subclasses treat a batch (N, C, H, W) of any dtype and never write to it."""

    def __call__(self, x: Any, generator: Generators = None) -> Any:
        images, restore = opened(x, type(self).__name__)
        source = Source.of(generator, len(images), type(self).__name__)
        return restore(self.apply(images, source))

    @abstractmethod
    def apply(self, images: NDArray, source: Source) -> NDArray:
        """The new batch."""


class Source(ABC):
    """Random numbers for the images of a batch: row i of every draw belongs to image i.

    Draw number k comes from stream k of the batch's generator (or of each image's own), so that nothing depends on how
    many images there are or on how much was drawn before.
    """

    draws = 0

    @staticmethod
    def of(generator: Generators, count: int, name: str = "augment") -> Source:
        """From one generator for the batch, one for each image, or (None) the default generator."""
        if not isinstance(generator, (list, tuple)):
            return _OfBatch(generator_of(generator, name).split(1)[0], count)
        if len(generator) != count:
            raise OptionError(f"{name}: expected a generator for each of {count} images, got {len(generator)}")
        return _OfSamples([generator_of(g, name).split(1)[0] for g in generator])

    @abstractmethod
    def take(self, rows: NDArray, number: int) -> Source:
        """The source for some of the images (a mask), with draws unlike those of another `number`."""

    @abstractmethod
    def draw(self, sample: Callable[[Generator, Shape], NDArray], shape: Shape) -> NDArray:
        """Numbers of the next stream, for each image. Shape: (N, *shape)"""

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> NDArray[np.float64]:
        """In [low, high), for each image. Shape: (N, *shape)"""
        return self.draw(lambda stream, size: stream.uniform(size, np.float64), shape) * (high - low) + low

    def normal(self, *shape: int) -> NDArray[np.float32]:
        """Standard normal, for each image. Shape: (N, *shape)"""
        return self.draw(lambda stream, size: stream.normal(size, np.float32), shape)

    def gamma(self, concentration: float) -> NDArray[np.float64]:
        """Gamma(concentration, rate 1), for each image. Shape: (N,)"""
        return self.draw(lambda stream, size: stream.gamma(np.full(size, float(concentration))), ())

    def integers(self, count: NDArray | int, *shape: int) -> NDArray[np.int64]:
        """In [0, count), for each image; `count` broadcasts with (N, *shape)."""
        return np.minimum(np.floor(self.uniform(*shape) * count), np.asarray(count) - 1).astype(np.int64)

    def permutations(self, n: int) -> NDArray[np.int64]:
        """An order of 0 … n − 1 for each image. Shape: (N, n)"""
        return self.uniform(n).argsort(1, kind="stable")


class _OfBatch(Source):
    """One stream for a batch of `count`, of which `rows` are asked for."""

    def __init__(self, stream: Generator, count: int, rows: NDArray | None = None) -> None:
        self.stream, self.count, self.rows = stream, count, rows

    def take(self, rows: NDArray, number: int) -> Source:
        every = np.arange(self.count) if self.rows is None else self.rows
        return _OfBatch(self.stream.fold_in(_APART + number), self.count, every[rows])

    def draw(self, sample: Callable[[Generator, Shape], NDArray], shape: Shape) -> NDArray:
        self.draws += 1
        drawn = sample(self.stream.fold_in(self.draws), (self.count, *shape))
        return drawn if self.rows is None else drawn[self.rows]


class _OfSamples(Source):
    """A stream for each image."""

    def __init__(self, streams: list[Generator]) -> None:
        self.streams = streams

    def take(self, rows: NDArray, number: int) -> Source:
        return _OfSamples([self.streams[i].fold_in(_APART + number) for i in np.flatnonzero(rows)])

    def draw(self, sample: Callable[[Generator, Shape], NDArray], shape: Shape) -> NDArray:
        self.draws += 1
        rows = [sample(stream.fold_in(self.draws), (1, *shape)) for stream in self.streams]
        return np.concatenate(rows) if rows else np.zeros((0, *shape))


def sample_generators(generator: Generator, indices: Iterable[int]) -> list[Generator]:
    """A generator for each sample, by its number in the data set: `generator.fold_in(i)`.

    Transforms given this list treat sample i alike in whatever batch it comes; fold in the epoch first to have new
    augmentations every epoch: `sample_generators(generator.fold_in(epoch), indices)`.
    """
    return [generator.fold_in(int(i)) for i in indices]


# ---- kinds of images ---------------------------------------------------------------------------------------


def opened(x: Any, name: str) -> tuple[NDArray, Callable[[NDArray], Any]]:
    """A batch (N, C, H, W), and what turns a treated batch back into the kind of x."""
    if is_pil(x):
        return _pil_array(x)[None], lambda result: pil_image(result[0])
    return batched(x, ("(H, W)", "(C, H, W)", "(N, C, H, W)"), 2, name)


def batched(x: Any, shapes: tuple[str, ...], fewest: int, name: str) -> tuple[NDArray, Callable[[NDArray], Any]]:
    """A tensor or array with leading dimensions of 1 up to the last of `shapes`, and the way back."""
    if isinstance(x, Tensor):
        images, restore = batched(x.array, shapes, fewest, name)
        return images, lambda result: wrap(restore(result))
    if not isinstance(x, np.ndarray):
        raise ArgumentError(f"{name}: expected a tensor or an array (images may be PIL images), got {type(x).__name__}")
    missing = fewest + len(shapes) - 1 - x.ndim
    if not 0 <= missing < len(shapes):
        raise ShapeError(f"{name}: expected {' or '.join(shapes)}, got shape {x.shape}")
    return x[(None,) * missing], lambda result: np.ascontiguousarray(result[(0,) * missing])


def is_pil(x: Any) -> bool:
    """Whether x is a PIL image; Pillow is not imported to find out."""
    return any(kind.__module__ == "PIL.Image" for kind in type(x).__mro__)


def _pil_array(image: Any) -> NDArray:
    """(C, H, W) uint8"""
    if image.mode not in ("L", "RGB", "RGBA"):
        raise OptionError(
            f"augment: expected a PIL image of mode L, RGB or RGBA, got {image.mode}: image.convert('RGB')"
        )
    pixels = np.asarray(image)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def pil_image(pixels: NDArray) -> Any:
    """The PIL image of (C, H, W)"""
    image = extra("PIL.Image", "PIL images need")
    if pixels.dtype != np.uint8:
        raise DtypeError(f"augment: {pixels.dtype} does not fit into a PIL image; put ToTensor before this transform")
    return image.fromarray(np.ascontiguousarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)))


# ---- numbers -----------------------------------------------------------------------------------------------


def working(images: NDArray) -> NDArray:
    """As floating-point numbers to calculate with: float64 stays, everything else becomes float32."""
    return images.astype(np.float64 if images.dtype == np.float64 else np.float32, copy=False)


def finished(values: NDArray, dtype: np.dtype) -> NDArray:
    """In the images' dtype: integers are rounded and kept in their range."""
    if values.dtype == dtype:
        return values
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.clip(np.rint(values), limits.min, limits.max).astype(dtype)
    return values > 0.5 if dtype.kind == "b" else values.astype(dtype, copy=False)


def pair(value: Any, name: str) -> tuple[Any, Any]:
    """(v, v) of one number, or the two given."""
    if isinstance(value, (int, float)):
        return value, value
    if len(value) == 1:
        return value[0], value[0]
    if len(value) != 2:
        raise OptionError(f"{name}: expected one number or two, got {value!r}")
    return tuple(value)


def bounds(value: Any, name: str, around: float = 0.0) -> tuple[float, float]:
    """(around − v, around + v) of one number v ≥ 0, or the two given, in order."""
    if isinstance(value, (int, float)):
        if value < 0:
            raise OptionError(f"{name}: a single number must not be negative, got {value}")
        return around - value, around + value
    low, high = pair(value, name)
    if low > high:
        raise OptionError(f"{name}: expected (low, high) in order, got {value!r}")
    return float(low), float(high)


def probability(p: float, name: str) -> float:
    if not 0 <= p <= 1:
        raise OptionError(f"{name}: expected a probability in [0, 1], got {p}")
    return p


def filling(fill: Any, channels: int, name: str) -> NDArray:
    """The value of each channel, (C, 1, 1), from one number or one per channel."""
    values = np.atleast_1d(np.asarray(fill, np.float64))
    if values.shape not in ((1,), (channels,)):
        raise OptionError(f"{name}: expected one fill value or {channels}, one for each channel; got {fill!r}")
    return np.broadcast_to(values, (channels,))[:, None, None]
