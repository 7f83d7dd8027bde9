"""GPT-Neo (Black et al., 2021): GPT-2 whose layers see everything and the last 256 places in turn.

x = word[t_i] + position[i], then N layers of x ← x + attention(LayerNorm(x)), x ← x + mlp(LayerNorm(x)), and a last norm;
scores are not divided by √D. gpt-neo-125m has 125,198,592 parameters. Keys are those of transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..pretrained.pretrained import Config, initialised
from ..pretrained.watching import noted
from ..text.cache import Cache, Past
from .blocks import KeyValues, Visible, activation, attend, split_heads, visible
from .causal import CausalBody, CausalClassifier, CausalLM

__all__ = ["GPTNeoConfig", "GPTNeoForCausalLM", "GPTNeoForSequenceClassification", "GPTNeoModel"]


@dataclass(kw_only=True)
class GPTNeoConfig(Config):
    """The sizes of gpt-neo-125m by default.

    attention_types: rows [kinds, times], kinds being a list of "global" and "local"; window_size: what local layers see.
    """

    model_type: ClassVar[str] = "gpt_neo"
    sizes: ClassVar[tuple[str, ...]] = (
        *("vocab_size", "hidden_size", "num_layers", "num_heads", "max_position_embeddings", "window_size"),
        "intermediate_size",
    )
    width_and_heads: ClassVar[tuple[str, str]] = ("hidden_size", "num_heads")

    vocab_size: int = 50257
    hidden_size: int = 768
    num_layers: int = 12
    num_heads: int = 12
    intermediate_size: int | None = None
    attention_types: list[Any] | None = None
    window_size: int = 256
    activation_function: str = "gelu_new"
    max_position_embeddings: int = 2048
    layer_norm_epsilon: float = 1e-5
    resid_dropout: float = 0.0
    embed_dropout: float = 0.0
    attention_dropout: float = 0.0
    bos_token_id: int | None = 50256
    eos_token_id: int | list[int] | None = 50256

    def __post_init__(self) -> None:
        self.intermediate_size = self.intermediate_size or 4 * self.hidden_size
        if self.attention_types is None:
            pairs, odd = divmod(self.num_layers, 2)
            self.attention_types = [[["global", "local"], pairs], [["global"], odd]]
        super().__post_init__()
        kinds = self.kinds
        if len(kinds) != self.num_layers or not set(kinds) <= {"global", "local"}:
            raise OptionError(
                f"GPTNeoConfig: attention_types must name global or local for {self.num_layers} layers, got {kinds}"
            )

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], **changes: Any) -> Self:
        """A change of the number of layers needs other attention_types."""
        if "num_layers" in changes:
            changes.setdefault("attention_types", None)
        return super().from_dict(fields, **changes)

    @property
    def kinds(self) -> list[str]:
        """global or local for each layer."""
        return [kind for row, times in self.attention_types for _ in range(times) for kind in row]


class GPTNeoAttention(nn.Module):
    """W_O [heads of softmax(q kᵀ) v] over the visible places. Shape: (B, T, C) → (B, T, C)"""

    random_in_training = True

    def __init__(self, config: GPTNeoConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.num_heads, config.attention_dropout
        for name in ("k_proj", "v_proj", "q_proj"):
            self.add_module(name, nn.Linear(config.hidden_size, config.hidden_size, bias=False))
        self.out_proj = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor, seen: Visible, past: Past) -> tuple[Tensor, KeyValues]:
        q, k, v = (split_heads(part(x), self.heads) for part in (self.q_proj, self.k_proj, self.v_proj))
        pairs = past.append(k, v)
        return self.out_proj(attend(q, pairs, seen, scale=1.0, dropout=self.dropout if self.training else 0.0)), pairs


class GPTNeoBlock(nn.Module):
    """x ← x + attention(norm(x)), x ← x + mlp(norm(x))."""

    def __init__(self, config: GPTNeoConfig) -> None:
        super().__init__()
        width, hidden = config.hidden_size, config.intermediate_size
        self.ln_1 = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
        self.attn = nn.ModuleDict({"attention": GPTNeoAttention(config)})
        self.ln_2 = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, hidden), "c_proj": nn.Linear(hidden, width)})
        self.function, self.dropout = activation(config.activation_function), nn.Dropout(config.resid_dropout)

    def forward(self, x: Tensor, seen: Visible, past: Past) -> tuple[Tensor, KeyValues]:
        y, pairs = self.attn["attention"](self.ln_1(x), seen, past)
        x = x + self.dropout(y)
        hidden = self.function(self.mlp["c_fc"](self.ln_2(x)))
        return x + self.dropout(self.mlp["c_proj"](hidden)), pairs


class GPTNeoModel(CausalBody):
    """The decoder without a head: (B, T) → (B, T, C)."""

    config_class = GPTNeoConfig
    body = "transformer"

    def __init__(self, config: GPTNeoConfig) -> None:
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.wpe = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.drop = nn.Dropout(config.embed_dropout)
        self.h = nn.ModuleList(GPTNeoBlock(config) for _ in range(config.num_layers))
        self.ln_f = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        initialised(self, config.initializer_range)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.wte

    @property
    def most_places(self) -> int:
        return self.config.max_position_embeddings

    def decode(
        self, input_ids: Tensor, mask: Tensor | None, positions: Tensor, past: Cache, prefix: Tensor | None
    ) -> tuple[Tensor, Cache]:
        length, most = input_ids.shape[1], self.most_places
        keys = past.keys_after(length)
        if keys > most:
            raise ShapeError(f"input_ids: expected at most {most} tokens (max_position_embeddings), got {keys}")
        windows = {"global": None, "local": self.config.window_size}
        common = {"causal": True, "prefix": prefix, "start": past.length}
        seen = {kind: visible(mask, length, keys, window=window, **common) for kind, window in windows.items()}
        x, pairs = self.drop(self.wte(input_ids) + self.wpe(positions)), []
        for block, kind, before in zip(self.h, self.config.kinds, past.before(len(self.h)), strict=True):
            x, kept = block(noted(x), seen[kind], before)
            pairs.append(kept)
        return self.ln_f(x), past.after(pairs, length)


class GPTNeoForCausalLM(CausalLM):
    """GPT-Neo with scores of the next token: (B, T) → (B, T, V)."""

    config_class: ClassVar[type[Config]] = GPTNeoConfig
    body = "transformer"
    body_class = GPTNeoModel


class GPTNeoForSequenceClassification(CausalClassifier):
    """GPT-Neo with scores of classes: (B, T) → (B, num_labels)."""

    config_class: ClassVar[type[Config]] = GPTNeoConfig
    body = "transformer"
    body_class = GPTNeoModel
