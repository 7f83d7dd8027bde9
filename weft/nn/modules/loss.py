"""Losses as modules: the functions of `nn.functional` with their options kept.

`reduction` is 'mean', 'sum' or 'none'; PyTorch's old flags size_average and reduce are understood, with a warning.
Losses over pairs and triplets are in `metric_loss.py`.
"""

from __future__ import annotations

from typing import Any

from ...errors import InvalidValueError
from ...tensor import Tensor
from .. import functional as F
from ..functional._common import chosen_reduction
from ..module import Module

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "ZeroOneLoss",
]


class Loss(Module):
    """A loss with a reduction.

    size_average, reduce: PyTorch's older switches for what `reduction` says
    reduction: 'mean' or 'sum' over all elements, or 'none', a loss for each
    """

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = chosen_reduction(type(self).__name__, "mean", size_average, reduce)
        self.reduction = reduction


class WeightedLoss(Loss):
    """A loss with weights, kept as a buffer.

    weight: one weight for each class
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


# ------------------------------------------------------------------------------------------- regression


class L1Loss(Loss):
    """|x − t|. Shape: (*), (*) → () or (*).

    >>> nn.L1Loss()(weft.tensor([1.0, 4.0]), weft.tensor([2.0, 2.0]))
    tensor(1.5000)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(Loss):
    """(x − t)². Shape: (*), (*) → () or (*).

    >>> nn.MSELoss()(weft.tensor([1.0, 4.0]), weft.tensor([2.0, 2.0]))
    tensor(2.5000)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(Loss):
    """d² / (2β) where |d| < β, else |d| − β/2, for d = x − t. Shape: (*), (*) → () or (*).

    beta: β, where the parabola becomes a straight line

    >>> nn.SmoothL1Loss(reduction="none")(weft.tensor([0.5, 3.0]), weft.zeros(2))
    tensor([0.1250, 2.5000])
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(Loss):
    """d² / 2 where |d| ≤ δ, else δ (|d| − δ/2), for d = x − t. Shape: (*), (*) → () or (*).

    delta: δ, where the parabola becomes a straight line

    >>> nn.HuberLoss(reduction="none", delta=2.0)(weft.tensor([1.0, 3.0]), weft.zeros(2))
    tensor([0.5000, 4.0000])
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class PoissonNLLLoss(Loss):
    """eˣ − t x for a log rate x, or x − t log(x + ε) for a rate x. Shape: (*), (*) → () or (*).

    log_input: whether x is the logarithm of the rate
    full: add Stirling's term t log t − t + ½ log 2πt for t > 1
    eps: ε, which keeps the logarithm finite

    >>> nn.PoissonNLLLoss()(weft.tensor([0.0]), weft.tensor([3.0]))
    tensor(1.)
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(Loss):
    """½ (log v + (x − t)² / v), v = max(var, ε). Shape: (*, D), (*, D), var (*, D) or (*, 1) → () or (*, D).

    full: add the constant ½ log 2π
    eps: ε, the smallest variance

    >>> nn.GaussianNLLLoss()(weft.tensor([0.0]), weft.tensor([2.0]), weft.tensor([1.0]))
    tensor(2.)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


# ----------------------------------------------------------------------------------------- classification


class NLLLoss(WeightedLoss):
    """−w_t x_t for log probabilities x and class numbers t; the mean is divided by the weights met.

    Shape: (N, C, *), (N, *) or (C,), () → () or the target's

    ignore_index: a class number that does not count

    >>> log_probabilities = weft.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
    >>> nn.NLLLoss()(log_probabilities, weft.tensor([1, -100]))
    tensor(0.2877)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """`NLLLoss` for images, under its old name.

    >>> nn.NLLLoss2d()(weft.zeros(1, 3, 2, 2), weft.zeros(1, 2, 2).long()).item()
    0.0
    """


class CrossEntropyLoss(WeightedLoss):
    """−Σ_c t_c w_c log softmax(x)_c for class numbers or class probabilities t.

    Shape: (N, C, *), (N, *) or (N, C, *) → () or (N, *)

    ignore_index: a class number that does not count
    label_smoothing: the share of probability that is spread evenly over all classes

    >>> nn.CrossEntropyLoss()(weft.tensor([[0.0, 0.0], [100.0, 0.0]]), weft.tensor([1, 0]))
    tensor(0.3466)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class BCELoss(WeightedLoss):
    """−w (t log x + (1 − t) log(1 − x)) for probabilities x. Shape: (*), (*) → () or (*).

    weight: w, one for each element of a batch; broadcasts

    >>> nn.BCELoss()(weft.tensor([0.5, 0.5]), weft.tensor([0.0, 1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(Loss):
    """−w (p t log σ(x) + (1 − t) log σ(−x)) for logits x. Shape: (*), (*) → () or (*).

    weight: w, one for each element of a batch; broadcasts
    pos_weight: p, by which positive examples count more, one for each class; broadcasts

    >>> nn.BCEWithLogitsLoss()(weft.tensor([0.0, 100.0]), weft.tensor([1.0, 1.0]))
    tensor(0.3466)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class KLDivLoss(Loss):
    """t (log t − x) with x a log probability. Shape: (*), (*) → () or (*).

    reduction: 'mean', 'sum', 'none', or 'batchmean', the sum divided by N, which is the divergence itself
    log_target: whether t, too, is given as its logarithm

    >>> p = weft.tensor([[0.5, 0.5]])
    >>> nn.KLDivLoss(reduction="batchmean")(p.log(), p)
    tensor(0.)
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class HingeLoss(Loss):
    """max(0, margin − t x) for scores x and classes t = ±1 (not in PyTorch). Shape: (*), (*) → () or (*).

    margin: from which score on an example costs nothing

    >>> nn.HingeLoss()(weft.tensor([0.5, 2.0]), weft.tensor([1, 1]))
    tensor(0.2500)
    """

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_loss(input, target, self.margin, self.reduction)


class SoftMarginLoss(Loss):
    """log(1 + e^(−t x)), t = ±1. Shape: (*), (*) → () or (*).

    >>> nn.SoftMarginLoss()(weft.tensor([0.0]), weft.tensor([1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelMarginLoss(Loss):
    """Σ_{j∈T} Σ_{i∉T} max(0, 1 − x_j + x_i) / C, T the class numbers of the target before its first −1.

    Shape: (N, C), (N, C) or (C,), (C,) → () or (N,)

    >>> nn.MultiLabelMarginLoss()(weft.tensor([0.1, 0.2, 0.4, 0.8]), weft.tensor([3, 0, -1, 1]))
    tensor(0.8500)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(WeightedLoss):
    """−Σ_c w_c (t_c log σ(x_c) + (1 − t_c) log σ(−x_c)) / C. Shape: (N, C), (N, C) → () or (N,).

    >>> nn.MultiLabelSoftMarginLoss()(weft.zeros(1, 3), weft.tensor([[1.0, 0.0, 1.0]]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class MultiMarginLoss(WeightedLoss):
    """Σ_{i≠t} w_t max(0, margin − x_t + x_i)ᵖ / C. Shape: (N, C), (N,) or (C,), () → () or (N,).

    p: 1 or 2
    margin: by how much the right class must lead

    >>> nn.MultiMarginLoss()(weft.tensor([[0.1, 0.2, 0.4, 0.8]]), weft.tensor([3]))
    tensor(0.3250)
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise InvalidValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.ndim != 1:
            raise InvalidValueError(f"weight must be one-dimensional or None, got shape {tuple(weight.shape)}")
        self.p, self.margin = p, margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class CTCLoss(Loss):
    """−log of the probability of all alignments of a target with a sequence (connectionist temporal classification).

    Shape: log_probs (T, N, C) or (T, C), targets (N, S) or (Σ lengths,), lengths (N,) → () or (N,)

    blank: the number of the class that stands for nothing
    reduction: 'mean' (each loss divided by the length of its target, then averaged), 'sum' or 'none'
    zero_infinity: whether targets too long for their sequence count as 0 instead of ∞

    >>> log_probs = weft.zeros(4, 1, 3).log_softmax(2)
    >>> nn.CTCLoss()(log_probs, weft.tensor([[1, 2]]), weft.tensor([4]), weft.tensor([2]))
    tensor(0.8432)
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


class ZeroOneLoss(Loss):
    """1 where the prediction is wrong, else 0: the misclassification error (N2 §2.4.5, §3). It has no gradient.

    Scores with a class dimension (N, C, *) predict their largest class of target (N, *); probabilities of the shape of
    the target predict the class 1 from ½ on, |t − round(y)| with ½ rounded up.

    >>> nn.ZeroOneLoss()(weft.tensor([[0.1, 0.9], [0.8, 0.2]]), weft.tensor([1, 1]))
    tensor(0.5000)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        predicted = (input >= 0.5) if input.ndim == target.ndim else input.argmax(1)
        wrong = (predicted.to(target.dtype) != target).to(input.dtype)
        return wrong.mean() if self.reduction == "mean" else wrong.sum() if self.reduction == "sum" else wrong
