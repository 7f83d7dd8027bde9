"""Pictures that people have, brought into the form that a network was trained on, and what was done to them in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError
from ..runtime.extras import extra

__all__ = ["LEAST_CONTRAST", "contrast", "fitted", "light_on_dark", "read_picture"]

INK = 0.2  # what is brighter than this share of the brightest point belongs to the stroke
BOXES = {8: (8, 6), 28: (20, 20)}  # side of an image → height and width at most that its strokes fill


def read_picture(path: Path, channels: int) -> NDArray[np.float32]:
    """The brightness of a picture in [0, 1], (channels, H, W); what is transparent is white."""
    image = extra("PIL.Image", "predict: reading pictures needs")
    try:
        with image.open(path) as picture:
            picture = picture.convert("RGBA")
            ground = image.new("RGBA", picture.size, "white")
            flat = image.alpha_composite(ground, picture).convert("L" if channels == 1 else "RGB")
    except (OSError, ValueError, SyntaxError, image.DecompressionBombError) as error:
        raise OptionError(f"predict: {path} is no picture that Pillow can read: {error}") from error
    pixels = np.asarray(flat, np.float32) / 255  # (H, W) or (H, W, 3)
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def fitted(picture: NDArray, shape: tuple[int, int, int], ink: bool) -> tuple[NDArray, list[str]]:
    """A picture (C, H, W) of any size as one of `shape`, and what was done to it."""
    sizes, wanted = f"{picture.shape[2]}×{picture.shape[1]}", f"{shape[2]}×{shape[1]}"
    done = []
    if ink:
        picture, done = light_on_dark(picture)
    if picture.shape == shape:
        return picture, done
    if not ink:
        return _resized(_middle(picture), shape[1:]), [f"cut to the middle square and scaled from {sizes} to {wanted}"]
    if contrast(picture) < LEAST_CONTRAST:
        return _resized(picture, shape[1:]), done
    return _inked(picture[0], shape[1])[None], [*done, f"cut to the strokes and scaled from {sizes} to {wanted}"]


LEAST_CONTRAST = 0.1


def contrast(image: NDArray) -> float:
    """The span of the brightness of an image."""
    return float(image.max() - image.min())


def light_on_dark(image: NDArray) -> tuple[NDArray, list[str]]:
    """An image (1, H, W) of strokes, inverted if most of its edge is brighter than the middle of its range."""
    edge = np.concatenate([image[0, 0], image[0, -1], image[0, :, 0], image[0, :, -1]])
    low, high = image.min(), image.max()
    if np.median(edge) > (low + high) / 2:
        return low + high - image, ["dark on a light ground: inverted"]
    return image, []


def _middle(picture: NDArray) -> NDArray:
    """The square in the middle of (C, H, W)."""
    height, width = picture.shape[1:]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return picture[:, top : top + side, left : left + side]


def _inked(picture: NDArray, side: int) -> NDArray:
    """The strokes of (H, W), the ground taken away, as large and in the place as in the training images: (side, side)."""
    edge = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
    strokes = np.clip(picture - np.median(edge), 0, None)
    inside = strokes > INK * strokes.max()
    rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
    box = strokes[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    tall, wide = BOXES.get(side, (side, side))
    scale = tall / max(box.shape) if tall == wide else tall / box.shape[0]
    height, width = max(1, round(box.shape[0] * scale)), min(wide, max(1, round(box.shape[1] * scale)))
    small = _resized(box[None], (height, width))[0]
    image = np.zeros((side, side), np.float32)
    top, left = _place(small, side) if tall == wide else ((side - height) // 2, (side - width) // 2)
    image[top : top + height, left : left + width] = small
    return image / image.max()


def _place(small: NDArray, side: int) -> tuple[int, int]:
    """Where the corner goes so that the centre of mass comes to the middle, as in MNIST."""
    mass = small.sum()
    centres = [(small.sum(1 - axis) * (np.arange(small.shape[axis]) + 0.5)).sum() / mass for axis in (0, 1)]
    return tuple(
        int(np.clip(round(side / 2 - centre), 0, side - size))
        for centre, size in zip(centres, small.shape, strict=True)
    )


def _resized(picture: NDArray, sizes: tuple[int, int]) -> NDArray[np.float32]:
    """Scaled by averages where it shrinks: (C, H, W) → (C, *sizes)."""
    image: Any = extra("PIL.Image", "predict: reading pictures needs")
    height, width = sizes
    planes = [
        image.fromarray(plane).resize((width, height), image.Resampling.BILINEAR)
        for plane in picture.astype(np.float32)
    ]
    return np.stack([np.asarray(plane, np.float32) for plane in planes])
