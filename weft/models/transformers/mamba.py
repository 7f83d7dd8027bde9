"""Mamba (Gu & Dao, 2023): a linear recurrence whose matrices depend on the token, in place of attention.

[u; z] = W_in RMSNorm(x), u ← silu(causal convolution of u), (δ, B, C) = W_x u, Δ = softplus(W_Δ δ + b), then for every
channel with A = −exp(A_log)
    h_t = exp(Δ_t A) h_{t−1} + Δ_t B_t u_t,   y_t = C_t · h_t + D u_t,   x ← x + W_out (y ∘ silu(z)).
What is kept of a text is h and the last places of the convolution, however long it is. mamba-130m has 129,135,360
parameters. Keys are those of transformers.

>>> config = MambaConfig(vocab_size=65, hidden_size=32, num_hidden_layers=2, state_size=4)
>>> MambaForCausalLM(config)(weft.tensor([[1, 2, 3]])).logits.shape
Size([1, 3, 65])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..pretrained.label_losses import next_token_loss
from ..pretrained.outputs import MambaCausalLMOutput, MambaOutput
from ..pretrained.pretrained import Config, PretrainedModel, initialised
from ..pretrained.watching import noted
from ..text.decoding import generate, recomputing
from ..text.generation import GenerationConfig, chosen_options, mask_of_padding
from .blocks import activation
from .causal import lengthened

__all__ = ["MambaConfig", "MambaForCausalLM", "MambaModel"]

F = nn.functional


@dataclass(kw_only=True)
class MambaConfig(Config):
    """The sizes of mamba-130m by default but for its 24 layers. time_step_rank: "auto" is hidden_size / 16, rounded up."""

    model_type: ClassVar[str] = "mamba"
    sizes: ClassVar[tuple[str, ...]] = ("vocab_size", "hidden_size", "state_size", "num_hidden_layers", "conv_kernel")

    vocab_size: int = 50280
    hidden_size: int = 768
    state_size: int = 16
    num_hidden_layers: int = 32
    layer_norm_epsilon: float = 1e-5
    expand: int = 2
    conv_kernel: int = 4
    use_bias: bool = False
    use_conv_bias: bool = True
    hidden_act: str = "silu"
    initializer_range: float = 0.1
    residual_in_fp32: bool = True
    time_step_rank: int | str = "auto"
    time_step_scale: float = 1.0
    time_step_min: float = 0.001
    time_step_max: float = 0.1
    time_step_init_scheme: str = "random"
    time_step_floor: float = 1e-4
    bos_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 0
    pad_token_id: int | None = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.time_step_rank == "auto":
            self.time_step_rank = math.ceil(self.hidden_size / 16)
        if not isinstance(self.time_step_rank, int) or self.time_step_rank < 1:
            raise OptionError(f"MambaConfig: time_step_rank must be a number or 'auto', got {self.time_step_rank!r}")

    @property
    def channels(self) -> int:
        return int(self.expand * self.hidden_size)


class MixerState(NamedTuple):
    """Of one layer: what the convolution read at the last K places (B, I, K), and h (B, I, N)."""

    read: Tensor
    hidden: Tensor

    @property
    def conv_states(self) -> dict[int, Tensor]:
        """The first under the name of transformers, which numbers the states of a layer."""
        return {0: self.read}

    @property
    def recurrent_states(self) -> dict[int, Tensor]:
        """The second under the name of transformers."""
        return {0: self.hidden}


class MambaState(NamedTuple):
    """Of all layers; mask (B, S): 0 for padding before the beginnings, None if there is none."""

    layers: tuple[MixerState, ...] = ()
    mask: Tensor | None = None


class MambaMixer(nn.Module):
    """The recurrence of one layer. Shape: (B, T, C) → (B, T, C)"""

    def __init__(self, config: MambaConfig) -> None:
        super().__init__()
        width, inner, size, rank = config.hidden_size, config.channels, config.state_size, config.time_step_rank
        kernel = config.conv_kernel
        self.conv1d = nn.Conv1d(inner, inner, kernel, groups=inner, padding=kernel - 1, bias=config.use_conv_bias)
        self.in_proj = nn.Linear(width, 2 * inner, bias=config.use_bias)
        self.x_proj = nn.Linear(inner, rank + 2 * size, bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        self.A_log = nn.Parameter(weft.arange(1, size + 1, dtype=weft.float32).log().repeat(inner, 1))
        self.D = nn.Parameter(weft.ones(inner))
        self.out_proj = nn.Linear(inner, width, bias=config.use_bias)
        self.function, self.split = activation(config.hidden_act), (rank, size, size)

    def start(self, config: MambaConfig) -> None:
        """Δ between time_step_min and time_step_max at first, evenly over their logarithms."""
        std, low, high = (
            config.time_step_rank**-0.5 * config.time_step_scale,
            config.time_step_min,
            config.time_step_max,
        )
        with weft.no_grad():
            if config.time_step_init_scheme == "constant":
                nn.init.constant_(self.dt_proj.weight, std)
            else:
                nn.init.uniform_(self.dt_proj.weight, -std, std)
            step = (
                (weft.rand(len(self.D)) * math.log(high / low) + math.log(low)).exp().clamp(min=config.time_step_floor)
            )
            self.dt_proj.bias.copy_(step + (-(-step).expm1()).log())  # softplus of it is the step

    def forward(self, x: Tensor, mask: Tensor | None, state: MixerState | None) -> tuple[Tensor, MixerState]:
        """mask (B, T): 0 for padding, whose tokens leave no trace."""
        if mask is not None:
            x = x * mask.unsqueeze(-1).to(x.dtype)
        u, gate = self.in_proj(x).mT.chunk(2, 1)  # (B, I, T) each
        places = self.conv1d.kernel_size[0]
        known = F.pad(u, (places, 0)) if state is None else weft.cat([state.read, u], -1)  # (B, I, K + T)
        weights = self.conv1d.weight, self.conv1d.bias
        u = self.function(F.conv1d(known[..., 1:], *weights, groups=self.conv1d.groups)).mT  # (B, T, I)
        if mask is not None:
            u = u * mask.unsqueeze(-1).to(u.dtype)
        step, into, out = self.x_proj(u).split(self.split, -1)  # (B, T, R), (B, T, N) twice
        step = F.softplus(self.dt_proj(step))  # Δ, (B, T, I)
        y, hidden = selective_scan(
            u, step, -self.A_log.float().exp(), into, out, None if state is None else state.hidden
        )
        y = (y + u * self.D) * self.function(gate.mT)
        return self.out_proj(y), MixerState(known[..., known.shape[-1] - places :], hidden)


def selective_scan(
    u: Tensor, step: Tensor, a: Tensor, into: Tensor, out: Tensor, hidden: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """y_t = C_t · h_t with h_t = exp(Δ_t A) h_{t−1} + Δ_t B_t u_t, and the last h; h_{−1} = 0 unless given.

    Shape: u, Δ (B, T, I), A (I, N), B, C (B, T, N), h (B, I, N) → (B, T, I), (B, I, N)

    >>> one = weft.ones(1, 3, 1)
    >>> selective_scan(one, one, weft.zeros(1, 1), one, one)[0].flatten()  # a running sum
    tensor([1., 2., 3.])
    """
    hidden = weft.zeros(len(u), *a.shape, dtype=u.dtype) if hidden is None else hidden
    kept = (step.unsqueeze(-1) * a).exp()  # (B, T, I, N)
    added = (step * u).unsqueeze(-1) * into.unsqueeze(2)  # (B, T, I, N)

    def move(h: Tensor, at: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        keep, add, read = at
        h = keep * h + add
        return h, (h * read.unsqueeze(1)).sum(-1)  # (B, I)

    hidden, y = weft.scan(move, hidden, tuple(part.transpose(0, 1) for part in (kept, added, out)))
    return y.transpose(0, 1), hidden


class MambaBlock(nn.Module):
    """x + mixer(RMSNorm(x))."""

    def __init__(self, config: MambaConfig) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.mixer, self.single = MambaMixer(config), config.residual_in_fp32

    def forward(self, x: Tensor, mask: Tensor | None, state: MixerState | None) -> tuple[Tensor, MixerState]:
        y, state = self.mixer(self.norm(x.to(self.norm.weight.dtype)), mask, state)
        return (x.float() if self.single else x) + y, state


class MambaModel(PretrainedModel):
    """The stack without a head: (B, T) → (B, T, C).

    attention_mask: 0 for padding before the tokens. cache_params: what an earlier call returned; input_ids are then the
    tokens after it. use_cache: whether it is returned, the config's word unless given, but not in training.
    """

    config_class = MambaConfig
    body = "backbone"
    heads = ("lm_head.",)
    newer = ((r"(^|\.)embedding\.weight$", r"\1embeddings.weight"),)

    def __init__(self, config: MambaConfig) -> None:
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(MambaBlock(config) for _ in range(config.num_hidden_layers))
        self.norm_f = nn.RMSNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        initialised(self, config.initializer_range)
        for layer in self.layers:
            layer.mixer.start(config)

    def decode(self, input_ids: Tensor, mask: Tensor | None, state: MambaState) -> tuple[Tensor, MambaState]:
        """Hidden states of the new tokens, and the state after them. Shape: (B, T), mask (B, T) → (B, T, C)"""
        before = state.layers or (None,) * len(self.layers)
        x, after = self.embeddings(input_ids), []
        for layer, kept in zip(self.layers, before, strict=True):
            x, kept = layer(x, mask, kept)
            noted(x)
            after.append(kept)
        return self.norm_f(x.to(self.norm_f.weight.dtype)), state._replace(layers=tuple(after))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        cache_params: MambaState | None = None,
        use_cache: bool | None = None,
        return_dict: bool | None = None,
        **asked: Any,
    ) -> MambaOutput:
        if attention_mask is not None and attention_mask.shape != input_ids.shape:
            raise ShapeError(
                f"attention_mask: expected {tuple(input_ids.shape)}, that of the new tokens, got "
                f"{tuple(attention_mask.shape)}"
            )
        with self.watched(**asked) as watch:
            x, state = self.decode(input_ids, attention_mask, cache_params or MambaState())
        kept = self.config.use_cache and not self.training if use_cache is None else use_cache
        found = {"cache_params": state if kept else None, "hidden_states": watch.hidden_states(x)}
        return self.delivered(MambaOutput(last_hidden_state=x, **found), return_dict)


class MambaForCausalLM(PretrainedModel):
    """Mamba with scores of the next token: (B, T) → (B, T, V). Arguments are those of `MambaModel`.

    labels (B, T): mostly the tokens themselves, −100 where nothing is to be learned; place t is compared with label t + 1.
    """

    config_class = MambaConfig
    body = "backbone"
    heads, newer = MambaModel.heads, MambaModel.newer

    def __init__(self, config: MambaConfig) -> None:
        super().__init__(config)
        self.backbone = MambaModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.backbone.embeddings.weight
        else:
            initialised(self.lm_head, config.initializer_range)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **more: Any,
    ) -> MambaCausalLMOutput:
        decoded = self.backbone(input_ids, attention_mask, **more, return_dict=True)
        logits = self.lm_head(decoded.last_hidden_state).float()
        loss = None if labels is None else next_token_loss(logits, labels)
        return self.answered(MambaCausalLMOutput, decoded, return_dict, loss=loss, logits=logits)

    def step(self, tokens: Tensor, state: MambaState | None = None) -> tuple[Tensor, MambaState]:
        """Scores of the token after the last, and a state of the same size at every step. Shape: (B, T) → (B, V)"""
        state = MambaState() if state is None else state
        hidden, state = self.backbone.decode(tokens, None if state.layers else state.mask, state)
        return self.lm_head(hidden[:, -1]), state

    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        generation_config: GenerationConfig | None = None,
        use_cache: bool = True,
        compiled: bool = False,
        **options: Any,
    ) -> Tensor:
        """Beginnings (B, T), padded on the left, continued; options as in `CausalLM.generate`.

        compiled: the step of one token as a plan, made at the first use and kept with the model.
        """
        options = chosen_options(self, generation_config, options, input_ids.shape[-1])
        if attention_mask is None:
            attention_mask = mask_of_padding(input_ids, options["pad_token_id"], options["eos_token_id"])
        start = MambaState(mask=attention_mask)
        if not use_cache:
            return generate(recomputing(self._all), input_ids, start, **options)
        return generate(self._steps() if compiled else self.step, input_ids, start, **options)

    def _steps(self) -> Any:
        """`step`, compiled after the beginnings."""
        kept = self.__dict__.get("_compiled_step")
        if kept is None or kept.__self__ is not self:
            kept = self.__dict__["_compiled_step"] = weft.compile(self.step)

        def run(tokens: Tensor, state: MambaState) -> tuple[Tensor, MambaState]:
            return kept(tokens, state) if state.layers else self.step(tokens, state)

        return run

    def _all(self, tokens: Tensor, start: MambaState) -> Tensor:
        mask = lengthened(start.mask, tokens.shape[1])
        return self(tokens, mask, use_cache=False, return_dict=True).logits
