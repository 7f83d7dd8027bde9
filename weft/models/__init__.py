"""Models, a folder for each field: a model is an `nn.Module` that is read from top to bottom.

`weft.models.supervised` holds the classical ones, with closed forms beside the trained solution.
"""

from ..runtime.lazy import later as _later

__getattr__, __dir__ = _later(__name__, ("supervised",))
