"""The 1,797 handwritten digits that ship inside the package.

Read from `digits.npz` beside this file, checked, and returned as NumPy arrays;
`DIGITS.md` says where the images come from and under which licence.
"""

from importlib import resources

import numpy as np

from ..errors import InvalidValueError, MissingFileError

__all__ = ["load_digits"]

COUNT, SIDE, BRIGHTEST, CLASSES = 1797, 8, 16, 10
ADVICE = "the installed file is damaged; reinstall weft"


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """The UCI handwritten digits: images of 8×8 pixels with brightness 0 to 16, and the digit each shows.

    Shape: images (1797, 8, 8) uint8, labels (1797,) uint8. Both are fresh arrays that may be written to.

    Example:
        >>> from weft.data import load_digits
        >>> images, labels = load_digits()
        >>> images.shape, labels[:5].tolist()
        ((1797, 8, 8), [0, 1, 2, 3, 4])
    """
    source = resources.files(__package__).joinpath("digits.npz")
    try:
        with source.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            images, labels = archive["images"], archive["labels"]
    except FileNotFoundError as error:
        raise MissingFileError("load_digits: digits.npz is missing from the package; reinstall weft") from error
    except Exception as error:  # a damaged archive may fail at any depth of zip, zlib, header or array reading
        raise InvalidValueError(f"load_digits: digits.npz cannot be read ({error}); {ADVICE}") from error
    _check("images", images, (COUNT, SIDE, SIDE), BRIGHTEST)
    _check("labels", labels, (COUNT,), CLASSES - 1)
    return images, labels


def _check(name: str, array: np.ndarray, shape: tuple[int, ...], largest: int) -> None:
    """Raise unless the array has this shape, is uint8 and holds nothing above `largest`."""
    if array.shape != shape or array.dtype != np.uint8:
        raise InvalidValueError(
            f"load_digits: {name} should be uint8 of shape {shape}, "
            f"digits.npz holds {array.dtype} of shape {array.shape}; {ADVICE}"
        )
    if array.max() > largest:
        raise InvalidValueError(
            f"load_digits: {name} should lie in 0..{largest}, digits.npz holds {array.max()}; {ADVICE}"
        )
