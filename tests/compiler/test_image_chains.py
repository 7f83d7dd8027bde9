"""Convolutions, reshapes, permutations and products one after the other: layouts that follow from one another."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import weft
import weft.nn.functional as F


def test_keys_out_of_a_convolution():
    """Attention as image models write it: heads are split off channels, positions become rows."""
    rng = np.random.default_rng(0)
    x, w, q = (rng.standard_normal(s).astype(np.float32) for s in ((4, 16, 4, 4), (64, 16, 1, 1), (4, 2, 16, 32)))

    def scores(package: Any, x: Any, w: Any, q: Any) -> Any:
        k = package.nn.functional.conv2d(x, w).reshape(4, 2, 32, 4, 4).permute(0, 1, 3, 4, 2).reshape(4, 2, 16, 32)
        y = q @ k.transpose(-1, -2)
        (y * y).sum().backward()
        return w.grad, y.detach()

    wanted = scores(torch, torch.tensor(x), torch.tensor(w, requires_grad=True), torch.tensor(q))
    weight = weft.tensor(w, requires_grad=True)
    found = weft.compile(lambda x, q: scores(weft, x, weight, q))(weft.tensor(x), weft.tensor(q))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("shape", [(16, 1, 8, 1), (2, 3, 1, 1), (5, 2, 1, 6)], ids=str)
def test_repeated_pixels(shape):
    """An expanded image lies with stride 0; beside it there are zeros all the same."""
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal(shape).astype(np.float32), rng.standard_normal((8, shape[1], 3, 3)).astype(np.float32)

    def step(package: Any, x: Any, w: Any) -> Any:
        wide = x.expand(*x.shape[:2], *(7 if s == 1 else s for s in x.shape[2:]))
        y = package.nn.functional.conv2d(wide, w, padding=1)
        (y * y).sum().backward()
        return y.detach(), w.grad

    wanted = step(torch, torch.tensor(x), torch.tensor(w, requires_grad=True))
    weight = weft.tensor(w, requires_grad=True)
    found = weft.compile(lambda x: step(weft, x, weight))(weft.tensor(x))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "function",
    [lambda x: F.conv2d(x, x, padding=1), lambda x: F.conv2d(x.sin(), x.sin(), padding=1)],
    ids=["itself", "equal expressions"],
)
def test_images_convolved_with_themselves(function):
    x = weft.randn(6, 8, 3, 3, generator=weft.Generator().manual_seed(0))
    np.testing.assert_allclose(weft.compile(function)(x).numpy(), function(x).numpy(), rtol=1e-4, atol=1e-4)


# --------------------------------------------------------------------------------------- random chains


class Chain:
    """A random function of images (2, 4, 4, 4) with its weights: `steps` is what it does, for messages."""

    def __init__(self, seed: int) -> None:
        self.random, self.generator = random.Random(seed), weft.Generator().manual_seed(seed)
        self.shape, self.weights, self.steps, self.work = [2, 4, 4, 4], [], [], []
        for _ in range(self.random.randint(3, 9)):
            name = self.random.choice(
                ("conv", "conv", "reshape", "reshape", "permute", "matmul", "narrow", "other", "sum")
            )
            getattr(self, name)()

    def __call__(self, x: weft.Tensor) -> list[weft.Tensor]:
        y = x
        for work in self.work:
            y = work(y)
        seed = weft.arange(y.numel()).reshape(y.shape).float().cos()
        return [y, *weft.autograd.grad((y * seed).sum(), [x, *self.weights])]

    def add(self, text: str, shape: list[int], work: Callable[[weft.Tensor], weft.Tensor]) -> None:
        self.steps.append(text)
        self.work.append(work)
        self.shape = shape

    def weight(self, *shape: int) -> weft.Tensor:
        self.weights.append(weft.randn(*shape, generator=self.generator, requires_grad=True))
        return self.weights[-1]

    def conv(self) -> None:
        if len(self.shape) == 4:
            out, size = self.random.choice((1, 2, 4, 8)), self.random.choice((1, 1, 3))
            w = self.weight(out, self.shape[1], size, size)
            shape = [self.shape[0], out, *self.shape[2:]]
            self.add(f"conv {out} {size}", shape, lambda x: F.conv2d(x, w, padding=size // 2))

    def reshape(self) -> None:
        rest, shape = int(np.prod(self.shape)), []
        for _ in range(3):
            shape.append(self.random.choice([d for d in range(1, rest + 1) if rest % d == 0]))
            rest //= shape[-1]
        shape.append(rest)
        self.random.shuffle(shape)
        self.add(f"reshape {shape}", shape, lambda x: x.reshape(shape))

    def permute(self) -> None:
        order = list(range(len(self.shape)))
        self.random.shuffle(order)
        self.add(f"permute {order}", [self.shape[d] for d in order], lambda x: x.permute(order))

    def matmul(self) -> None:
        width = self.random.choice((1, 2, 4, 6))
        if self.random.random() < 0.5:
            w = self.weight(width, self.shape[-2])
            self.add(f"matmul {width} from the left", [*self.shape[:-2], width, self.shape[-1]], lambda x: w @ x)
        else:
            w = self.weight(self.shape[-1], width)
            self.add(f"matmul {width}", [*self.shape[:-1], width], lambda x: x @ w)

    def narrow(self) -> None:
        d = self.random.randrange(4)
        if self.shape[d] > 1:
            shape = [s - (k == d) for k, s in enumerate(self.shape)]
            self.add(f"narrow {d}", shape, lambda x: x.narrow(d, 1, x.shape[d] - 1))

    def sum(self) -> None:
        d = self.random.randrange(4)
        shape = [3 if k == d else s for k, s in enumerate(self.shape)]
        self.add(f"sum and expand {d}", shape, lambda x: x.sum(d, keepdim=True).expand(shape))

    def other(self) -> None:
        d = self.random.randrange(4)
        name, work = self.random.choice(
            (
                ("relu", lambda x: x.relu()),
                ("contiguous", lambda x: x.contiguous()),
                (f"flip {d}", lambda x: x.flip(d)),
                ("transpose", lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2)),
            )
        )
        self.add(name, self.shape, work)


def check_chain(seed: int) -> None:
    chain = Chain(seed)
    x = weft.randn(2, 4, 4, 4, generator=chain.generator, requires_grad=True)
    for wanted, found in zip(chain(x), weft.compile(chain)(x), strict=True):
        wanted, found = wanted.detach().numpy(), found.detach().numpy()
        scale = max(float(np.abs(wanted).max(initial=0)), 1e-6)
        np.testing.assert_allclose(found / scale, wanted / scale, atol=1e-4, err_msg=", ".join(chain.steps))


@pytest.mark.parametrize("seed", range(12))
def test_random_chains(seed):
    check_chain(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 400, 40))
def test_many_random_chains(first):
    for seed in range(100 + first, 140 + first):
        check_chain(seed)
