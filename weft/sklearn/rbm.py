"""`BernoulliRBM` with scikit-learn's names, on `weft.models.energy`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import weft

from ..errors import InvalidValueError
from ..models.energy.annealing import base_rates
from ..models.energy.contrastive import ContrastiveDivergence
from ..models.energy.enumeration import ENUMERABLE
from ..models.energy.rbm import BernoulliRBM as Machine
from ..random import fork_rng
from ..tensor import Tensor
from .compatible import seed_of
from .transformer import Transformer
from .validation import take

__all__ = ["BernoulliRBM"]

WORTH_COMPILING = 300  # steps of one fit
CHUNK = 4096  # rows transformed at once


class BernoulliRBM(Transformer):
    """A restricted Boltzmann machine of bits, or of numbers in [0, 1] taken as their chances (N1 §4.2).

    Learned by persistent contrastive divergence with plain steps of size `learning_rate`, as in scikit-learn, whose
    parameters and attributes it has; `ais_score_samples` is ours. A number as `random_state` makes it repeatable.

    After `fit`: `components_` (n_components, features), `intercept_hidden_`, `intercept_visible_`, `h_samples_`
    (batch_size, n_components), the hidden units of the chains, `n_features_in_`, `feature_names_in_` (of frames).

    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> BernoulliRBM(n_components=2, random_state=0).fit(X).transform(X).shape
    (4, 2)
    """

    def __init__(
        self,
        n_components: int = 256,
        *,
        learning_rate: float = 0.1,
        batch_size: int = 10,
        n_iter: int = 10,
        verbose: int | bool = 0,
        random_state: Any = None,
    ) -> None:
        self.n_components, self.learning_rate, self.batch_size = n_components, learning_rate, batch_size
        self.n_iter, self.verbose, self.random_state = n_iter, verbose, random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on rows X (N, D) of numbers in [0, 1], dense or sparse, from fresh weights."""
        rows, seed = self._begin(X), seed_of(self.random_state)
        machine, stream = self._started(rows, seed), weft.Generator().manual_seed(seed).fold_in(1)
        size = min(self.batch_size, rows.shape[0])
        steps = self.n_iter * (rows.shape[0] // size)
        learn = _learning(machine, self.learning_rate, stream, compiled=steps >= WORTH_COMPILING)
        for epoch in range(self.n_iter):
            order = stream.permutation(rows.shape[0])
            for start in range(0, len(order), size):
                learn(weft.tensor(take(rows, order[start : start + size])))
            _check_finite(machine)
            if self.verbose:
                likelihood = machine.pseudo_log_likelihood(weft.tensor(take(rows, slice(0, CHUNK)))).mean().item()
                print(f"[{type(self).__name__}] Iteration {epoch + 1}, pseudo-likelihood = {likelihood:.2f}")
        self._keep(machine)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """One step on the rows X."""
        seed = seed_of(self.random_state)
        if self.__sklearn_is_fitted__():
            rows, machine = self._later_rows(X, self.components_.dtype), self._machine()
        else:
            rows = self._begin(X)
            machine = self._started(rows, seed)
        self._steps = getattr(self, "_steps", 0) + 1  # so that a fixed seed draws anew at every call
        stream = weft.Generator().manual_seed(seed).fold_in(1 + self._steps)
        _learning(machine, self.learning_rate, stream, compiled=False)(weft.tensor(take(rows, slice(None))))
        _check_finite(machine)
        self._keep(machine)
        return self

    def transform(self, X: Any) -> NDArray:
        """p(h = 1 | v): (N, D) → (N, n_components)"""
        return self._each(X, lambda machine, v: machine.encode(v))

    def gibbs(self, v: Any) -> NDArray:
        """One step of the chains from v: hidden units, then visible ones, of 0 and 1. (N, D) → (N, D)"""
        stream = self._stream()
        return self._each(v, lambda machine, part: machine.gibbs(part, 1, stream))

    def score_samples(self, X: Any) -> NDArray:
        """The pseudo-log-likelihood of each row, Σᵢ log p(vᵢ | all others): (N,)

        Over all bits, and so the same at every call; scikit-learn's is D times that of one bit at random, which is right
        in the mean. A proxy of the likelihood, which `ais_score_samples` encloses.
        """
        return self._each(X, lambda machine, v: machine.pseudo_log_likelihood(v))

    def ais_score_samples(
        self, X: Any, side: str = "upper", *, chains: int = 100, temperatures: int = 1000
    ) -> tuple[NDArray, float]:
        """log p of each row, by annealed importance sampling, from one side, and the standard error of all: (N,), ()

        side: "upper", or "lower" by the reverse walk from long chains; log p lies between the two, but for the errors
        """
        rows, machine, stream = self._later_rows(X, self._dtype()), self._machine(), self._stream()
        v = weft.tensor(take(rows, slice(None)))
        options = {
            "chains": chains,
            "temperatures": temperatures,
            "base": base_rates(v.clamp(0, 1)),
            "generator": stream,
        }
        if side == "lower" and machine.hidden > ENUMERABLE:
            options["start"] = machine.sample(chains, generator=stream, steps=temperatures)
        found = weft.compile(lambda v: machine.log_prob_bound(v, side, **options))(v)
        return found.value.numpy(), float(found.error[0])

    # ---- arrays outside, a machine inside ----------------------------------------------------------------------

    def _columns(self) -> int:
        return len(self.components_)

    def _dtype(self) -> Any:
        self._check_fitted()
        return self.components_.dtype

    def _begin(self, X: Any) -> Any:
        for name, least in (("n_components", 1), ("batch_size", 1), ("n_iter", 0)):
            value = getattr(self, name)
            self._expect(name, isinstance(value, (int, np.integer)) and value >= least, f"a whole number >= {least}")
        self._expect("learning_rate", self.learning_rate > 0, "> 0")
        self._steps = 0
        return self._first_rows(X)

    def _started(self, rows: Any, seed: int) -> Machine:
        """A machine with weights of N(0, 0.01²), no biases, and chains whose hidden units are off."""
        with fork_rng():
            weft.manual_seed(seed)
            machine = Machine(rows.shape[1], self.n_components, dtype=weft.from_numpy(np.empty(0, rows.dtype)).dtype)
        machine.register_buffer(
            "hidden_chains", weft.zeros(self.batch_size, self.n_components, dtype=machine.weight.dtype)
        )
        return machine

    def _machine(self) -> Machine:
        """The machine of the present arrays, which a user may have changed."""
        self._check_fitted()
        hidden, visible = self.components_.shape
        machine = Machine(visible, hidden, dtype=weft.from_numpy(np.empty(0, self.components_.dtype)).dtype)
        with weft.no_grad():
            machine.weight.copy_(weft.tensor(self.components_.T))
            machine.visible_bias.copy_(weft.tensor(self.intercept_visible_))
            machine.hidden_bias.copy_(weft.tensor(self.intercept_hidden_))
        machine.register_buffer("hidden_chains", weft.tensor(self.h_samples_).to(machine.weight.dtype))
        return machine.requires_grad_(True)

    def _keep(self, machine: Machine) -> None:
        self.components_ = machine.weight.detach().numpy().T.copy()
        self.intercept_visible_ = machine.visible_bias.detach().numpy().copy()
        self.intercept_hidden_ = machine.hidden_bias.detach().numpy().copy()
        self.h_samples_ = machine.hidden_chains.numpy().copy()

    def _each(self, X: Any, f: Any) -> NDArray:
        rows, machine = self._later_rows(X, self._dtype()), self._machine()
        with weft.no_grad():
            starts = range(0, rows.shape[0], CHUNK)
            parts = [f(machine, weft.tensor(take(rows, slice(i, i + CHUNK)))).numpy() for i in starts]
        return np.concatenate(parts)

    def _stream(self) -> weft.Generator:
        return weft.Generator().manual_seed(seed_of(self.random_state)).fold_in(0)


def _learning(machine: Machine, rate: float, stream: weft.Generator, compiled: bool) -> Any:
    """A step on a batch. As in scikit-learn chains are kept by their hidden units; visible ones, drawn given these, stand for
    the model."""
    learning = ContrastiveDivergence(machine)  # for its loss alone: the negatives are ours
    optimizer = weft.optim.SGD([machine.weight, machine.visible_bias, machine.hidden_bias], lr=rate)

    def step(v: Tensor) -> None:
        with weft.no_grad():
            negatives = machine.draw_visible(machine.hidden_chains @ machine.weight.mT, machine.visible_bias, stream)
        optimizer.zero_grad()
        learning.loss(v, negatives).backward()
        with weft.no_grad():
            machine.hidden_chains.copy_(machine.draw_hidden(negatives, stream))
        optimizer.step()

    return weft.compile(step) if compiled else step


def _check_finite(machine: Machine) -> None:
    if not machine.weight.isfinite().all():
        raise InvalidValueError("training diverged: weights are not finite; scale X to [0, 1], or lower learning_rate")
