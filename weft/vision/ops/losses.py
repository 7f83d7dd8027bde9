"""Losses of detectors: of boxes that should be one another, and of classes most of which are background."""

from __future__ import annotations

import math

import weft

from ...errors import OptionError
from ...nn import functional as F
from ...tensor import Tensor
from .boxes import TINY

__all__ = ["complete_box_iou_loss", "distance_box_iou_loss", "generalized_box_iou_loss", "sigmoid_focal_loss"]


def _reduced(loss: Tensor, reduction: str, name: str) -> Tensor:
    if reduction not in ("none", "mean", "sum"):
        raise OptionError(f"{name}: expected reduction 'none', 'mean' or 'sum', got {reduction!r}")
    if reduction == "none":
        return loss
    return loss.sum() / max(loss.numel(), 1) if reduction == "mean" else loss.sum()


def sigmoid_focal_loss(
    inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2, reduction: str = "none"
) -> Tensor:
    """−α_t (1 − p_t)^γ log p_t, p = σ(inputs): what is sure counts less (Lin et al., 2017). alpha < 0: without α_t."""
    chance = inputs.sigmoid()
    entropy = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    right = chance * targets + (1 - chance) * (1 - targets)
    loss = entropy * (1 - right) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return _reduced(loss, reduction, "sigmoid_focal_loss")


def _pairs(boxes1: Tensor, boxes2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Areas of what the boxes of a pair share and of both, and the sides of the smallest box around them."""
    size = (weft.minimum(boxes1[..., 2:], boxes2[..., 2:]) - weft.maximum(boxes1[..., :2], boxes2[..., :2])).clamp(
        min=0
    )
    common = size.prod(-1)
    areas = [(boxes[..., 2:] - boxes[..., :2]).prod(-1) for boxes in (boxes1, boxes2)]
    hull = weft.maximum(boxes1[..., 2:], boxes2[..., 2:]) - weft.minimum(boxes1[..., :2], boxes2[..., :2])
    return common, areas[0] + areas[1] - common, hull


def generalized_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = TINY) -> Tensor:
    """1 − GIoU of pairs of boxes. Shape: (N, 4), (N, 4) → (N,) or ()"""
    common, both, hull = _pairs(boxes1, boxes2)
    area = hull.prod(-1)
    loss = 1 - (common / (both + eps) - (area - both) / (area + eps))
    return _reduced(loss, reduction, "generalized_box_iou_loss")


def _distance(boxes1: Tensor, boxes2: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    common, both, hull = _pairs(boxes1, boxes2)
    overlap = common / (both + eps)
    centers = [(boxes[..., :2] + boxes[..., 2:]) / 2 for boxes in (boxes1, boxes2)]
    apart = ((centers[0] - centers[1]) ** 2).sum(-1)
    return 1 - overlap + apart / ((hull**2).sum(-1) + eps), overlap


def distance_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = TINY) -> Tensor:
    """1 − IoU + d²/c² of pairs of boxes (Zheng et al., 2020). Shape: (N, 4), (N, 4) → (N,) or ()"""
    return _reduced(_distance(boxes1, boxes2, eps)[0], reduction, "distance_box_iou_loss")


def complete_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = TINY) -> Tensor:
    """`distance_box_iou_loss` + α v, v the squared difference of the sides' angles. Shape: (N, 4), (N, 4) → (N,) or ()"""
    loss, overlap = _distance(boxes1, boxes2, eps)
    shapes = [((b[..., 2] - b[..., 0]) / (b[..., 3] - b[..., 1])).atan() for b in (boxes1, boxes2)]
    unlike = 4 / math.pi**2 * (shapes[1] - shapes[0]) ** 2
    weight = (unlike / (1 - overlap + unlike + eps)).detach()
    return _reduced(loss + weight * unlike, reduction, "complete_box_iou_loss")
