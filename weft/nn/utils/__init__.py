"""Tools for modules and their parameters."""

from .clip_grad import *  # noqa: F403
from .convert_parameters import *  # noqa: F403
