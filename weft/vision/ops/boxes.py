"""Boxes (x₁, y₁, x₂, y₂) with x₁ ≤ x₂ and y₁ ≤ y₂: areas, overlaps, and the best of many."""

from __future__ import annotations

import math

import numpy as np

import weft

from ...errors import OptionError, ShapeError
from ...tensor import Tensor, wrap

__all__ = [
    "batched_nms",
    "box_area",
    "box_convert",
    "box_iou",
    "clip_boxes_to_image",
    "complete_box_iou",
    "distance_box_iou",
    "generalized_box_iou",
    "masks_to_boxes",
    "nms",
    "remove_small_boxes",
]

TINY = 1e-7


def _checked(boxes: Tensor, name: str) -> Tensor:
    if boxes.ndim < 1 or boxes.shape[-1] != 4:
        raise ShapeError(f"{name}: expected boxes (N, 4), got {tuple(boxes.shape)}")
    return boxes if boxes.is_floating_point() else boxes.float()


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The numbers of boxes, best score first, that overlap no better one by more than iou_threshold. (N, 4), (N,) → (K,)

    >>> boxes = weft.tensor([[0.0, 0, 2, 2], [0, 0, 2, 1.9], [5, 5, 6, 6]])
    >>> nms(boxes, weft.tensor([0.5, 0.9, 0.1]), 0.5)
    tensor([1, 2])
    """
    places = _checked(boxes, "nms").detach().numpy()
    values = scores.detach().numpy()
    if places.ndim != 2 or values.shape != places.shape[:1]:
        raise ShapeError(f"nms: expected boxes (N, 4) and scores (N,), got {places.shape} and {values.shape}")
    order = np.argsort(-values, kind="stable")
    area = (places[:, 2] - places[:, 0]) * (places[:, 3] - places[:, 1])
    kept = []
    while len(order):
        best, rest = order[0], order[1:]
        kept.append(best)
        low = np.maximum(places[best, :2], places[rest, :2])
        high = np.minimum(places[best, 2:], places[rest, 2:])
        common = np.clip(high - low, 0, None).prod(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            overlap = common / (area[best] + area[rest] - common)
        order = rest[~(overlap > iou_threshold)]
    return wrap(np.array(kept, np.int64))


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """`nms` inside of each class idxs (N,): boxes of different classes do not compete. → (K,), best score first"""
    if not boxes.numel():
        return weft.zeros(0, dtype=weft.int64)
    places = _checked(boxes, "batched_nms")
    apart = idxs.to(places.dtype) * (places.max() + 1)  # every class in a part of the plane of its own
    return nms(places + apart.unsqueeze(1), scores, iou_threshold)


def box_area(boxes: Tensor) -> Tensor:
    """(x₂ − x₁)(y₂ − y₁). Shape: (N, 4) → (N,)"""
    boxes = _checked(boxes, "box_area")
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def _overlap(boxes1: Tensor, boxes2: Tensor) -> tuple[Tensor, Tensor]:
    """Areas of what two boxes share, and of both. Shape: (N, 4), (M, 4) → (N, M) twice"""
    low = weft.maximum(boxes1[:, None, :2], boxes2[:, :2])  # (N, M, 2)
    high = weft.minimum(boxes1[:, None, 2:], boxes2[:, 2:])
    size = (high - low).clamp(min=0)
    common = size[..., 0] * size[..., 1]
    return common, box_area(boxes1)[:, None] + box_area(boxes2) - common


def box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """|A ∩ B| / |A ∪ B| of all pairs. Shape: (N, 4), (M, 4) → (N, M)"""
    common, both = _overlap(_checked(boxes1, "box_iou"), _checked(boxes2, "box_iou"))
    return common / both


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """IoU − (|C| − |A ∪ B|)/|C|, C the smallest box around both (Rezatofighi et al., 2019). (N, 4), (M, 4) → (N, M)"""
    boxes1, boxes2 = (_checked(boxes, "generalized_box_iou") for boxes in (boxes1, boxes2))
    common, both = _overlap(boxes1, boxes2)
    size = _around(boxes1, boxes2)
    hull = size[..., 0] * size[..., 1]
    return common / both - (hull - both) / hull


def _around(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Width and height of the smallest box around both. → (N, M, 2)"""
    low = weft.minimum(boxes1[:, None, :2], boxes2[:, :2])
    high = weft.maximum(boxes1[:, None, 2:], boxes2[:, 2:])
    return (high - low).clamp(min=0)


def distance_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = TINY) -> Tensor:
    """IoU − d²/c², d between the centers, c the diagonal of the smallest box around both. (N, 4), (M, 4) → (N, M)"""
    boxes1, boxes2 = (_checked(boxes, "distance_box_iou") for boxes in (boxes1, boxes2))
    centers = [(boxes[..., :2] + boxes[..., 2:]) / 2 for boxes in (boxes1, boxes2)]
    apart = ((centers[0][:, None] - centers[1]) ** 2).sum(-1)
    return box_iou(boxes1, boxes2) - apart / ((_around(boxes1, boxes2) ** 2).sum(-1) + eps)


def complete_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = TINY) -> Tensor:
    """`distance_box_iou` − α v, v = 4/π² (atan w₁/h₁ − atan w₂/h₂)², α = v/(1 − IoU + v). (N, 4), (M, 4) → (N, M)"""
    boxes1, boxes2 = (_checked(boxes, "complete_box_iou") for boxes in (boxes1, boxes2))
    shapes = [((b[:, 2] - b[:, 0]) / (b[:, 3] - b[:, 1])).atan() for b in (boxes1, boxes2)]
    unlike = 4 / math.pi**2 * (shapes[0][:, None] - shapes[1]) ** 2
    weight = (unlike / (1 - box_iou(boxes1, boxes2) + unlike + eps)).detach()
    return distance_box_iou(boxes1, boxes2, eps) - weight * unlike


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Between "xyxy", "xywh" (corner and size) and "cxcywh" (center and size). Shape: (*, 4) → (*, 4)"""
    known = ("xyxy", "xywh", "cxcywh")
    if in_fmt not in known or out_fmt not in known:
        raise OptionError(f"box_convert: expected formats among {', '.join(known)}, got {in_fmt!r} and {out_fmt!r}")
    if boxes.shape[-1] != 4:
        raise ShapeError(f"box_convert: expected boxes (*, 4), got {tuple(boxes.shape)}")
    if in_fmt == out_fmt:
        return boxes.clone()
    first, second = boxes[..., :2], boxes[..., 2:]
    if in_fmt != "xyxy":
        low = first if in_fmt == "xywh" else first - second / 2
        first, second = low, low + second
    if out_fmt == "xyxy":
        return weft.cat([first, second], -1)
    size = second - first
    return weft.cat([first if out_fmt == "xywh" else (first + second) / 2, size], -1)


def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes cut at the edges of an image of (height, width). Shape: (*, 4) → (*, 4)"""
    height, width = size
    parts = [boxes[..., i].clamp(0, width if i % 2 == 0 else height) for i in range(4)]
    return weft.stack(parts, -1)


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """The numbers of boxes with both sides of min_size or more. Shape: (N, 4) → (K,)"""
    wide = (boxes[:, 2] - boxes[:, 0] >= min_size) & (boxes[:, 3] - boxes[:, 1] >= min_size)
    return wrap(np.flatnonzero(wide.numpy()))


def masks_to_boxes(masks: Tensor) -> Tensor:
    """The smallest boxes around masks (N, H, W), from the first to the last pixel of each. → (N, 4)"""
    found = np.zeros((len(masks), 4), np.float32)
    for box, mask in zip(found, masks.numpy() != 0, strict=True):
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        if not len(rows):
            raise ShapeError("masks_to_boxes: a mask without a pixel has no box")
        box[:] = columns[0], rows[0], columns[-1], rows[-1]
    return wrap(found)
