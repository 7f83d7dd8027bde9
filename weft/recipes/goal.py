"""What a recipe promises: a figure to reach, and a simple method to beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import OptionError

__all__ = ["Goal"]


@dataclass(frozen=True)
class Goal:
    """The figure that a recipe must reach, in which direction, on which data, and the simple method it must beat there.

    baseline: a strong simple method, in words; its figure stands beside the recipe's, computed on the same data by
        `Recipe.baseline`, and the recipe misses its goal when it is not better
    margin: by how much it must be better; relative: as a share of the baseline's figure

    Example:
        >>> from weft.recipes import Goal
        >>> goal = Goal("test_accuracy", at_least=0.97, data="360 digits")
        >>> str(goal), goal.reached({"test_accuracy": 0.975})
        ('test_accuracy ≥ 0.97 on 360 digits', True)
        >>> goal = Goal("test_accuracy", at_least=0.9, data="360 digits", baseline="least squares", margin=0.02)
        >>> goal.reached({"test_accuracy": 0.95, "baseline_accuracy": 0.94})
        False
    """

    metric: str
    at_least: float | None = None
    at_most: float | None = None
    data: str = "the test set"
    baseline: str = ""
    margin: float = 0.0
    relative: bool = False

    def __post_init__(self) -> None:
        if (self.at_least is None) == (self.at_most is None):
            raise OptionError(f"Goal({self.metric!r}): give one of at_least and at_most")
        if not 0 <= self.margin < float("inf") or (self.margin and not self.baseline):
            raise OptionError(
                f"Goal({self.metric!r}): margin must be finite, ≥ 0 and over a named baseline, got {self.margin}"
            )

    @property
    def target(self) -> float:
        """The number to reach."""
        return self.at_most if self.at_least is None else self.at_least

    @property
    def bound(self) -> str:
        """The figure and the number to reach: `accuracy ≥ 0.97`."""
        return f"{self.metric} {'≤' if self.at_least is None else '≥'} {self.target:g}"

    @property
    def beside(self) -> str:
        """The name of the baseline's figure."""
        return f"baseline_{self.metric.removeprefix('test_')}"

    def reached(self, figures: Mapping[str, float]) -> bool:
        """Whether the figures meet the goal and beat the baseline; a missing figure or NaN does not."""
        value = figures.get(self.metric, float("nan"))
        met = bool(value <= self.target if self.at_least is None else value >= self.target)
        gain = self._gain(figures)
        return met and (not self.baseline or (gain > 0 and gain >= self._asked(figures)))  # as good is not better

    def compared(self, figures: Mapping[str, float]) -> str:
        """The baseline's figure in words, and by how much the recipe's is better; empty without a baseline."""
        if self.beside not in figures or not self.baseline:
            return ""
        gain, asked = self._gain(figures), self._asked(figures)
        how = f"beaten by {gain:.4g}" if gain > 0 else f"not beaten, the recipe is {-gain:.4g} worse"
        wanted = f" (asked {asked:.4g})" if self.margin else ""
        return f"{self.baseline} reaches {figures[self.beside]:.4g}: {how}{wanted}"

    def _gain(self, figures: Mapping[str, float]) -> float:
        """How much better the recipe is than its baseline."""
        gain = figures.get(self.metric, float("nan")) - figures.get(self.beside, float("nan"))
        return -gain if self.at_least is None else gain

    def _asked(self, figures: Mapping[str, float]) -> float:
        return self.margin * abs(figures.get(self.beside, float("nan"))) if self.relative else self.margin

    def __str__(self) -> str:
        said = f"{self.bound} on {self.data}"
        if not self.baseline:
            return said
        margin = f"{100 * self.margin:g} %" if self.relative else f"{self.margin:g}"
        return f"{said}, {margin + ' ' if self.margin else ''}better than {self.baseline}"
