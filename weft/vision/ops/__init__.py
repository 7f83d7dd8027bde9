"""torchvision's operations: boxes, regions of interest, losses and layers of detectors."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "boxes": (
        *("batched_nms", "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "complete_box_iou"),
        *("distance_box_iou", "generalized_box_iou", "masks_to_boxes", "nms", "remove_small_boxes"),
    ),
    "losses": (*("complete_box_iou_loss", "distance_box_iou_loss", "generalized_box_iou_loss", "sigmoid_focal_loss"),),
    "misc": (
        *("Conv2dNormActivation", "FrozenBatchNorm2d", "MLP", "Permute", "SqueezeExcitation", "StochasticDepth"),
        *("DropBlock2d", "DropBlock3d", "drop_block2d", "drop_block3d", "stochastic_depth"),
    ),
    "pyramid": ("FeaturePyramidNetwork", "MultiScaleRoIAlign"),
    "regions": ("RoIAlign", "RoIPool", "roi_align", "roi_pool"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
