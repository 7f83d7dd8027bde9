"""Pictures of coloured shapes with captions that say which shapes, in which colours, from left to right."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import weft

from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from .common import check_count, real, stream

__all__ = ["CAPTION_WORDS", "CaptionedShapes", "captioned_shapes"]

COLOURS = {
    "red": (0.9, 0.2, 0.2),
    "green": (0.2, 0.8, 0.3),
    "blue": (0.25, 0.4, 0.95),
    "yellow": (0.9, 0.85, 0.2),
    "purple": (0.7, 0.3, 0.8),
    "white": (0.9, 0.9, 0.9),
}
SHAPES = ("circle", "square", "triangle", "cross")
CAPTION_WORDS = ("<start>", *COLOURS, *SHAPES, "then", "<end>")  # word t is token t


class CaptionedShapes(NamedTuple):
    """images (n, 3, size, size) in [0, 1]; tokens (n, 3 k + 1) int64; kinds (n, k, 2): colour and shape of each object."""

    images: Tensor
    tokens: Tensor
    kinds: Tensor

    @property
    def captions(self) -> list[str]:
        """The tokens as sentences, without their first and last."""
        return [" ".join(CAPTION_WORDS[t] for t in row[1:-1]) for row in self.tokens.tolist()]


def captioned_shapes(
    n: int = 100,
    size: int = 32,
    objects: int = 2,
    *,
    kinds: Tensor | NDArray | None = None,
    noise: float = 0.05,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> CaptionedShapes:
    """n pictures of k = objects shapes on a dark ground, each in its strip of the picture, somewhere and of some size.

    The caption names colour and shape of each from left to right: "red circle then blue square". To tell captions apart by
    words alone is not enough: two objects have four captions of the same words.
    kinds: what to draw, (n, k, 2) numbers of colours (0 … 5) and shapes (0 … 3); drawn independently unless given
    noise: standard deviation of what is added to the pixels

    Example:
        >>> from weft.data.synthetic import captioned_shapes
        >>> import numpy as np
        >>> found = captioned_shapes(1, kinds=np.array([[[0, 0], [2, 1]]]), seed=0)
        >>> tuple(found.images.shape), found.captions
        ((1, 3, 32, 32), ['red circle then blue square'])
    """
    check_count("captioned_shapes", n=n)
    check_count("captioned_shapes", 1, objects=objects)
    if size < 8 * objects or noise < 0:
        raise OptionError(
            f"captioned_shapes: expected a size of at least {8 * objects} for {objects} objects and noise ≥ 0, got {size}, {noise}"
        )
    generator = stream("captioned_shapes", seed, generator)
    limits = np.array([len(COLOURS), len(SHAPES)])
    if kinds is None:
        chosen = np.stack([generator.integers(0, int(limit), (n, objects)) for limit in limits], -1)
    else:
        chosen = _checked(kinds, (n, objects, 2), limits)
    strip, u = size / objects, generator.uniform((n, objects, 3), np.float64)
    radius = strip * (0.25 + 0.15 * u[..., 0])  # (n, k)
    across = strip * np.arange(objects) + radius + u[..., 1] * (strip - 2 * radius)
    down = radius + u[..., 2] * (size - 2 * radius)
    images = np.full((n, 3, size, size), 0.1)
    palette = np.array(list(COLOURS.values()))
    for k in range(objects):
        inside = _inside(chosen[:, k, 1], across[:, k], down[:, k], radius[:, k], size)[:, None]
        images = np.where(inside, palette[chosen[:, k, 0]][:, :, None, None], images)
    images = (images + noise * generator.normal(images.shape, np.float64)).clip(0, 1)
    return CaptionedShapes(real(images), weft.as_tensor(_tokens(chosen)), weft.as_tensor(chosen.astype(np.int64)))


def _inside(shape: NDArray, across: NDArray, down: NDArray, radius: NDArray, size: int) -> NDArray[np.bool_]:
    """Which pixels belong to an object of each picture: (n, size, size)"""
    place = np.arange(size) + 0.5
    x = (place[None, None, :] - across[:, None, None]) / radius[:, None, None]
    y = (place[None, :, None] - down[:, None, None]) / radius[:, None, None]
    x, y = np.broadcast_arrays(x, y)
    forms = (
        x**2 + y**2 <= 1,
        (np.abs(x) <= 0.8) & (np.abs(y) <= 0.8),
        (y <= 0.8) & (np.abs(x) <= (y + 1) / 1.8),
        (np.minimum(np.abs(x), np.abs(y)) <= 0.3) & (np.maximum(np.abs(x), np.abs(y)) <= 0.95),
    )
    return np.choose(shape[:, None, None], forms)


def _tokens(kinds: NDArray) -> NDArray[np.int64]:
    """<start> colour shape then colour shape … <end>: (n, k, 2) → (n, 3 k + 1)"""
    n, k, _ = kinds.shape
    tokens = np.full((n, k, 3), CAPTION_WORDS.index("then"), np.int64)
    tokens[:, :, 0], tokens[:, :, 1] = 1 + kinds[..., 0], 1 + len(COLOURS) + kinds[..., 1]
    flat = tokens.reshape(n, 3 * k)  # (n, k, 3) → (n, 3 k)
    flat[:, -1] = len(CAPTION_WORDS) - 1
    return np.concatenate([np.zeros((n, 1), np.int64), flat], 1)


def _checked(kinds: Tensor | NDArray, shape: tuple[int, ...], limits: NDArray) -> NDArray:
    found = np.asarray(kinds.array if isinstance(kinds, Tensor) else kinds)
    if found.shape != shape or found.dtype.kind not in "iu":
        raise ShapeError(
            f"captioned_shapes: expected kinds of whole numbers {shape}, got {found.dtype} of shape {found.shape}"
        )
    if (found < 0).any() or (found >= limits).any():
        raise OptionError(f"captioned_shapes: colours are 0 … {limits[0] - 1}, shapes 0 … {limits[1] - 1}")
    return found
