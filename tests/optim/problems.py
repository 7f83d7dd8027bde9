"""A small non-convex problem that PyTorch and Weft solve side by side, and the way between their tensors."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import torch

import weft

torch.set_num_threads(1)
SHAPES = {"w1": (6, 4), "b": (6,), "w2": (3, 6), "scale": (), "still": (2, 2)}  # 'still' gets no gradient


def parameter(library: ModuleType, array: Any) -> Any:
    return library.nn.Parameter(library.from_numpy(np.array(array)))


def start(library: ModuleType, shapes: dict[str, tuple[int, ...]] = SHAPES, dtype: Any = np.float64) -> dict[str, Any]:
    """The same parameters in either library."""
    rng = np.random.default_rng(7)
    out = {}
    for name, shape in shapes.items():
        array = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype is np.complex128 else 0)
        out[name] = parameter(library, np.asarray(array, dtype))
    return out


def loss(library: ModuleType, p: dict[str, Any], step: int) -> Any:
    """A two-layer network on a fixed batch, with a bumpy term; the batch changes with the step."""
    rng = np.random.default_rng(step % 5)
    x, y = (library.from_numpy(rng.standard_normal(shape)) for shape in ((8, 4), (8, 3)))
    hidden = library.tanh(x @ p["w1"].T + p["b"])
    bumps = sum((0.2 * library.cos(3 * v)).sum() for k, v in p.items() if k != "still")
    return ((hidden @ p["w2"].T * p["scale"] - y) ** 2).mean() + bumps


def bowl(library: ModuleType, p: dict[str, Any], step: int) -> Any:
    """A bumpy bowl for any shapes, complex ones too."""
    real = {k: library.view_as_real(v) if v.is_complex() else v for k, v in p.items()}
    return sum(((v - 0.3) ** 2).sum() * 0.5 + library.cos(3 * v).sum() * 0.3 for v in real.values())


class Walk:
    """An optimiser of one library on its way down."""

    def __init__(self, library: ModuleType, name: str, options: dict[str, Any], groups: Any = None, **how: Any):
        self.library, self.name, self.options, self.groups = library, name, options, groups
        self.loss = how.pop("loss", loss)
        self.p = start(library, **how)
        self.make()

    def make(self) -> None:
        params = list(self.p.values())
        if self.groups:
            params = [{"params": params[:2]}, {"params": params[2:], **self.groups}]
        self.optimizer = getattr(self.library.optim, self.name)(params, **self.options)

    def step(self, number: int) -> None:
        def closure() -> Any:
            self.optimizer.zero_grad()
            value = self.loss(self.library, self.p, 0 if self.name == "LBFGS" else number)
            value.backward()
            return value

        self.optimizer.step(closure)

    def values(self) -> dict[str, np.ndarray]:
        return {k: v.detach().numpy().copy() for k, v in self.p.items()}


def assert_same(a: Walk, b: Walk, tolerance: float = 1e-6) -> None:
    for (name, x), y in zip(a.values().items(), b.values().values(), strict=True):
        np.testing.assert_allclose(y, x, rtol=tolerance, atol=tolerance, err_msg=name)


def converted(tree: Any, to: ModuleType) -> Any:
    """A state dict with its tensors in the other library."""
    if isinstance(tree, dict):
        return {k: converted(v, to) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(converted(v, to) for v in tree)
    if isinstance(tree, (weft.Tensor, torch.Tensor)):
        return to.from_numpy(np.array(tree.detach().numpy()))
    return tree


def structure(tree: Any) -> Any:
    """Keys, types, shapes and element types of a state dict."""
    if isinstance(tree, dict):
        return {k: structure(v) for k, v in tree.items()}
    if isinstance(tree, (weft.Tensor, torch.Tensor)):
        return tuple(tree.shape), str(tree.dtype).rpartition(".")[2]
    return "number" if isinstance(tree, (int, float)) else type(tree).__name__
