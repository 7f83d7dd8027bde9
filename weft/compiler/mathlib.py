"""Functions that processors do not have, as straight-line vector code."""

from __future__ import annotations

from typing import Any


class Math:
    """The mathematical functions of the builder `Function`; values in, values out."""

    def sqrt(self, x: Any) -> Any:
        return self.intrinsic("sqrt", x)
