"""RandAugment (Cubuk et al. 2020) and CTAugment (Berthelot et al. 2020) inside of compiled steps.

Images of a batch have different operations. There are no branches for that: in a round every operation is computed for the
whole batch, with the number that changes nothing where another one was drawn; all moves of a round are one `grid_sample`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import weft

from .... import nn
from ....errors import OptionError, ShapeError
from ....tensor import Tensor
from . import colour
from .base import TensorTransform, check_images, uniform
from .geometry import affine, cut_out

__all__ = ["CTAugment", "Choice", "RandAugment", "perform"]

RANGES: dict[str, tuple[float, float]] = {  # of CTAugment: what the first bin and the last one stand for
    "Identity": (0, 0),
    "AutoContrast": (0, 1),
    "Brightness": (0, 1),
    "Color": (0, 1),
    "Contrast": (0, 1),
    "Cutout": (0, 0.5),
    "Equalize": (0, 1),
    "Invert": (0, 1),
    "Posterize": (1, 8),
    "Rescale": (0.5, 1),
    "Rotate": (-45, 45),
    "Sharpness": (0, 1),
    "ShearX": (-0.3, 0.3),
    "ShearY": (-0.3, 0.3),
    "Smooth": (0, 1),
    "Solarize": (0, 1),
    "TranslateX": (-0.3, 0.3),
    "TranslateY": (-0.3, 0.3),
}
SIGNED = {  # of RandAugment: the middle, and how far strength 1 goes to either side
    "ShearX": (0, 0.3),
    "ShearY": (0, 0.3),
    "TranslateX": (0, 150 / 331),
    "TranslateY": (0, 150 / 331),
    "Rotate": (0, 30),
    "Brightness": (1, 0.9),
    "Color": (1, 0.9),
    "Contrast": (1, 0.9),
    "Sharpness": (1, 0.9),
}
OPERATIONS = ("Identity", *SIGNED, "Posterize", "Solarize", "AutoContrast", "Equalize")
NEUTRAL = {
    **{name: 1.0 for name in ("Rescale", "Brightness", "Color", "Contrast", "Sharpness")},
    **{"Posterize": 8.0, "Solarize": 2.0},
}  # of the others 0
MOVES = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Rescale")
COLOURS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Brightness": colour.brightness,
    "Color": colour.saturation,
    "Contrast": colour.contrast,
    "Sharpness": colour.sharpness,
    "Smooth": lambda x, share: colour.sharpness(x, 1 - share),
    "Posterize": lambda x, bits: colour.posterize(x, bits.round()),
    "Solarize": colour.solarize,
    "Invert": colour.invert,
    "AutoContrast": colour.autocontrast,
    "Equalize": colour.equalize,
}


class RandAugment(TensorTransform):
    """`num_ops` operations for each image, each equally likely, of a strength out of [0, 1].

    strength: one number for all images, or (low, high) between which each image and operation draws its own; (0, 1) is
        FixMatch's form. Strength s is torchvision's magnitude s · (bins − 1)
    operations: those to draw from, by default the fourteen of the paper; without "Equalize" a step is shorter
    interpolation: "nearest" or "bilinear", of the moves
    At strength 1 shear is 0.3, translation 150/331 of a side, rotation 30°, factors of colour 1 ± 0.9, 4 bits are left,
    everything is solarised; directions are random.
    """

    def __init__(
        self,
        num_ops: int = 2,
        strength: float | tuple[float, float] = (0.0, 1.0),
        operations: Sequence[str] = OPERATIONS,
        interpolation: str = "nearest",
    ) -> None:
        self.strength = (strength, strength) if isinstance(strength, (int, float)) else tuple(strength)
        if num_ops < 0 or not 0 <= self.strength[0] <= self.strength[1] <= 1:
            raise OptionError(f"RandAugment: expected num_ops ≥ 0, strength in [0, 1], got {num_ops}, {strength!r}")
        self.num_ops, self.interpolation = num_ops, interpolation
        self.operations = _known("RandAugment", operations, OPERATIONS)

    def apply(self, x: Tensor, generator: Any) -> Tensor:
        low, high = self.strength
        u = uniform(x, 4, max(self.num_ops, 1), generator=generator)
        for k in range(self.num_ops):
            number = (u[:, 0, k] * len(self.operations)).floor()
            sign = weft.where(u[:, 1, k] < 0.5, -1.0, 1.0)
            x = self.round(x, number, sign, low + u[:, 2, k] * (high - low), generator)
        return x

    def round(self, x: Tensor, number: Tensor, sign: Tensor, strength: Tensor, generator: Any = None) -> Tensor:
        """Operation `number` for each image, (N,), in a direction ±1 and of a strength in [0, 1]."""
        return perform(x, number, self.operations, lambda name: _strength(name, sign, strength), self.interpolation)


def _strength(name: str, sign: Tensor, strength: Tensor) -> Tensor | float:
    """The number that an operation takes."""
    if name in SIGNED:
        middle, reach = SIGNED[name]
        return middle + sign * strength * reach
    return {"Posterize": 8 - (4 * strength).round(), "Solarize": 1 - strength}.get(name, 1.0)


class Choice(NamedTuple):
    """Which operations images had, and how strong: numbers of the table and bins, (N, depth) each."""

    operation: Tensor
    bin: Tensor


class CTAugment(nn.Module):
    """Control theory augmentation: `depth` operations for each image, of strengths that the network still bears.

    Every operation has `bins` strengths with weights m, 1 at first. Images are changed by bins drawn with chances in
    proportion to m where m exceeds `threshold`. Labelled images are probed with bins drawn evenly, and `update` moves their
    weights towards how well the network still knows them: m ← ρ m + (1 − ρ) ω, ω = 1 − ½ Σ |p − onehot(y)|.

    depth: operations an image; decay: ρ; threshold: below which a strength is not used (0.8 in ReMixMatch, 0.85 in FixMatch)
    operations: those to draw from, by default all of the paper's
    The weights are a buffer, `rates` (operations, bins), and are saved and carried on with the model they are part of.

    >>> policy = CTAugment()
    >>> x = weft.rand(4, 3, 8, 8)
    >>> changed, choice = policy.probe(x, weft.Generator().manual_seed(0))
    >>> policy.update(choice, weft.ones(4))
    >>> policy(x).shape, policy.rates.shape
    (weft.Size([4, 3, 8, 8]), weft.Size([18, 17]))
    """

    def __init__(
        self,
        depth: int = 2,
        bins: int = 17,
        decay: float = 0.99,
        threshold: float = 0.85,
        operations: Sequence[str] = tuple(RANGES),
        interpolation: str = "nearest",
    ) -> None:
        super().__init__()
        if depth < 1 or bins < 2 or not 0 <= decay <= 1 or not 0 <= threshold < 1:
            raise OptionError(
                f"CTAugment: expected depth ≥ 1, bins ≥ 2, decay in [0, 1], threshold in [0, 1); "
                f"got {depth}, {bins}, {decay}, {threshold}"
            )
        self.depth, self.bins, self.decay, self.threshold = depth, bins, decay, threshold
        self.operations, self.interpolation = _known("CTAugment", operations, tuple(RANGES)), interpolation
        self.register_buffer("rates", weft.ones(len(self.operations), bins))

    def forward(self, x: Tensor, generator: Any = None) -> Tensor:
        """Images changed as strongly as the network bears: (N, C, H, W) → the same"""
        return self._changed(x, self.usable(), generator)[0]

    def probe(self, x: Tensor, generator: Any = None) -> tuple[Tensor, Choice]:
        """Labelled images changed with bins that are all equally likely, and which they were."""
        return self._changed(x, weft.ones_like(self.rates), generator)

    def usable(self) -> Tensor:
        """The weights that count; where an operation has none above the threshold, its largest. (operations, bins)"""
        best = self.rates == self.rates.amax(1, keepdim=True)
        return weft.where((self.rates > self.threshold) | best, self.rates, 0.0)

    @weft.no_grad()
    def update(self, choice: Choice, matched: Tensor) -> None:
        """Learn from what the network said of probed images.

        matched: ω of each image in [0, 1], (N,), as `agreement` makes it
        k images with the same bin move its weight as k steps by their mean would: m ← ρᵏ m + (1 − ρᵏ) ω̄.
        """
        if tuple(matched.shape) != (len(choice.bin),):
            raise ShapeError(f"CTAugment: {len(choice.bin)} probed images, matched of shape {tuple(matched.shape)}")
        place = (choice.operation * self.bins + choice.bin).reshape(-1).long()  # (N · depth,)
        size, dtype = self.rates.numel(), self.rates.dtype
        count = weft.zeros(size, dtype=dtype).index_add(0, place, weft.ones(len(place), dtype=dtype))
        total = weft.zeros(size, dtype=dtype)
        total = total.index_add(0, place, matched.to(dtype).unsqueeze(1).expand(choice.bin.shape).reshape(-1))
        kept = self.decay**count
        moved = kept * self.rates.reshape(-1) + (1 - kept) * total / count.clamp(min=1)
        self.rates.copy_(moved.reshape(self.rates.shape))

    @staticmethod
    def agreement(chances: Tensor, labels: Tensor) -> Tensor:
        """ω = 1 − ½ Σ |p − onehot(y)| = the chance of the true class: (N, K), (N,) → (N,)"""
        return chances.detach().gather(1, labels.reshape(-1, 1))[:, 0]

    def _changed(self, x: Tensor, weights: Tensor, generator: Any) -> tuple[Tensor, Choice]:
        check_images(x, "CTAugment")
        u = uniform(x, 4, self.depth, generator=generator)
        operation = (u[:, 0] * len(self.operations)).floor()  # (N, depth)
        shares = weights[operation.long()].cumsum(2)  # (N, depth, bins)
        bins = (shares <= u[:, 1].unsqueeze(2) * shares[:, :, -1:]).to(x.dtype).sum(2).clamp(max=self.bins - 1)
        for k in range(self.depth):
            level = bins[:, k] / (self.bins - 1)
            taken = lambda name, level=level: RANGES[name][0] + level * (RANGES[name][1] - RANGES[name][0])
            x = perform(x, operation[:, k], self.operations, taken, self.interpolation, u[:, 2:, k])
        return x, Choice(operation, bins)


def perform(
    x: Tensor,
    number: Tensor,
    operations: Sequence[str],
    taken: Callable[[str], Tensor | float],
    interpolation: str = "nearest",
    middle: Tensor | None = None,
) -> Tensor:
    """One of the operations for each image: that of its `number`, (N,), with the number taken(name) gives it, (N,).

    middle: where holes are, as shares of the sides, (N, 2)
    """
    wanted = {
        name: weft.where(number == k, taken(name), NEUTRAL.get(name, 0.0))
        for k, name in enumerate(operations)
        if name != "Identity"
    }
    if not len(x):
        return x
    x = _moved(x, wanted, interpolation)
    for name, change in COLOURS.items():
        if name in wanted:
            x = change(x, wanted[name])
    if "Cutout" in wanted and middle is not None:
        x = cut_out(x, middle, (wanted["Cutout"] * min(x.shape[2:]) + 0.5).floor(), 0.5)
    return x


def _moved(x: Tensor, wanted: Mapping[str, Tensor], interpolation: str) -> Tensor:
    if not any(name in wanted for name in MOVES):
        return x
    still = weft.zeros(len(x), dtype=x.dtype)
    by = [wanted.get(name, still) for name in MOVES[:-1]]
    h, w = x.shape[2:]
    shares = (by[2] * w).trunc() / w, (by[3] * h).trunc() / h  # whole pixels
    zoom = 1 / wanted["Rescale"] if "Rescale" in wanted else 1.0
    return affine(x, by[4], shares, zoom, (by[0], by[1]), interpolation)


def _known(name: str, operations: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    unknown = sorted(set(operations) - set(known))
    if unknown or not operations:
        raise OptionError(f"{name}: expected some of {', '.join(known)}, got {', '.join(unknown) or 'none'}")
    return tuple(operations)
