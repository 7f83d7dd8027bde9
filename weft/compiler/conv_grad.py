"""The two adjoints of convolution over channels-last images: the gradients of its input and of its weights."""

from __future__ import annotations

from .body import Access, Body
from .conv import ConvShape
from .kernel import Kernel


class ConvInputGrad(Kernel):
    """x of y and w: x[n, o·stride + k·dilation − padding, i] = Σ w[c, i, k] · y[n, o, c]; also transposed convolution.

    `body` has index space (n, h, w, c) over x, lanes along c, given: the sum; elements that no window reaches get 0.
    y: Access (n, h, w, o); weight: Access (o, i, kh, kw), any strides.
    """

    def __init__(
        self, shape: ConvShape, y: Access, weight: Access, body: Body, workspace_word: int, scratch_word: int
    ) -> None: ...


class ConvWeightGrad(Kernel):
    """w of x and y: w[c, i, k] = Σ x[n, o·stride + k·dilation − padding, i] · y[n, o, c].

    `body` has index space (o, q), lanes along q, given: the sum. q counts (i, kh, kw) in C order, so that a tensor laid
    out as the user's weight (outputs, inputs / groups, *kernel) has strides (inputs / groups · kh · kw, 1).
    x: Access (n, h, w, c); y: Access (n, h, w, o).
    """

    def __init__(
        self, shape: ConvShape, x: Access, y: Access, body: Body, workspace_word: int, scratch_word: int
    ) -> None: ...
