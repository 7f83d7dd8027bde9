"""Convolutions, pooling, folding and resampling as anchors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...runtime.threads import get_num_threads
from ..anchor import Anchor, AnchorNode, AnchorValue, Strides, Whole
from ..body import Access, Body
from ..kernel import Kernel
from ..llvm.values import type_of
from .conv import ConvShape
from .folding import FoldLines, Line
from .pooling import AddAtLargest, LargestInWindows, PoolShape
from .resampling import ResampleLines, padded_rows
from .winograd_choice import choose_forward, choose_input_grad, choose_weight_grad

__all__ = ["convolve", "convolve_kernel", "fold", "max_pool", "max_pool_slope", "resample"]


def windows_of(node: AnchorNode, x: AnchorValue, y: AnchorValue, w: AnchorValue, params: dict[str, Any]) -> Any:
    """The shape of a convolution between images x and y with kernels w; None where there is no native form."""
    if len(x.shape) not in (3, 4) or type_of(x.dtype) not in ("f32", "f64") or not (x.size and y.size and w.size):
        return None
    one = (1,) if len(x.shape) == 3 else ()
    pad = (0,) if len(x.shape) == 3 else ()
    return ConvShape(
        batch=x.shape[0],
        inputs=x.shape[1],
        outputs=y.shape[1],
        image=(*one, *x.shape[2:]),
        counts=(*one, *y.shape[2:]),
        kernel=(*one, *w.shape[2:]),
        stride=(*one, *params["stride"]),
        padding=(*pad, *params["padding"]),
        dilation=(*one, *params["dilation"]),
        groups=params["groups"],
    )


def _image(arg: int, kind: str, strides: Strides) -> Access:
    """An image (n, c, *positions) as an access in the order (n, h, w, c)."""
    n, c, *rest = strides
    high, wide = rest if len(rest) == 2 else (0, *rest)
    return Access(arg, kind, (n, high, wide, c))


def _filter(arg: int, kind: str, strides: Strides) -> Access:
    o, i, *rest = strides
    high, wide = rest if len(rest) == 2 else (0, *rest)
    return Access(arg, kind, (o, i, high, wide))


def _images_body(body: Body) -> Body:
    """A body over (n, c, *positions) as one over (n, h, w, c)."""
    turn = lambda a: _image(a.arg, a.kind, a.strides)
    return Body(
        body.given,
        body.constants,
        tuple(map(turn, body.loads)),
        body.steps,
        tuple((turn(a), n) for a, n in body.stores),
    )


def convolve(node: AnchorNode, x: AnchorValue, w: AnchorValue, adjoint: bool = False) -> Anchor | None:
    """The convolution of images with kernels, or its adjoint, which spreads images over larger ones."""
    shape = windows_of(node, *((node.output, x) if adjoint else (x, node.output)), w, node.params)
    if shape is None or x is w:  # one value cannot lie both as an image and as kernels
        return None
    kind = type_of(x.dtype)

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        image, weight = _image(0, kind, strides[0]), _filter(1, kind, strides[1])
        choose = choose_input_grad if adjoint else choose_forward
        return choose(shape, image, weight, _images_body(body), word, word + 1, get_num_threads())

    anchor = Anchor(node, (x, w), node.output.shape, make)
    anchor.images = (node.output, *(() if shape.few and not adjoint else (x,)))
    anchor.dense = (w,)
    return anchor


def convolve_kernel(node: AnchorNode, x: AnchorValue, y: AnchorValue) -> Anchor | None:
    """The kernels that a convolution of x must have had, weighted by y: the gradient of the weights."""
    shape = windows_of(node, x, y, node.output, node.params)
    if shape is None:
        return None
    kind = type_of(x.dtype)

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        return choose_weight_grad(shape, _image(0, kind, strides[0]), _image(1, kind, strides[1]), body, word, word + 1)

    inner = node.output.size // node.output.shape[0]
    anchor = Anchor(node, (x, y), (node.output.shape[0], inner), make)
    anchor.images = (y,) if shape.few else (x, y)
    return anchor


def _pool_shape(images: AnchorValue, params: dict[str, Any]) -> Any:
    if len(images.shape) not in (3, 4) or type_of(images.dtype) not in ("f32", "f64"):
        return None
    one, zero = ((1,), (0,)) if len(images.shape) == 3 else ((), ())
    return PoolShape(
        batch=images.shape[0],
        channels=images.shape[1],
        image=(*one, *images.shape[2:]),
        counts=(*one, *params["counts"]),
        size=(*one, *params["size"]),
        stride=(*one, *params["stride"]),
        padding=(*zero, *params["padding"]),
        dilation=(*one, *params["dilation"]),
    )


def max_pool(node: AnchorNode) -> Whole | None:
    """The largest of each window and its number there."""
    (x,), (largest, winner) = node.inputs, node.outputs
    shape = _pool_shape(x, node.params)
    if shape is None:
        return None
    kind = type_of(x.dtype)

    def make(strides: Sequence[Strides], results: Sequence[Strides]) -> Kernel:
        value = Body(loads=(_image(0, kind, strides[0]),))
        stores = ((_image(1, kind, results[0]), 0), (_image(2, "u8", results[1]), 2))
        return LargestInWindows(shape, value, Body(given=(kind, "i64", "u8"), stores=stores))

    anchor = Whole(node, (x,), make)
    anchor.images = (x, largest, winner)
    return anchor


def max_pool_slope(node: AnchorNode) -> Whole | None:
    """Gradients brought back to the elements that were largest."""
    g, winner = node.inputs
    shape = _pool_shape(node.output, node.params)
    if shape is None:
        return None
    kind = type_of(g.dtype)

    def make(strides: Sequence[Strides], results: Sequence[Strides]) -> Kernel:
        value = Body(loads=(_image(0, kind, strides[0]),))
        body = Body(given=(kind,), stores=((_image(2, kind, results[0]), 0),))
        return AddAtLargest(shape, value, _image(1, "u8", strides[1]), body, "number")

    anchor = Whole(node, (g, winner), make)
    anchor.images = (g, winner, node.output)
    return anchor


def fold(node: AnchorNode, dims: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Anchor | None:
    """Windows (…, count at each of `dims`, …, *sizes) added into lines (…, length at each of `dims`, …)."""
    (x,), out, kind = node.inputs, node.output, type_of(node.output.dtype)
    if kind in (None, "i1") or not (x.size and out.size):
        return None
    kept = len(out.shape)

    def make(given: Sequence[Strides], body: Body, word: int) -> Kernel:
        steps = given[0]
        lines = [
            Line(d, out.shape[d], x.shape[d], x.shape[kept + n], steps[d], steps[kept + n], strides[n], dilations[n])
            for n, d in enumerate(dims)
        ]
        own = tuple(0 if d in dims else s for d, s in enumerate(steps[:kept]))
        return FoldLines(out.shape, lines, Access(0, kind, own), body)

    return Anchor(node, (x,), out.shape, make)


def resample(node: AnchorNode, x: AnchorValue, dim: int, taps: Any, transposed: bool) -> Anchor | None:
    """The lines of x along `dim` times the sparse matrix (outputs, length) of taps, or its transpose."""
    out, kind = node.output, type_of(node.output.dtype)
    if kind not in ("f32", "f64") or not (x.size and out.size):
        return None
    index, weight = map(np.ascontiguousarray, padded_rows(taps.matrix(x.dtype, transposed)))
    most, outputs = index.shape

    def make(strides: Sequence[Strides], body: Body, word: int) -> Kernel:
        own = tuple(0 if d == dim else s for d, s in enumerate(strides[0]))
        tables = Access(1, "i32", (outputs, 1)), Access(2, kind, (outputs, 1))
        return ResampleLines(out.shape, dim, most, Access(0, kind, own), strides[0][dim], *tables, body)

    return Anchor(node, (x, index, weight), out.shape, make)
