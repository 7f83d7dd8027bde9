"""Weights and noise that do not depend on the library's own random stream."""

import numpy as np
import torch


def reset(model, seed=0, scale=1.0):
    """Fill all parameters from a NumPy stream: matrices with variance 1 / fan-in, vectors small."""
    rng = np.random.RandomState(seed)
    with torch.no_grad():
        for _, p in sorted(model.named_parameters()):
            fan = np.prod(p.shape[1:]) if p.dim() > 1 else 100.0
            values = scale * rng.standard_normal(tuple(p.shape)) / np.sqrt(fan)
            if p.dim() <= 1 and (p == 1).all():
                values = values + 1.0  # scales of norms begin at 1
            p.copy_(torch.from_numpy(np.asarray(values)).to(p.dtype))
    return model


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.from_numpy(np.random.RandomState(seed).standard_normal(shape)).to(dtype)


def labels(n, classes, seed=0):
    return torch.from_numpy(np.random.RandomState(seed).randint(0, classes, n)).long()


def images(n, channels=1, size=12, classes=4, seed=0):
    """Bright squares at a place that depends on the class, with noise."""
    rng = np.random.RandomState(seed)
    y = np.arange(n) % classes
    x = 0.3 * rng.standard_normal((n, channels, size, size))
    for i, k in enumerate(y):
        a, b = divmod(int(k), 2)
        x[i, :, a * size // 2 : a * size // 2 + size // 2, b * size // 2 : b * size // 2 + size // 2] += 1
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y).long()
