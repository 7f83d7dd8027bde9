"""Whether codes say anything: parts of the ELBO, active units, a monitor for training, and a detector.

A decoder that is strong enough explains x without z; then q(z | x) is the prior for every x, the KL is 0, and nothing in
the loss complains. What the KL is made of tells (Hoffman and Johnson 2016): averaged over N examples it is
    1/N Σ KL(q(z | xₙ) ‖ p(z)) = I(n; z) + KL(q(z) ‖ p(z)),   q(z) = 1/N Σ q(z | xₙ)
the mutual information of the number of an example and its code, at most log N, and the distance of all codes to the prior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import weft

from ...errors import ConditionError, UnsupportedError
from ...tensor import Tensor
from ...train.callbacks.base import Callback
from .base import VAE, LatentVariableModel
from .priors import StandardNormal

__all__ = ["CodeReport", "CollapseMonitor", "active_units", "check_elbo", "code_report", "kl_per_dimension"]

ACTIVE = 0.01  # variance of a mean from which on its unit counts as active (Burda et al. 2016)


@dataclass(frozen=True)
class CodeReport:
    """The ELBO in parts, means over the examples in nats, and what each number of a code says.

    elbo = reconstruction − kl,  kl = mutual_information + marginal_kl (the latter two from draws, so up to their error)
    kl_per_dimension: (code,), where the posterior has independent elements; its sum is kl. active: which units are, (code,)
    """

    elbo: float
    reconstruction: float
    kl: float
    mutual_information: float
    marginal_kl: float
    error: float
    kl_per_dimension: Tensor | None
    active: Tensor

    @property
    def active_units(self) -> int:
        """How many numbers of a code depend on x."""
        return int(self.active.sum())

    @property
    def collapsed(self) -> bool:
        """Whether codes say less than a hundredth of a nat about which example they come from, or no unit is active."""
        return self.active_units == 0 or self.mutual_information < 0.01

    def __str__(self) -> str:
        parts = f"elbo {self.elbo:.3f} = reconstruction {self.reconstruction:.3f} − kl {self.kl:.3f}"
        inside = f"kl = mutual information {self.mutual_information:.3f} + marginal {self.marginal_kl:.3f}"
        return f"{parts}; {inside} (± {self.error:.3f}); {self.active_units} of {len(self.active)} units active"


@weft.no_grad()
def active_units(
    model: LatentVariableModel, x: Tensor, least: float = ACTIVE, condition: Tensor | None = None
) -> Tensor:
    """Which numbers of a code depend on x: Var over x of E[z | x] above `least`. (N, *event) → (code,) of bool"""
    return model.encode(x, condition).flatten(1).var(0) > least


@weft.no_grad()
def kl_per_dimension(model: LatentVariableModel, x: Tensor, condition: Tensor | None = None) -> Tensor | None:
    """KL(q(zⱼ | x) ‖ N(0, 1)), the mean over x; None for posteriors whose elements depend on each other, for other priors, and
    for codes that are not one level of numbers: (code,)"""
    if not isinstance(model, VAE) or not hasattr(model.posterior, "split") or not model.closed_form:
        return None
    if not isinstance(model.prior, StandardNormal):
        return None
    mean, log_scale = model.posterior.split(model.inferred(x, model._checked(x, condition)))
    if log_scale.shape != mean.shape:
        return None
    return (0.5 * (mean**2 + (2 * log_scale).exp() - 1) - log_scale).mean(0)


@weft.no_grad()
def code_report(
    model: LatentVariableModel, x: Tensor, samples: int = 16, generator: Any = None, condition: Tensor | None = None
) -> CodeReport:
    """The ELBO of these examples taken apart. x: (N, *event), all of them at once; N² · samples densities are computed"""
    if not isinstance(model, LatentVariableModel):
        raise UnsupportedError(f"code_report: expected a model with a q(z | x), got {type(model).__name__}")
    given = model._checked(x, condition)
    found = model.draws(x, samples, given, generator)
    reconstruction, kl = found.log_likelihood.mean(), (found.log_posterior - found.log_prior).mean()
    if model.closed_form:
        kl = model.terms(x, given, 1, generator)[1].mean()
    every = model.pairwise_log_posterior(found.z.flatten(0, 1), x, given)  # (K · N, N): each z under each example
    mixed = (every.logsumexp(1) - math.log(len(x))).reshape(samples, len(x))  # log q(z)
    information, marginal = found.log_posterior - mixed, mixed - found.log_prior
    error = marginal.flatten().std().item() / math.sqrt(marginal.numel()) if marginal.numel() > 1 else math.inf
    return CodeReport(
        elbo=(reconstruction - kl).item(),
        reconstruction=reconstruction.item(),
        kl=kl.item(),
        mutual_information=information.mean().item(),
        marginal_kl=marginal.mean().item(),
        error=error,
        kl_per_dimension=kl_per_dimension(model, x, condition),
        active=active_units(model, x, condition=condition),
    )


def check_elbo(
    model: LatentVariableModel,
    x: Tensor,
    condition: Tensor | None = None,
    *,
    samples: int = 64,
    deviations: float = 5.0,
    may_collapse: bool = False,
    generator: Any = None,
) -> CodeReport:
    """The parts of a model's bound on these examples, which must fit each other; codes must say something about x.

    For VAEs with any posterior, levels of codes, and codes that are whole numbers.

    Compared, each within `deviations` standard errors of what is drawn: `elbo` with reconstruction − KL in nats an example (a
    mean over pixels beside a summed KL, or a forgotten weight, shows here); the KL in closed form with the drawn one;
    mutual information with its limits 0 and log N. A collapsed posterior is an error unless `may_collapse`.
    """
    with weft.no_grad():
        found = model.draws(x, samples, model._checked(x, condition), generator)
        drawn = (found.log_posterior - found.log_prior).mean(1)
        own = weft.stack([model.elbo(x, condition, generator=generator).mean() for _ in range(samples)])
    report = code_report(model, x, min(samples, 16), generator, condition)
    _agree("elbo(x) and log p(x, z) − log q(z | x) of draws", own, found.log_weight.mean(1), deviations)
    if model.closed_form:
        closed = weft.full((samples,), report.kl, dtype=drawn.dtype)
        _agree("the KL in closed form and the drawn one", drawn, closed, deviations)
    limit = math.log(len(x))
    if not -deviations * report.error <= report.mutual_information <= limit + deviations * report.error + 1e-4:
        raise ConditionError(
            f"check_elbo: the mutual information of {len(x)} examples and their codes is {report.mutual_information:.4g}, "
            f"outside of 0 to log {len(x)} = {limit:.4g}: log q(z | x) is no density"
        )
    if report.collapsed and not may_collapse:
        raise ConditionError(
            f"check_elbo: the posterior has collapsed: {report.active_units} of {len(report.active)} units are active, and "
            f"codes say {report.mutual_information:.4g} nats about x; let the weight of the KL rise slowly, or take a weaker "
            "decoder"
        )
    return report


def _agree(what: str, first: Tensor, second: Tensor, deviations: float) -> None:
    """Means of draws: equal within so many standard errors of their difference."""
    error = math.sqrt((first.var().item() + second.var().item()) / len(first))
    apart = abs(first.mean().item() - second.mean().item())
    if not apart <= deviations * error + 1e-4 * (1 + abs(second.mean().item())):
        raise ConditionError(
            f"check_elbo: {what} are {first.mean().item():.5g} and {second.mean().item():.5g} in the mean of "
            f"{len(first)} draws, {apart / max(error, 1e-12):.1f} standard errors apart"
        )


class CollapseMonitor(Callback):
    """Logs active_units, code_information and the least and largest KL of a dimension after every validation.

    x: examples to look at, (N, *event), a few hundred of the validation set; model: the name of the model in the task
    warn: whether to say so in the log of the run when codes have stopped to say anything
    Beside `EMA` it looks at the averages if it comes first, at the trained weights if it comes after.
    """

    def __init__(self, x: Tensor, model: str = "model", samples: int = 4, warn: bool = True) -> None:
        self.x, self.model, self.samples, self.warn = x, model, samples, warn
        self.rows: list[list[float]] = []
        self.latest: dict[str, float] = {}

    @property
    def history(self) -> Tensor:
        """KL of every dimension after each validation: (times, code)"""
        return weft.tensor(self.rows)

    def on_train_epoch_start(self, trainer: Any, task: Any) -> None:
        self.latest = {}

    def figures(self, trainer: Any, task: Any) -> dict[str, float]:
        return dict(self.latest)

    def on_validation_end(self, trainer: Any, task: Any) -> None:
        model = task.get_submodule(self.model)
        was_training = model.training
        model.eval()
        report = code_report(model, self.x, self.samples, weft.Generator().manual_seed(0))
        model.train(was_training)
        self.latest = {"active_units": float(report.active_units), "code_information": report.mutual_information}
        if report.kl_per_dimension is not None:
            self.rows.append(report.kl_per_dimension.tolist())
            self.latest |= {"least_kl": min(self.rows[-1]), "largest_kl": max(self.rows[-1])}
        if self.warn and report.collapsed and trainer.run is not None:
            trainer.run.log(f"CollapseMonitor: codes say nothing about x: {report}")

    def state_dict(self) -> dict[str, Any]:
        return {"rows": self.rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rows = [list(row) for row in state["rows"]]
