"""Rotary position in Llama's order of features, and the ways it is stretched to contexts longer than those of training."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..pretrained.pretrained import Config
from ..text.cache import Past
from .blocks import KeyValues, Visible, attend, split_heads

__all__ = ["Rotary", "RotaryAttention", "RotaryConfig", "rotate_halves"]


def rotate_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Every pair (x[k], x[k + D/2]) turned by its angle: rotary position (Su et al., 2021) in Llama's order of features.

    Angles for K < D/2 pairs turn the first 2 K features alone (partial rotary position). `nn.rotate_by_position` pairs
    neighbours, x[2k] with x[2k + 1]. Shape: (B, H, T, D), (B or 1, 1, T, K) twice → (B, H, T, D)
    """
    half = cos.shape[-1]
    first, second = x[..., :half], x[..., half : 2 * half]  # (B, H, T, K) each
    parts = [first * cos - second * sin, second * cos + first * sin]
    if 2 * half < x.shape[-1]:
        parts.append(x[..., 2 * half :])
    return weft.cat(parts, -1)


class RotaryAttention(nn.Module):
    """W_O [heads of softmax((R_i q)(R_j k)ᵀ/√D) v] with grouped queries; abstract. Shape: (B, T, C) → (B, T, C)

    Subclasses make q_proj, k_proj, v_proj (or qkv_proj, all three in one matrix) and the layers of `names`: norms of
    queries and keys (or None), and W_O.
    """

    random_in_training = True
    names: ClassVar[tuple[str, str, str]] = ("q_norm", "k_norm", "o_proj")
    heads: int
    groups: int  # of keys and values
    dropout: float

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor], seen: Visible, past: Past) -> tuple[Tensor, KeyValues]:
        query_norm, key_norm, output = (getattr(self, name) for name in self.names)
        q, k, v = self._projected(x)
        q, k, v = split_heads(q, self.heads), split_heads(k, self.groups), split_heads(v, self.groups)
        if query_norm is not None:
            q, k = query_norm(q), key_norm(k)
        pairs = past.append(rotate_halves(k, *turns), v)
        y = attend(rotate_halves(q, *turns), pairs, seen, dropout=self.dropout if self.training else 0.0)
        return output(y), pairs

    def _projected(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values, heads side by side. Shape: (B, T, C) → (B, T, H · D), (B, T, G · D) twice"""
        if "qkv_proj" not in self._modules:
            return self.q_proj(x), self.k_proj(x), self.v_proj(x)
        both = self.qkv_proj(x)
        size = both.shape[-1] // (self.heads + 2 * self.groups)
        return both.split([self.heads * size, self.groups * size, self.groups * size], -1)


@dataclass(frozen=True)
class Rotary:
    """The angles i · f_k of position i and pair k < D/2, with f_k = base^(−2k/D) stretched as `scaling` says.

    width: D. max_position: the context of training. scaling["rope_type"]:
        default   f as it is
        linear    f / factor
        dynamic   a larger base once the context exceeds max_position (NTK)
        llama3    f / factor for pairs that go round less than low_freq_factor times in the original context, f for
                  those that do so more than high_freq_factor times, a mixture between
        yarn      the same between beta_slow and beta_fast turns, and longer queries and keys (Peng et al., 2023)
        longrope  f_k / short_factor[k] while a text fits the original context, f_k / long_factor[k] once it does not
                  (Ding et al., 2024)
    """

    width: int
    base: float = 10000.0
    max_position: int = 2048
    scaling: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in SCALINGS:
            raise OptionError(f"rope_scaling: expected rope_type to be one of {', '.join(SCALINGS)}, got {self.kind!r}")
        try:
            self.frequencies()
        except KeyError as missing:
            raise OptionError(f"rope_scaling: {self.kind} needs {missing}, got {dict(self.scaling)}") from None

    @property
    def kind(self) -> str:
        return self.scaling.get("rope_type", self.scaling.get("type", "default"))

    @property
    def original(self) -> int:
        """The context before it was stretched."""
        return self.scaling.get("original_max_position_embeddings") or self.max_position

    @property
    def growth(self) -> float:
        """How much longer the context has become."""
        return self.scaling.get("factor") or self.max_position / self.original

    def frequencies(self, length: int | Tensor = 0) -> tuple[Tensor, float]:
        """f for a context of this length, (D/2,) float32, and a factor for queries and keys."""
        plain = self.base ** -(np.arange(0, self.width, 2) / self.width)
        found, factor = SCALINGS[self.kind](plain, self, length)
        return weft.as_tensor(found).to(weft.float32), factor

    def turns(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin of the angles, in single precision as the models were trained. Shape: (B, T) → (B, 1, T, D/2)"""
        frequencies, factor = self.frequencies(positions.max() + 1 if self.kind in FOLLOWING else 0)
        angles = positions[:, None, :, None].to(weft.float32) * frequencies
        cos, sin = angles.cos(), angles.sin()
        return (cos, sin) if factor == 1 else (cos * factor, sin * factor)


@dataclass(kw_only=True)
class RotaryConfig(Config):
    """The fields of models with rotary position; abstract.

    head_dim: hidden_size / num_attention_heads unless given. rope_scaling: see `Rotary`. partial_rotary_factor: the share
    of a head's features that are turned, the first ones.
    """

    hidden_size: int = 4096
    num_attention_heads: int = 32
    head_dim: int | None = None
    max_position_embeddings: int = 2048
    rope_theta: float = 10000.0
    rope_scaling: dict[str, Any] | None = None
    partial_rotary_factor: float = 1.0

    def __post_init__(self) -> None:
        self._given_head_dim = self.head_dim is not None
        self.head_dim = self.head_dim or self.hidden_size // self.num_attention_heads
        super().__post_init__()
        if self.turned < 2 or self.turned % 2 or self.turned > self.head_dim:
            raise OptionError(
                f"{type(self).__name__}: rotary position needs an even number of features, partial_rotary_factor "
                f"{self.partial_rotary_factor} of head_dim {self.head_dim} are {self.turned}"
            )

    def _heads_divide(self) -> bool:
        return not self._given_head_dim

    @property
    def turned(self) -> int:
        """How many features of a head rotary position turns."""
        return int(self.head_dim * self.partial_rotary_factor)

    @property
    def rotary(self) -> Rotary:
        return Rotary(self.turned, self.rope_theta, self.max_position_embeddings, self.rope_scaling or {})

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], **changes: Any) -> Self:
        """rope_parameters, the newer name of rope_scaling, holds the base and the share as well."""
        fields = dict(fields)
        scaling = {**(fields.get("rope_scaling") or {}), **(fields.pop("rope_parameters", None) or {})}
        fields |= {name: scaling.pop(name) for name in ("rope_theta", "partial_rotary_factor") if name in scaling}
        original = fields.get("original_max_position_embeddings")
        if scaling and original is not None:  # some files have it beside the rest
            scaling["original_max_position_embeddings"] = original
        return super().from_dict({**fields, "rope_scaling": scaling or None}, **changes)

    def to_dict(self) -> dict[str, Any]:
        fields = super().to_dict()
        scaling = fields.pop("rope_scaling") or {"rope_type": "default"}
        share = fields.pop("partial_rotary_factor")
        turns = {"rope_theta": self.rope_theta, **({} if share == 1 else {"partial_rotary_factor": share})}
        return {**fields, "rope_parameters": {**scaling, **turns}}


Scaled = tuple[np.ndarray | Tensor, float]


def _unscaled(f: np.ndarray, rope: Rotary, length: int | Tensor) -> Scaled:
    return f, 1.0


def _linear(f: np.ndarray, rope: Rotary, length: int | Tensor) -> Scaled:
    return f / rope.scaling["factor"], 1.0


def _dynamic(f: np.ndarray, rope: Rotary, length: int | Tensor) -> Scaled:
    factor, most, width = rope.scaling["factor"], rope.max_position, rope.width
    longest = weft.as_tensor(length).to(weft.float64).clamp(min=most)  # a tensor: compiled steps do not know the length
    growth = factor * longest / most - (factor - 1)
    powers = growth ** -(weft.arange(0, width, 2, dtype=weft.float64) / (width - 2))
    return weft.as_tensor(f) * powers, 1.0  # (base · growth^(D/(D−2)))^(−2k/D)


def _llama3(f: np.ndarray, rope: Rotary, length: int | Tensor) -> Scaled:
    low, high, factor = (rope.scaling[name] for name in ("low_freq_factor", "high_freq_factor", "factor"))
    turns = rope.original * f / (2 * math.pi)  # how often a pair goes round in the original context
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return f * (kept + (1 - kept) / factor), 1.0


def _yarn(f: np.ndarray, rope: Rotary, length: int | Tensor) -> Scaled:
    scaling, width, original, factor = rope.scaling, rope.width, rope.original, rope.growth

    def place(turns: float) -> float:
        """The number k of the pair that goes round so many times in the original context."""
        return width * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(rope.base))

    low, high = place(scaling.get("beta_fast") or 32), place(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    stretched = np.clip((np.arange(width // 2) - low) / (high - low or 0.001), 0, 1)
    return f * (1 - stretched + stretched / factor), _yarn_factor(factor, scaling)


def _yarn_factor(factor: float, scaling: Mapping[str, Any]) -> float:
    """0.1 ln(factor) + 1, which keeps the entropy of attention over longer contexts."""

    def growth(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0

    if scaling.get("attention_factor") is not None:
        return scaling["attention_factor"]
    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        return growth(scaling["mscale"]) / growth(scaling["mscale_all_dim"])
    return growth(1.0)


def _longrope(f: np.ndarray, rope: Rotary, length: int | Tensor) -> Scaled:
    short, long = (rope.scaling[name] for name in ("short_factor", "long_factor"))
    for factors in (short, long):
        if len(factors) != len(f):
            raise OptionError(f"rope_scaling: longrope needs {len(f)} factors, one for each pair, got {len(factors)}")
    chosen = weft.where(weft.as_tensor(length) > rope.original, weft.as_tensor(f / long), weft.as_tensor(f / short))
    if rope.scaling.get("attention_factor") is not None:
        return chosen, rope.scaling["attention_factor"]
    return chosen, math.sqrt(1 + math.log(max(rope.growth, 1)) / math.log(rope.original))


FOLLOWING = ("dynamic", "longrope")  # the kinds whose frequencies depend on the length of the text
SCALINGS: dict[str, Callable[[np.ndarray, Rotary, int | Tensor], Scaled]] = {
    "default": _unscaled,
    "linear": _linear,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
}
