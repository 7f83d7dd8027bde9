"""The functions of `weft.vision.transforms.functional`, and the names that the second version has for some of them."""

from ...functional import *  # noqa: F403
from .renamed import *  # noqa: F403
