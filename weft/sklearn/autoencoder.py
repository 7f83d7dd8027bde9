"""`Autoencoder` as a transformer: codes by `transform`, rows again by `inverse_transform`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import weft

from ..errors import InvalidValueError
from ..models.autoencoders.autoencoder import Autoencoder as Model
from ..models.autoencoders.deep import DeepAutoencoder
from ..random import fork_rng, manual_seed
from ..tensor import Tensor
from .compatible import seed_of
from .learner import CHUNK, Patience
from .transformer import Transformer
from .validation import check_rows, take

__all__ = ["Autoencoder"]


class Autoencoder(Transformer):
    """A deep autoencoder: features – hidden … – n_components – … hidden – features, trained compiled by Adam.

    n_components  numbers of a code
    hidden, activation      layers between rows and codes; none is principal component analysis, trained
    error         "squared_error", or "cross_entropy" for rows in [0, 1]
    noise, penalties        as of `weft.models.autoencoders.Autoencoder`: `Masking(0.3)`, `[Contraction(0.1)]` …
    module        None, or a function module(features, n_components) that makes a `weft.models.autoencoders.Autoencoder`;
                  then the five above do not count
    tol, n_iter_no_change   training ends when the loss has not improved by tol for so many epochs
    random_state  None, a number, or a generator; a number makes `fit` repeatable
    dtype         "float32", "float64", or None: float32 for float32 data, else float64

    After `fit`: `module_`, `n_features_in_`, `feature_names_in_` (of frames), `n_iter_` (epochs), `loss_curve_`.

    >>> X = np.random.default_rng(0).standard_normal((100, 2)) @ np.ones((2, 5))
    >>> model = Autoencoder(1, hidden=(), lr=0.05, max_epochs=100, random_state=0).fit(X)
    >>> bool(model.score(X) > 0.99)
    True
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        hidden: Sequence[int] = (100,),
        activation: str = "relu",
        error: str = "squared_error",
        noise: Callable[[Tensor, Any], Tensor] | None = None,
        penalties: Sequence[Any] = (),
        module: Callable[[int, int], Model] | None = None,
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        batch_size: int = 200,
        max_epochs: int = 200,
        tol: float = 1e-4,
        n_iter_no_change: int = 10,
        random_state: Any = None,
        dtype: str | None = None,
        compile: bool = True,
        verbose: bool = False,
    ) -> None:
        self.n_components, self.hidden, self.activation, self.error = n_components, hidden, activation, error
        self.noise, self.penalties, self.module = noise, penalties, module
        self.lr, self.weight_decay, self.batch_size, self.max_epochs = lr, weight_decay, batch_size, max_epochs
        self.tol, self.n_iter_no_change, self.random_state = tol, n_iter_no_change, random_state
        self.dtype, self.compile, self.verbose = dtype, compile, verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on rows X (N, D), array, frame or sparse, from fresh weights."""
        self._check_options()
        rows, seed = self._first_rows(X, self.dtype and np.dtype(self.dtype)), seed_of(self.random_state)
        with fork_rng():
            manual_seed(seed)  # weights and noise draw from the default generator
            self.module_ = self._made().to(weft.from_numpy(np.empty(0, rows.dtype)).dtype)
            self._train(rows, weft.Generator().manual_seed(seed))
        return self

    def transform(self, X: Any) -> NDArray:
        """Codes: (N, D) → (N, n_components)"""
        return self._each(self._later_rows(X, self._dtype()), self.module_.encode)

    def inverse_transform(self, X: Any) -> NDArray:
        """Rows at codes: (N, n_components) → (N, D)"""
        codes = check_rows(X, self._dtype())
        if codes.shape[1] != self.n_components:
            raise InvalidValueError(f"X: expected codes of {self.n_components} numbers, got {codes.shape[1]}")
        return self._each(codes, self.module_.decode)

    def score(self, X: Any, y: Any = None) -> float:
        """The share of the variance of X that its reconstruction keeps, 1 − Σ (x − x̂)² / Σ (x − mean)²."""
        rows = self._later_rows(X, self._dtype())
        lost = self._each(rows, self.module_.squared_error).sum(dtype=np.float64)
        dense = take(rows, slice(None)).astype(np.float64)
        return float(1 - lost / max(((dense - dense.mean(0)) ** 2).sum(), np.finfo(np.float64).tiny))

    # ---- training ----------------------------------------------------------------------------------------------

    def _made(self) -> Model:
        if self.module is not None:
            return self.module(self.n_features_in_, self.n_components)
        parts = {"noise": self.noise, "penalties": self.penalties}
        return DeepAutoencoder(
            self.n_features_in_, tuple(self.hidden), self.n_components, self.error, self.activation, **parts
        )

    def _train(self, rows: Any, stream: weft.Generator) -> None:
        """Epochs until the limit, or until nothing improves. Rows left over after the last batch sit out an epoch."""
        model, size = self.module_.train(), min(self.batch_size, rows.shape[0])
        step = _stepping(model, weft.optim.AdamW(model.parameters(), lr=self.lr, weight_decay=self.weight_decay))
        step = weft.compile(step, fallback="eager") if self.compile else step
        patience, self.n_iter_, self.loss_curve_ = Patience(self.tol, self.n_iter_no_change), 0, []
        while self.n_iter_ < self.max_epochs:
            order = stream.permutation(rows.shape[0])[: rows.shape[0] // size * size].reshape(-1, size)
            loss = float(np.mean([step(weft.tensor(take(rows, index))).item() for index in order]))
            self._note(loss)
            if patience.exhausted(-loss):
                break
        model.eval()

    def _note(self, loss: float) -> None:
        self.n_iter_ += 1
        self.loss_curve_.append(loss)
        if self.verbose:
            print(f"epoch {self.n_iter_}: loss {loss:.6g}")
        if not np.isfinite(loss):
            raise InvalidValueError(
                f"training diverged: loss {loss} in epoch {self.n_iter_}; scale the data, or lower lr"
            )

    def _check_options(self) -> None:
        for name in ("n_components", "batch_size", "max_epochs"):
            value = getattr(self, name)
            self._expect(name, isinstance(value, (int, np.integer)) and value >= 1, "a whole number >= 1")
        self._expect("lr", self.lr > 0, "> 0")
        self._expect("dtype", self.dtype in (None, "float32", "float64"), "None, 'float32' or 'float64'")

    # ---- asking ------------------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "module_")

    def _columns(self) -> int:
        return self.n_components

    def _dtype(self) -> Any:
        self._check_fitted()
        parameter = next(self.module_.parameters(), weft.empty(0))
        return parameter.detach().numpy().dtype

    def _each(self, rows: Any, f: Callable[[Tensor], Tensor]) -> NDArray:
        with weft.inference_mode():
            starts = range(0, rows.shape[0], CHUNK)
            return np.concatenate([f(weft.tensor(take(rows, slice(i, i + CHUNK)))).numpy() for i in starts])


def _stepping(model: Model, optimizer: weft.optim.Optimizer) -> Callable[[Tensor], Tensor]:
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model.loss(x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
