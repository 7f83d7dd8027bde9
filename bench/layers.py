"""What a layer costs, forward and backward: Weft against PyTorch, eager, in turns, at two sizes each.

The gradient of the input is wanted as well as those of the parameters, as in the middle of a network. Prints medians
and the ratio Weft / PyTorch (below 1: Weft is faster).

    python bench/layers.py [--rounds 15] [--threads 2] [--json FILE]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turns import run

# layer, its arguments, shape of its input
LAYERS: tuple[tuple[str, tuple[Any, ...], tuple[int, ...]], ...] = (
    ("Linear", (64, 64), (32, 64)),
    ("Linear", (1024, 1024), (256, 1024)),
    ("Conv2d", (3, 16, 3), (8, 3, 32, 32)),
    ("Conv2d", (32, 64, 3), (16, 32, 32, 32)),
    ("BatchNorm2d", (16,), (8, 16, 16, 16)),
    ("BatchNorm2d", (64,), (32, 64, 32, 32)),
    ("LayerNorm", (64,), (32, 64)),
    ("LayerNorm", (512,), (64, 128, 512)),
    ("LSTM", (32, 32), (10, 8, 32)),
    ("LSTM", (128, 128), (32, 32, 128)),
    ("MultiheadAttention", (32, 4), (16, 4, 32)),
    ("MultiheadAttention", (256, 8), (128, 8, 256)),
    ("CrossEntropyLoss", (), (32, 10)),
    ("CrossEntropyLoss", (), (512, 5000)),
)


def programs(library: Any) -> dict[str, Callable[[], Any]]:
    """One program a layer and size, written once for both libraries."""
    library.manual_seed(0)
    made = {}
    for name, arguments, shape in LAYERS:
        layer = getattr(library.nn, name)(*arguments)
        made[f"{name}{arguments if arguments else ''} on {'×'.join(map(str, shape))}"] = program(library, layer, shape)
    return made


def program(library: Any, layer: Any, shape: tuple[int, ...]) -> Callable[[], None]:
    """One forward and backward pass with fresh gradients."""
    x = library.randn(*shape).requires_grad_()
    name = type(layer).__name__
    if name == "MultiheadAttention":
        forward = lambda: layer(x, x, x, need_weights=False)[0]
    elif name == "CrossEntropyLoss":
        target = library.randint(0, shape[1], (shape[0],))
        forward = lambda: layer(x, target)
    elif name == "LSTM":
        forward = lambda: layer(x)[0]
    else:
        forward = lambda: layer(x)
    incoming = library.randn_like(forward().detach())

    def once() -> None:
        x.grad = None
        layer.zero_grad(set_to_none=True)
        forward().backward(incoming)

    return once


if __name__ == "__main__":
    run("layer, forward + backward", __doc__, programs, rounds=15, seconds=0.005)
