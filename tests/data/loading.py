"""What tests of loaders share: a map-style set, and batches of either library as plain values."""

from __future__ import annotations

import collections

import torch

import weft

Pair = collections.namedtuple("Pair", "x y")


def plain(value):
    """Tensors of either kind as lists, inside their containers."""
    if isinstance(value, (weft.Tensor, torch.Tensor)):
        return (str(value.dtype).split(".")[-1], value.tolist())
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, Pair):
        return Pair(*map(plain, value))
    return type(value)(map(plain, value)) if isinstance(value, (list, tuple)) else value


class Squares:
    """A map-style set that needs no base class."""

    def __init__(self, n, sample=lambda i: (i, i * i)):
        self.n, self.sample = n, sample

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if not 0 <= i < self.n:
            raise IndexError(i)
        return self.sample(i)
