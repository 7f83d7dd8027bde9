"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from ..tensor import Tensor
from . import constraints
from .gamma import Gamma
from .utils import broadcast_all

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The sum of the squares of ν standard normal numbers: Gamma(ν/2, ½).

    df: ν, the degrees of freedom

    >>> weft.distributions.Chi2(weft.tensor(4.0)).mean
    tensor(4.)
    """

    arg_constraints: ClassVar = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (df,) = broadcast_all(df)
        super().__init__(df / 2, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Chi2:
        new = self._get_checked_instance(Chi2, _instance)
        new.__init__(self.df.expand(batch_shape), validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def df(self) -> Tensor:
        """Degrees of freedom ν."""
        return self.concentration * 2
