"""GPT-2 (Radford et al., 2019): a decoder that reads from left to right.

x = word[t_i] + position[i], then N layers of x ← x + attention(LayerNorm(x)), x ← x + mlp(LayerNorm(x)), and a last
norm; scores of the next token are E x with the table E of the embeddings. With `prefix_lengths` the beginning of a row is
read in both directions (prefix decoder). gpt2 (12 layers, width 768) has 124,439,808 parameters. Keys are those of
transformers: weights of `Conv1D` are (in, out).

>>> model = GPT2LMHeadModel(GPT2Config(vocab_size=65, n_positions=64, n_embd=128, n_layer=4, n_head=4))
>>> model(weft.tensor([[1, 2, 3]])).logits.shape
Size([1, 3, 65])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ... import nn
from ...errors import ShapeError
from ...tensor import Tensor
from ..pretrained.pretrained import Config, initialised
from ..pretrained.watching import noted
from ..text.cache import Cache, Past
from .blocks import Conv1D, KeyValues, Visible, activation, attend, split_heads, visible
from .causal import CausalBody, CausalClassifier, CausalLM, CausalTagger

__all__ = [
    "GPT2Config",
    "GPT2ForSequenceClassification",
    "GPT2ForTokenClassification",
    "GPT2LMHeadModel",
    "GPT2Model",
]


@dataclass(kw_only=True)
class GPT2Config(Config):
    """The sizes of gpt2 by default; n_inner is 4 · n_embd unless given."""

    model_type: ClassVar[str] = "gpt2"
    sizes: ClassVar[tuple[str, ...]] = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")
    width_and_heads: ClassVar[tuple[str, str]] = ("n_embd", "n_head")

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None
    activation_function: str = "gelu_new"
    resid_pdrop: float = 0.1
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    classifier_dropout: float | None = None
    layer_norm_epsilon: float = 1e-5
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    bos_token_id: int | None = 50256
    eos_token_id: int | list[int] | None = 50256


class GPT2Attention(nn.Module):
    """W_O [heads of softmax(q kᵀ · scale) v] over the visible places. Shape: (B, T, C) → (B, T, C)"""

    random_in_training = True

    def __init__(self, config: GPT2Config, layer: int) -> None:
        super().__init__()
        self.heads, self.dropout = config.n_head, config.attn_pdrop
        self.scale = 1 / math.sqrt(config.n_embd // config.n_head) if config.scale_attn_weights else 1.0
        if config.scale_attn_by_inverse_layer_idx:
            self.scale /= layer + 1
        self.c_attn, self.c_proj = Conv1D(config.n_embd, 3 * config.n_embd), Conv1D(config.n_embd, config.n_embd)
        self.resid_dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, x: Tensor, seen: Visible, past: Past) -> tuple[Tensor, KeyValues]:
        q, k, v = (split_heads(part, self.heads) for part in self.c_attn(x).chunk(3, -1))
        pairs = past.append(k, v)
        y = attend(q, pairs, seen, scale=self.scale, dropout=self.dropout if self.training else 0.0)
        return self.resid_dropout(self.c_proj(y)), pairs


class GPT2MLP(nn.Module):
    """W₂ gelu(W₁ x + b₁) + b₂. Shape: (B, T, C) → (B, T, C)"""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        hidden = config.n_inner or 4 * config.n_embd
        self.c_fc, self.c_proj = Conv1D(config.n_embd, hidden), Conv1D(hidden, config.n_embd)
        self.function = activation(config.activation_function)
        self.dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.c_proj(self.function(self.c_fc(x))))


class GPT2Block(nn.Module):
    """x ← x + attention(norm(x)), x ← x + mlp(norm(x))."""

    def __init__(self, config: GPT2Config, layer: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.attn = GPT2Attention(config, layer)
        self.ln_2 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.mlp = GPT2MLP(config)

    def forward(self, x: Tensor, seen: Visible, past: Past) -> tuple[Tensor, KeyValues]:
        y, pairs = self.attn(self.ln_1(x), seen, past)
        x = x + y
        return x + self.mlp(self.ln_2(x)), pairs


class GPT2Model(CausalBody):
    """The decoder without a head: (B, T) → (B, T, C)."""

    config_class = GPT2Config
    body = "transformer"

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.n_positions, config.n_embd)
        self.drop = nn.Dropout(config.embd_pdrop)
        self.h = nn.ModuleList(GPT2Block(config, layer) for layer in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        initialised(self, config.initializer_range)
        for block in self.h:  # 2 N blocks write to the residual path: so its variance does not grow with N
            for end in (block.attn.c_proj, block.mlp.c_proj):
                nn.init.normal_(end.weight, std=config.initializer_range / math.sqrt(2 * config.n_layer))

    def get_input_embeddings(self) -> nn.Embedding:
        return self.wte

    @property
    def most_places(self) -> int:
        return self.config.n_positions

    def decode(
        self, input_ids: Tensor, mask: Tensor | None, positions: Tensor, past: Cache, prefix: Tensor | None
    ) -> tuple[Tensor, Cache]:
        length = input_ids.shape[1]
        keys = past.keys_after(length)
        if keys > self.config.n_positions:
            raise ShapeError(f"input_ids: expected at most {self.config.n_positions} tokens (n_positions), got {keys}")
        seen = visible(mask, length, keys, causal=True, prefix=prefix, start=past.length)
        x, pairs = self.drop(self.wte(input_ids) + self.wpe(positions)), []
        for block, before in zip(self.h, past.before(len(self.h)), strict=True):
            x, kept = block(noted(x), seen, before)
            pairs.append(kept)
        return self.ln_f(x), past.after(pairs, length)


class GPT2LMHeadModel(CausalLM):
    """GPT-2 with scores of the next token: (B, T) → (B, T, V)."""

    config_class: ClassVar[type[Config]] = GPT2Config
    body = "transformer"
    body_class = GPT2Model


class GPT2ForSequenceClassification(CausalClassifier):
    """GPT-2 with scores of classes: (B, T) → (B, num_labels)."""

    config_class: ClassVar[type[Config]] = GPT2Config
    body = "transformer"
    body_class = GPT2Model


class GPT2ForTokenClassification(CausalTagger):
    """GPT-2 with scores of the classes of every token: (B, T) → (B, T, num_labels)."""

    config_class: ClassVar[type[Config]] = GPT2Config
    body = "transformer"
    body_class = GPT2Model
    head_name = "classifier"
