"""The choice between Winograd's filtering and direct tiles for a convolution, and between its forms."""

from __future__ import annotations

from ...runtime.switches import switch
from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.target import Target
from .conv import ConvForward, ConvShape, DirectConv
from .conv_grad import ConvInputGrad, ConvWeightGrad
from .conv_tiles import Taps
from .winograd import WinogradConv, WinogradWeightGrad, tile_count
from .winograd_panels import WinogradPanels

__all__ = ["choose_forward", "choose_input_grad", "choose_weight_grad"]

BLOCKS, WEIGHT_BLOCK = (32, 16, 8), 64  # tiles
TYPICAL_THREADS = 2  # results round differently by size of tile: it is chosen for these, on any number of threads
GAIN = {2: 1.8, 4: 2.85}  # measured on large images, over direct tiles at the peak of the processor


def best_tile(shape: ConvShape, kind: str, taps: tuple[Taps, Taps], threads: int) -> int:
    """The m of the fastest F(m×m, 3×3) for results and sources as in `taps`; 0 where direct tiles are faster."""
    allowed = switch("WEFT_WINOGRAD") != "0" and kind == "f32" and shape.groups == 1
    fits = shape.kernel == (3, 3) and shape.stride == (1, 1) and shape.dilation == (1, 1)
    if not (allowed and fits and shape.inputs % 16 == shape.outputs % 16 == 0):
        return 0
    inside = [sum(t.count(r) for r in range(t.results)) / (3 * t.results) for t in taps]
    speed = {0: 1 / max(inside[0] * inside[1], 0.1)}
    for m, gain in GAIN.items():
        tiles = tile_count(shape.batch, taps, m)
        used = shape.batch * taps[0].results * taps[1].results / (tiles * m * m)
        busy = min(1.0, -(-tiles // BLOCKS[-1]) / threads)
        speed[m] = gain * used * busy * tiles / (tiles + 8)  # transforming the weights costs about 8 tiles
    return max(speed, key=lambda m: speed[m])


def faster(direct: DirectConv, shape: ConvShape, threads: int) -> Kernel:
    """The kernel itself or one by Winograd that computes the same."""
    m = best_tile(shape, direct.kind, direct.taps, TYPICAL_THREADS)
    if m == 0:
        return direct
    tiles = tile_count(shape.batch, direct.taps, m)
    weights = 4 * (m + 2) ** 2 * direct.inner * direct.outer
    if tiles <= direct.outer and weights > 2 * Target.host().near.operand:
        return WinogradPanels(direct, m, threads)
    return WinogradConv(direct, m, next((b for b in BLOCKS if tiles >= b * threads), BLOCKS[-1]))


def choose_forward(
    shape: ConvShape,
    x: Access,
    weight: Access,
    body: Body,
    workspace_word: int,
    scratch_word: int,
    threads: int = 2,
) -> Kernel:
    """The faster kernel for y of x and w: ConvForward or WinogradConv."""
    return faster(ConvForward(shape, x, weight, body, workspace_word, scratch_word), shape, threads)


def choose_input_grad(
    shape: ConvShape,
    y: Access,
    weight: Access,
    body: Body,
    workspace_word: int,
    scratch_word: int,
    threads: int = 2,
) -> Kernel:
    """The faster kernel for x of y and w: ConvInputGrad or WinogradConv."""
    return faster(ConvInputGrad(shape, y, weight, body, workspace_word, scratch_word), shape, threads)


def choose_weight_grad(
    shape: ConvShape, x: Access, y: Access, body: Body, workspace_word: int, scratch_word: int
) -> Kernel:
    """The faster kernel for w of x and y: ConvWeightGrad or WinogradWeightGrad."""
    direct = ConvWeightGrad(shape, x, y, body, workspace_word, scratch_word)
    m = best_tile(shape, x.kind, shape.forward_taps, 1)
    return WinogradWeightGrad(direct, m, WEIGHT_BLOCK) if m else direct
