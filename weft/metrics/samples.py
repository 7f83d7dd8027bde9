"""Figures of generated samples in features of a named network: which network it was is part of every figure.

A distance between samples means something only beside another one taken in the same features. So features come from a
`FeatureExtractor`, which has a digest of its weights, and figures of different digests are not compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

import weft

from ..errors import OptionError, ShapeError
from ..nn.container import Sequential
from ..nn.module import Module
from ..tensor import Tensor
from .base import NoDataError, array_of
from .frechet import frechet_distance
from .kernel import kernel_distance
from .manifold import density_coverage, precision_recall_of_samples

__all__ = ["FeatureExtractor", "SampleMetrics", "calculate_metrics"]

FEWER_IS_BETTER = ("frechet_distance", "kernel_distance")
MORE_IS_BETTER = ("precision", "recall", "f_score", "density", "coverage")


class FeatureExtractor(Module):
    """A trained classifier of images, less its last layer.

    classifier: layers in a row whose last one gives the scores of classes; name: what it is, for people
    shape: of an image, (C, H, W), if others are to be refused
    Shape: (B, *image) → (B, D). It is always in evaluation mode, and `digest` changes with any weight, buffer or layer.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> extractor = FeatureExtractor(net, "a toy")
    >>> extractor(weft.zeros(5, 2, 2)).shape, len(extractor.digest)
    (weft.Size([5, 3]), 16)
    """

    def __init__(self, classifier: Sequential, name: str = "", shape: tuple[int, ...] | None = None) -> None:
        super().__init__()
        if not isinstance(classifier, Sequential) or len(classifier) < 2:
            raise OptionError("FeatureExtractor: expected an nn.Sequential of two layers or more, the last one scores")
        self.classifier, self.name, self.shape = classifier, name, shape
        self.requires_grad_(False)
        self.train(False)

    def train(self, mode: bool = True) -> FeatureExtractor:
        """Features are those of a finished network: training mode is never entered."""
        return super().train(False)

    def forward(self, x: Tensor) -> Tensor:
        for layer in list(self.classifier)[:-1]:
            x = layer(x)
        return x.flatten(1)

    @property
    def digest(self) -> str:
        """Of layers, weights and buffers: 16 hexadecimal digits."""
        seen = hashlib.sha256(repr(self.classifier).encode())
        for name, value in sorted(self.classifier.state_dict().items()):
            array = np.ascontiguousarray(array_of(value))
            seen.update(f"{name} {array.dtype} {array.shape}".encode())
            seen.update(array.tobytes())
        return seen.hexdigest()[:16]

    def extract(self, images: Any, at_once: int = 500) -> Tensor:
        """Features of many images, a tensor or batches of them: (N, *image) → (N, D)"""
        return self._batched(self, images, at_once)

    def labels(self, images: Any, at_once: int = 500) -> Tensor:
        """The class of each image, by its largest score: (N, *image) → (N,)"""
        return self._batched(lambda x: self.classifier(x).argmax(1), images, at_once)

    @weft.no_grad()
    def _batched(self, ask: Any, images: Any, at_once: int) -> Tensor:
        parts = [part for batch in _batches(images) for part in self._checked(batch).split(at_once)]
        if not parts:
            raise NoDataError(f"FeatureExtractor {self.name}: no images")
        return weft.cat([ask(part) for part in parts])

    def _checked(self, images: Any) -> Tensor:
        images = weft.as_tensor(images)
        if self.shape is not None and tuple(images.shape[1:]) != tuple(self.shape):
            sizes = ", ".join(map(str, self.shape))
            raise ShapeError(
                f"FeatureExtractor {self.name}: expected images (B, {sizes}), got {tuple(images.shape)}; features of "
                f"images that the classifier has not learned from mean nothing"
            )
        return images

    def extra_repr(self) -> str:
        return f"{self.name!r}, digest={self.digest}"


@dataclass(frozen=True)
class SampleMetrics:
    """Figures of one set of samples beside another, with all that they hold for.

    digest: of the features' network; None where features came ready-made, which nothing can be compared with
    samples: how many of each side
    """

    figures: dict[str, float]
    features: str
    digest: str | None
    dimensions: int
    samples: tuple[int, int]
    options: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        if name not in self.figures:
            raise OptionError(f"{name} was not calculated; there are {', '.join(self.figures)}")
        return self.figures[name]

    def better_than(self, other: SampleMetrics, figure: str) -> bool:
        """Whether this figure is the better one. Refused unless both have the same known features and sample sizes."""
        if self.digest is None or other.digest is None:
            raise OptionError(
                f"{figure}: figures of features of unknown digest cannot be compared: "
                "calculate both with features=FeatureExtractor(…)"
            )
        if self.digest != other.digest:
            raise OptionError(
                f"{figure}: figures in different features cannot be compared: {self.features} ({self.digest}) and "
                f"{other.features} ({other.digest})"
            )
        if (self.samples, self.options) != (other.samples, other.options):
            raise OptionError(
                f"{figure}: figures of {self.samples} and {other.samples} samples, with {self.options} and "
                f"{other.options}, cannot be compared: their bias depends on these"
            )
        mine, theirs = self[figure], other[figure]
        return mine < theirs if figure in FEWER_IS_BETTER else mine > theirs

    def to_dict(self) -> dict[str, Any]:
        """Everything, as values that JSON can hold."""
        return asdict(self) | {"samples": list(self.samples)}

    def __str__(self) -> str:
        known = f"digest {self.digest}" if self.digest else "digest unknown"
        first = f"{self.samples[0]} samples beside {self.samples[1]}, {self.dimensions} features of {self.features}, {known}"
        return "\n".join([first, *(f"  {name:<24}{value:12.6g}" for name, value in self.figures.items())])


def calculate_metrics(
    input1: Any,
    input2: Any,
    *,
    features: FeatureExtractor | None = None,
    fid: bool = False,
    kid: bool = False,
    prc: bool = False,
    dnc: bool = False,
    kid_subsets: int = 100,
    kid_subset_size: int = 1000,
    prc_neighborhood: int = 3,
    dnc_neighborhood: int = 5,
    seed: int = 2020,
) -> SampleMetrics:
    """Figures of samples `input1` (generated) beside `input2` (real).

    input1, input2: images (N, *image), batches of them (a loader), or, without an extractor, ready features (N, D)
    fid: Fréchet distance; kid: kernel distance and its deviation; prc: precision, recall; dnc: density, coverage
    The names of the arguments are those of torch-fidelity; features are never those of a network that saw other data than
    yours, so there is no default one.

    >>> x = weft.randn(100, 3, generator=weft.Generator().manual_seed(0))
    >>> found = calculate_metrics(x, x + 1, fid=True)
    >>> round(found["frechet_distance"], 3), found.digest
    (3.0, None)
    """
    if not (fid or kid or prc or dnc):
        raise OptionError("calculate_metrics: expected at least one of fid, kid, prc, dnc to be True")
    x, y = (_features(side, features) for side in (input1, input2))
    found: dict[str, float] = {}
    options: dict[str, Any] = {}
    if fid:
        found["frechet_distance"] = frechet_distance(x, y)
    if kid:
        options |= {"kid_subsets": kid_subsets, "kid_subset_size": kid_subset_size}
        distance = kernel_distance(x, y, subsets=kid_subsets, subset_size=kid_subset_size, seed=seed)
        found |= {"kernel_distance": distance.mean, "kernel_distance_std": distance.std}
    if prc:
        options["prc_neighborhood"] = prc_neighborhood
        both = precision_recall_of_samples(x, y, prc_neighborhood)
        found |= {"precision": both.precision, "recall": both.recall, "f_score": both.f_score}
    if dnc:
        options["dnc_neighborhood"] = dnc_neighborhood
        found |= density_coverage(x, y, dnc_neighborhood)._asdict()
    name, digest = (features.name, features.digest) if features is not None else ("ready-made features", None)
    return SampleMetrics(found, name, digest, x.shape[1], (len(x), len(y)), options)


def _features(side: Any, extractor: FeatureExtractor | None) -> Any:
    if extractor is not None:
        return array_of(extractor.extract(side))
    found = array_of(side) if isinstance(side, (Tensor, np.ndarray, list)) else None
    if found is None or found.ndim != 2:
        shape = type(side).__name__ if found is None else found.shape
        raise ShapeError(
            f"calculate_metrics: expected ready features (N, D), got {shape}; for images say features=FeatureExtractor(…)"
        )
    return found


def _batches(images: Any) -> Iterable[Any]:
    """A tensor, or an array, as one batch; of a loader's batches the first part."""
    if isinstance(images, (Tensor, np.ndarray)):
        return [images]
    return (batch[0] if isinstance(batch, (tuple, list)) else batch for batch in images)
