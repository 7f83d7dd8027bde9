"""3×3 convolution with stride 1 by Winograd's minimal filtering, and the choice between it and direct tiles.

The classes take the arguments of ConvForward, ConvInputGrad and ConvWeightGrad. Rounding differs from direct sums (about
2e-5 relative for F(4×4)); WEFT_WINOGRAD=0 switches it off. float32 only.
"""

from __future__ import annotations

from .body import Access, Body
from .conv import ConvShape
from .kernel import Kernel


def choose_forward(
    shape: ConvShape, x: Access, weight: Access, body: Body, workspace_word: int, scratch_word: int
) -> Kernel:
    """The faster kernel for y of x and w: ConvForward or WinogradForward."""
    ...


def choose_input_grad(
    shape: ConvShape, y: Access, weight: Access, body: Body, workspace_word: int, scratch_word: int
) -> Kernel:
    """The faster kernel for x of y and w."""
    ...


def choose_weight_grad(
    shape: ConvShape, x: Access, y: Access, body: Body, workspace_word: int, scratch_word: int
) -> Kernel:
    """The faster kernel for w of x and y."""
    ...
