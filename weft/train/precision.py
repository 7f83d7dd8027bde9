"""Mixed precision: products in 16 bits over weights kept in 32, and the scaling of losses that float16 needs.

`Trainer(precision='bf16-mixed')` rounds the inputs, weights and outputs of linear and convolution layers to bfloat16, in
the forward pass and (their gradients) in the backward pass. Sums are accumulated in float32, the weights themselves,
the optimiser, normalisation, softmax and losses stay float32: the arithmetic of PyTorch's autocast on the CPU. The
rounded numbers are held in float32. In compiled steps, on processors with AVX512-BF16, products of bfloat16 numbers are about
twice as fast as those of float32; elsewhere this shows what mixed precision does to a training and is not faster, of which a
warning tells. '16-mixed' does the same with float16 and a `GradScaler`, and is not faster anywhere.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator
from typing import Any

import weft

from .. import nn
from ..errors import ConditionError, OptionError, StateError
from ..nn.module import Module
from ..optim import Optimizer
from ..tape.modes import no_grad
from ..tensor import Tensor

__all__ = ["GradScaler", "MixedPrecision", "make_precision"]

ROUNDED = (
    *(nn.Linear, nn.Bilinear, nn.Conv1d, nn.Conv2d, nn.Conv3d),
    *(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
)


def make_precision(name: str) -> MixedPrecision | None:
    """The precision of a trainer: '32' (None), 'bf16-mixed' or '16-mixed'."""
    known = {
        **dict.fromkeys(("32", "32-true", 32)),
        "bf16-mixed": "bfloat16",
        "bf16": "bfloat16",
        "16-mixed": "float16",
        "16": "float16",
    }
    if name not in known:
        raise OptionError(f"precision must be '32', 'bf16-mixed' or '16-mixed', got {name!r}")
    kind = known[name]
    return None if kind is None else MixedPrecision(getattr(weft, kind))


class MixedPrecision:
    """Rounds what goes through the products of a module to a 16-bit type."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.scaler = GradScaler() if dtype is weft.float16 else None

    @contextlib.contextmanager
    def casting(self, module: Module) -> Iterator[None]:
        """Within it, layers of the kinds above round their inputs, weights and outputs."""
        layers = [layer for layer in module.modules() if isinstance(layer, ROUNDED) and "forward" not in vars(layer)]
        for layer in layers:
            vars(layer)["forward"] = self._rounding(layer)
        try:
            yield
        finally:
            for layer in layers:
                del vars(layer)["forward"]

    def _rounding(self, layer: Module) -> Any:
        def forward(*inputs: Any, **options: Any) -> Any:
            table = layer._parameters
            before = dict(table)
            table.update({name: self.rounded(p) for name, p in before.items() if p is not None})
            try:
                out = type(layer).forward(layer, *map(self.rounded, inputs), **options)
            finally:
                table.update(before)
            return self.rounded(out)

        return forward

    def rounded(self, x: Any) -> Any:
        """x rounded to the 16-bit type and back; the gradient is rounded on its way, too."""
        if not isinstance(x, Tensor) or x.dtype is not weft.float32:
            return x
        return x.to(self.dtype).to(x.dtype)


class GradScaler:
    """Scales the loss so that small gradients do not vanish in float16; PyTorch's `torch.amp.GradScaler`.

    A step with gradients that are not finite is left out and the scale multiplied with `backoff_factor`; after
    `growth_interval` good steps in a row it is multiplied with `growth_factor`.

    >>> scaler.scale(loss).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    """

    def __init__(
        self,
        device: str = "cpu",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and not growth_factor > 1:
            raise OptionError(f"GradScaler: the growth factor must be > 1.0, got {growth_factor}")
        if enabled and not backoff_factor < 1:
            raise OptionError(f"GradScaler: the backoff factor must be < 1.0, got {backoff_factor}")
        self._enabled = enabled
        self._scale = weft.tensor(float(init_scale))  # read in compiled steps, so it changes in place
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._found: dict[
            int, bool
        ] = {}  # optimisers that were unscaled since the last update: was anything not finite?
        self._stepped: set[int] = set()

    def scale(self, outputs: Any) -> Any:
        """The loss (or losses) times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, Iterable):
            return type(outputs)(self.scale(part) for part in outputs)  # pyright: ignore[reportCallIssue]
        raise OptionError(f"GradScaler.scale: expected tensors, got {type(outputs).__name__}")

    @no_grad()
    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimiser by the scale, and note whether all are finite."""
        if not self._enabled:
            return
        if id(optimizer) in self._stepped:
            raise StateError("unscale_() is being called after step().")
        if id(optimizer) in self._found:
            raise StateError("unscale_() has already been called on this optimizer since the last update().")
        inverse, bad = 1.0 / self.get_scale(), False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    bad = bad or not bool(p.grad.isfinite().all())
                    p.grad = p.grad * inverse
        self._found[id(optimizer)] = bad

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step()` on unscaled gradients, unless they are not finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs or args:
            raise StateError("Closure use is not currently supported if GradScaler is enabled.")
        if id(optimizer) in self._stepped:
            raise StateError("step() has already been called since the last update().")
        if id(optimizer) not in self._found:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return None if self._found[id(optimizer)] else optimizer.step()

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Set the scale for the next step."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale.fill_(float(new_scale))
        elif not self._found:
            raise ConditionError("No inf checks were recorded prior to update.")
        elif any(self._found.values()):
            self._scale.fill_(self.get_scale() * self._backoff_factor)
            self._growth_tracker = 0
        else:
            self._grow()
        self._found, self._stepped = {}, set()

    def _grow(self) -> None:
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            grown = self.get_scale() * self._growth_factor
            if math.isfinite(weft.tensor(grown).item()):
                self._scale.fill_(grown)
            self._growth_tracker = 0

    def get_scale(self) -> float:
        """The scale, 1 if scaling is off."""
        return self._scale.item() if self._enabled else 1.0

    def is_enabled(self) -> bool:
        return self._enabled

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """The scale and how it changes, in PyTorch's keys; empty if scaling is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from what `state_dict` gave."""
        if not self._enabled:
            return
        if not state_dict:
            raise StateError(
                "The source state dict is empty, possibly because it was saved from a disabled GradScaler."
            )
        self._scale.fill_(state_dict["scale"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]
