"""What one small operation costs: Weft against PyTorch, eager, in turns.

Each library lives in its own process of one group with two threads; the driver lets them run in turns
and prints medians and the ratio Weft / PyTorch (below 1: Weft is faster).

    python bench/eager.py [--rounds 41] [--threads 2] [--json FILE]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turns import run

SIZE = 8  # the chains work on 8 × 8 float32
LENGTH = 200  # operations in a chain


def chains(library: Any) -> dict[str, Callable[[], Any]]:
    """The programs to be timed, written once for both libraries."""
    library.manual_seed(0)
    plain = library.randn(SIZE, SIZE)
    other = library.randn(SIZE, SIZE)
    leaf = library.randn(SIZE, SIZE).requires_grad_()

    def scalars(x: Any) -> Any:
        for _ in range(LENGTH // 2):
            x = x * 1.01 + 0.1
        return x.sum()

    def tensors(x: Any) -> Any:
        for _ in range(LENGTH // 4):
            x = (x * other + other).tanh() - plain
        return x.sum()

    def layers(x: Any) -> Any:
        for _ in range(LENGTH // 4):
            x = (x @ other * 0.2 + plain).relu()
        return x.sum()

    def backward(chain: Callable[[Any], Any]) -> Callable[[], Any]:
        def program() -> None:
            leaf.grad = None
            chain(leaf).backward()

        return program

    programs: dict[str, Callable[[], Any]] = {}
    for name, chain in (("scalars", scalars), ("tensors", tensors), ("layers", layers)):
        programs[f"{name}: forward, no gradient"] = lambda chain=chain: chain(plain)
        programs[f"{name}: forward"] = lambda chain=chain: chain(leaf)
        programs[f"{name}: forward + backward"] = backward(chain)
    return programs


if __name__ == "__main__":
    run(f"chain of {LENGTH} operations", __doc__, chains)
