"""Transformers: encoder and decoder layers with norms after (as published) or before each block, and their stacks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import weft

from ...errors import OptionError, ShapeError
from ...refusal import need_bounded
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..container import ModuleList
from ..module import Module
from .attention import MultiheadAttention
from .dropout import Dropout
from .linear import Linear
from .norm import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = str | Callable[[Tensor], Tensor]


class TransformerLayer(Module):
    """What encoder and decoder layers share: residual blocks with one norm each, and the feed-forward block.

    d_model: E, the size of a place
    nhead: the number of heads of attention; must divide it
    dim_feedforward: the hidden size of the feed-forward block
    dropout: the probability of dropping in training, in attention weights and behind each block
    activation: of the feed-forward block, a function or 'relu' or 'gelu'
    layer_norm_eps: ε of the layer norms
    batch_first: whether tensors are (N, T, E) instead of (T, N, E)
    norm_first: normalise before each block, x + block(norm(x)), instead of after each sum
    bias: whether linear layers and layer norms have one
    """

    def _residual(self, x: Tensor, norm: Module, block: Callable[[Tensor], Tensor]) -> Tensor:
        """norm(x + block(x)), or x + block(norm(x)) with norm_first."""
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))

    def _make_feed_forward(self, d_model: int, dim_feedforward: int, dropout: float, options: dict[str, Any]) -> None:
        self.linear1 = Linear(d_model, dim_feedforward, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **options)

    def _feed_forward(self, x: Tensor) -> Tensor:
        """W₂ φ(W₁ x + b₁) + b₂. Shape: (*, E) → (*, E)."""
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


def _activation_function(activation: Activation) -> Callable[[Tensor], Tensor]:
    """The function of a name, or the function itself."""
    if not isinstance(activation, str):
        return activation
    known = {"relu": F.relu, "gelu": F.gelu}
    if activation not in known:
        raise OptionError(f"activation should be relu/gelu, not {activation}")
    return known[activation]


class TransformerEncoderLayer(TransformerLayer):
    """Self-attention, then a feed-forward block, each inside x + block(x) with a layer norm (N1 §12, N2 §5).

    Shape: (T, N, E), or (N, T, E) with batch_first; N optional → the same. Masks as in `MultiheadAttention`

    >>> nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)(weft.randn(2, 5, 16)).shape
    weft.Size([2, 5, 16])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **options)
        self._make_feed_forward(d_model, dim_feedforward, dropout, options)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.activation = _activation_function(activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.dropout1(_attended(self.self_attn, x, x, src_mask, src_key_padding_mask, is_causal))

        x = self._residual(src, self.norm1, attend)
        return self._residual(x, self.norm2, lambda x: self.dropout2(self._feed_forward(x)))


class TransformerDecoderLayer(TransformerLayer):
    """Self-attention, attention to the encoder's output `memory`, then a feed-forward block (N1 §12, N2 §5).

    Shape: tgt (T, N, E), memory (S, N, E) → (T, N, E); (N, T, E) with batch_first; N optional

    >>> layer = nn.TransformerDecoderLayer(16, 4, 32, batch_first=True)
    >>> layer(weft.randn(2, 5, 16), weft.randn(2, 7, 16)).shape
    weft.Size([2, 5, 16])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **options)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **options)
        self._make_feed_forward(d_model, dim_feedforward, dropout, options)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.dropout1, self.dropout2, self.dropout3 = Dropout(dropout), Dropout(dropout), Dropout(dropout)
        self.activation = _activation_function(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        x = self._residual(tgt, self.norm1, lambda x: self.dropout1(_attended(self.self_attn, x, x, *own)))
        x = self._residual(x, self.norm2, lambda x: self.dropout2(_attended(self.multihead_attn, x, memory, *other)))
        return self._residual(x, self.norm3, lambda x: self.dropout3(self._feed_forward(x)))


def _attended(
    attention: Module, x: Tensor, source: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool
) -> Tensor:
    """x attending to `source`, without the weights."""
    return attention(
        x, source, source, attn_mask=mask, key_padding_mask=padding, is_causal=is_causal, need_weights=False
    )[0]


# ------------------------------------------------------------------------------------------------ stacks


def _copies(module: Module, count: int) -> ModuleList:
    need_bounded(count, "Transformer", "num_layers", 10_000)
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


class TransformerEncoder(Module):
    """Copies of an encoder layer in turn, and a last norm if given. Shape: as the layer.

    encoder_layer: the layer; its copies start with the same weights
    num_layers: how many copies
    norm: a last normalisation
    enable_nested_tensor, mask_check: accepted for PyTorch's sake

    >>> layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    >>> nn.TransformerEncoder(layer, num_layers=2)(weft.randn(2, 5, 16)).shape
    weft.Size([2, 5, 16])
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Copies of a decoder layer in turn, and a last norm if given. Shape: as the layer.

    decoder_layer: the layer; its copies start with the same weights
    num_layers: how many copies
    norm: a last normalisation

    >>> layer = nn.TransformerDecoderLayer(16, 4, 32, batch_first=True)
    >>> nn.TransformerDecoder(layer, num_layers=2)(weft.randn(2, 5, 16), weft.randn(2, 7, 16)).shape
    weft.Size([2, 5, 16])
    """

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder and decoder, with a layer norm after each stack; matrices start by Xavier's uniform rule (N1 §12).

    Shape: src (S, N, E), tgt (T, N, E) → (T, N, E); (N, ·, E) with batch_first; N optional

    d_model: E, the size of a place
    nhead: the number of heads of attention; must divide it
    num_encoder_layers, num_decoder_layers: how many layers each stack has
    dim_feedforward: the hidden size of the feed-forward blocks
    dropout: the probability of dropping in training
    activation: of the feed-forward blocks, a function or 'relu' or 'gelu'
    custom_encoder, custom_decoder: modules that stand for the stacks
    layer_norm_eps: ε of the layer norms
    batch_first: whether tensors are (N, T, E) instead of (T, N, E)
    norm_first: normalise before each block instead of after each sum
    bias: whether linear layers and layer norms have one

    >>> model = nn.Transformer(16, 4, 1, 1, 32, batch_first=True)
    >>> model(weft.randn(2, 7, 16), weft.randn(2, 5, 16)).shape
    weft.Size([2, 5, 16])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first)
        options = {"bias": bias, "device": device, "dtype": dtype}
        norm = lambda: LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.encoder = custom_encoder
        if custom_encoder is None:
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*sizes, **options), num_encoder_layers, norm())
        self.decoder = custom_decoder
        if custom_decoder is None:
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*sizes, **options), num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        self._check(src, tgt)
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    def _check(self, src: Tensor, tgt: Tensor) -> None:
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and tgt.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            raise ShapeError(
                f"the batch number of src and tgt must be equal, got {tuple(src.shape)} and {tuple(tgt.shape)}"
            )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ShapeError(
                f"the feature number of src and tgt must be equal to d_model {self.d_model}, got {tuple(src.shape)} and "
                f"{tuple(tgt.shape)}"
            )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """−∞ above the diagonal and 0 elsewhere: position i sees 0 … i. Shape: (sz, sz)."""
        return weft.full((sz, sz), float("-inf"), device=device, dtype=dtype).triu(1)
