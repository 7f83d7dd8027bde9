"""Who chooses: queries that, given a trained model and the examples without labels, say which labels to ask for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import weft

from ....errors import ArgumentError, OptionError
from ....nn.module import Module
from ....nn.modules.dropout import RandomlyDropped
from ....tensor import Tensor
from ..ensembles import Ensemble
from ..parts import evaluating
from .scores import k_center_greedy

__all__ = [
    *("CoreSetQuery", "Query", "RandomQuery", "ScoreQuery", "chances", "committee_chances", "dropout_chances"),
]

AT_ONCE = 1000  # examples that a model predicts together


class Query(ABC):
    """Chooses `count` of the examples without labels."""

    @abstractmethod
    def __call__(self, model: Any, unlabelled: Tensor, labelled: Tensor, count: int, generator: Any) -> Tensor:
        """Places in `unlabelled`, (count,), the one that is most worth asking about first.

        model: what `fit` made of the labelled examples; unlabelled, labelled: inputs, (U, *event) and (L, *event)
        """


class RandomQuery(Query):
    """Any examples: what every other query has to beat."""

    def __call__(self, model: Any, unlabelled: Tensor, labelled: Tensor, count: int, generator: Any) -> Tensor:
        return weft.randperm(len(unlabelled), generator=generator)[:count]


class ScoreQuery(Query):
    """The examples of the greatest score.

    score: a function of what `predict` makes, such as `entropy` or `bald`
    predict: (model, x, generator) → chances (N, K) or (S, N, K)
    candidates: look only at so many examples, drawn anew each time; None looks at all
    """

    def __init__(
        self,
        score: Callable[[Tensor], Tensor],
        predict: Callable[..., Tensor] | None = None,
        candidates: int | None = None,
    ) -> None:
        if candidates is not None and candidates < 1:
            raise OptionError(f"ScoreQuery: expected at least one candidate, got {candidates}")
        self.score, self.predict, self.candidates = score, chances if predict is None else predict, candidates

    def __call__(self, model: Any, unlabelled: Tensor, labelled: Tensor, count: int, generator: Any) -> Tensor:
        places = weft.randperm(len(unlabelled), generator=generator)  # ties fall at random
        places = places[: max(self.candidates or len(places), count)]
        worth = self.score(self.predict(model, unlabelled[places], generator))
        return places[worth.nan_to_num(weft.inf).argsort(descending=True, stable=True)[:count]]


class CoreSetQuery(Query):
    """Examples that cover the others: the farthest, one by one, from all that are labelled (Sener and Savarese 2018).

    features: (model, x) → (N, D), in which distances are measured
    candidates: look only at so many examples, drawn anew each time; None looks at all
    """

    def __init__(self, features: Callable[[Any, Tensor], Tensor], candidates: int | None = None) -> None:
        self.features, self.candidates = features, candidates

    def __call__(self, model: Any, unlabelled: Tensor, labelled: Tensor, count: int, generator: Any) -> Tensor:
        places = weft.randperm(len(unlabelled), generator=generator)
        places = places[: max(self.candidates or len(places), count)]
        with weft.no_grad():
            rows = weft.cat([self.features(model, part).flatten(1) for part in (labelled, unlabelled[places])])
        found = k_center_greedy(rows, range(len(labelled)), min(count, len(places)))
        return places[weft.tensor(found - len(labelled))]


# ------------------------------------------------------------------------------------------- predictions


@weft.no_grad()
def chances(model: Module, x: Tensor, generator: Any = None) -> Tensor:
    """softmax of what a model says, in evaluation mode: (N, *event) → (N, K)"""
    with evaluating(model):
        return weft.cat([model(part).softmax(-1) for part in x.split(AT_ONCE)])


def dropout_chances(samples: int = 20) -> Callable[..., Tensor]:
    """A `predict` of S draws of dropout masks, all else in evaluation mode: (N, *event) → (S, N, K)

    Draws from the weights that dropout's approximate posterior stands for (Gal and Ghahramani 2016). Masks come from the
    default generator.
    """
    if samples < 2:
        raise OptionError(f"dropout_chances: expected two samples or more, got {samples}")

    @weft.no_grad()
    def predict(model: Module, x: Tensor, generator: Any = None) -> Tensor:
        dropped = [part for part in model.modules() if isinstance(part, RandomlyDropped)]
        if not dropped:
            raise ArgumentError(
                f"dropout_chances: {type(model).__name__} has no dropout layers, so all draws are alike"
            )
        with evaluating(model):
            for part in dropped:
                part.train()
            return weft.stack(
                [weft.cat([model(part).softmax(-1) for part in x.split(AT_ONCE)]) for _ in range(samples)]
            )

    return predict


@weft.no_grad()
def committee_chances(model: Ensemble, x: Tensor, generator: Any = None) -> Tensor:
    """softmax of what every member of an ensemble says: (N, *event) → (S, N, K)"""
    if not isinstance(model, Ensemble):
        raise ArgumentError(f"committee_chances: expected an Ensemble of networks, got {type(model).__name__}")
    return weft.stack([chances(member, x) for member in model.members])
