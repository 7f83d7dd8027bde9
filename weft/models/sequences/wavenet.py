"""WaveNet: gated dilated causal convolutions with skip connections (van den Oord et al. 2016), and its fast generation.

Generation keeps, for each layer, the inputs that its kernel will still see (Le Paine et al. 2016): a new sample costs
one step of every layer, however long the receptive field is.
"""

from __future__ import annotations

import math

import weft

from ... import nn
from ...errors import OptionError
from ...tensor import Tensor
from ..text.decoding import sample

__all__ = ["GatedBlock", "WaveNet", "mu_law_decode", "mu_law_encode"]

F = nn.functional
State = tuple[Tensor, ...]


class GatedBlock(nn.Module):
    """z = tanh(W_f ∗ x + V_f c) ⊙ σ(W_g ∗ x + V_g c); x + W_r z goes on, W_s z to the output (eqs. 2 and 3).

    c is a vector for the whole sequence (a speaker, say), if `condition` gives its width. W_f and W_g are one convolution.
    Shape: x (B, C, T), c (B, condition) → (B, C, T), (B, S, T)
    """

    def __init__(self, channels: int, skip: int, kernel_size: int, dilation: int, condition: int = 0) -> None:
        super().__init__()
        self.gates = nn.CausalConv1d(channels, 2 * channels, kernel_size, dilation=dilation)
        self.condition = nn.Linear(condition, 2 * channels, bias=False) if condition else None
        self.residual, self.skip = nn.Conv1d(channels, channels, 1), nn.Conv1d(channels, skip, 1)
        self.reach = dilation * (kernel_size - 1)

    def forward(self, x: Tensor, c: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self._mixed(x, self.gates(x), c)

    def step(self, x: Tensor, past: Tensor, c: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Places further: x (B, C, T), the `reach` inputs before them (B, C, reach) → x, skip, the new past."""
        seen = weft.cat([past, x], -1)  # (B, C, reach + T)
        gates = F.conv1d(seen, self.gates.weight, self.gates.bias, dilation=self.gates.dilation)  # (B, 2C, T)
        return *self._mixed(x, gates, c), seen[..., x.shape[-1] :]

    def _mixed(self, x: Tensor, gates: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.condition is not None:
            gates = gates + self.condition(c).unsqueeze(-1)
        signal, gate = gates.chunk(2, dim=1)
        z = signal.tanh() * gate.sigmoid()
        return x + self.residual(z), self.skip(z)


class WaveNet(nn.Module):
    """P(token_{t+1} | token_0 … token_t) over `classes` values, such as the levels of `mu_law_encode`.

    `blocks` times `layers` gated blocks with dilations 1, 2, …, 2^(layers − 1). Each output sees
    R = blocks (K − 1)(2^layers − 1) + 1 tokens: `receptive_field`.
    Parameters without condition: V C + N (2K C² + 2C + C² + C + C S + S) + S² + S + S V + V, N = blocks · layers.
    Shape: tokens (B, T), c (B, condition) → logits (B, T, classes)

    >>> model = WaveNet(256, 32, layers=10, blocks=3)
    >>> model.receptive_field
    3070
    """

    def __init__(
        self,
        classes: int = 256,
        channels: int = 32,
        skip: int = 64,
        *,
        layers: int = 8,
        blocks: int = 1,
        kernel_size: int = 2,
        condition: int = 0,
    ) -> None:
        super().__init__()
        dilations = [2**level for _ in range(blocks) for level in range(layers)]
        self.channels = channels
        self.embedding = nn.Embedding(classes, channels)
        self.blocks = nn.ModuleList([GatedBlock(channels, skip, kernel_size, d, condition) for d in dilations])
        self.output = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, classes, 1))
        self.receptive_field = 1 + (kernel_size - 1) * sum(dilations)

    def forward(self, tokens: Tensor, c: Tensor | None = None) -> Tensor:
        self._check(c)
        x, total = self.embedding(tokens).transpose(1, 2), 0.0  # (B, T, C) → (B, C, T)
        for block in self.blocks:
            x, skip = block(x, c)
            total = total + skip
        return self.output(total).transpose(1, 2)  # (B, classes, T) → (B, T, classes)

    def initial_state(self, batch_size: int) -> State:
        """The past of every block before the first token: zeros (B, C, reach), as the padding of `forward`."""
        kind = self.embedding.weight.dtype
        return tuple(weft.zeros(batch_size, self.channels, block.reach, dtype=kind) for block in self.blocks)

    def step(self, tokens: Tensor, state: State | None = None, c: Tensor | None = None) -> tuple[Tensor, State]:
        """Logits after more tokens, in time independent of the receptive field. Shape: (B, T) → (B, classes)"""
        self._check(c)
        state = self.initial_state(tokens.shape[0]) if state is None else state
        x, total, after = self.embedding(tokens).transpose(1, 2), 0.0, []  # (B, T, C) → (B, C, T)
        for block, past in zip(self.blocks, state, strict=True):
            x, skip, past = block.step(x, past, c)
            total = total + skip
            after.append(past)
        return self.output(total[..., -1:]).squeeze(-1), tuple(after)

    def generate(
        self, tokens: Tensor, count: int, c: Tensor | None = None, *, temperature: float = 1.0, seed: int = 0
    ) -> Tensor:
        """`count` tokens drawn one after the other behind the given ones. Shape: (B, T) → (B, T + count)"""
        step = lambda tokens, state: self.step(tokens, state, c)
        generator = weft.Generator().manual_seed(seed)
        return sample(step, tokens, max_new_tokens=count, temperature=temperature, generator=generator)

    def _check(self, c: Tensor | None) -> None:
        expected = self.blocks[0].condition
        if (expected is None) != (c is None):
            what = "takes no condition" if expected is None else f"needs a condition (B, {expected.in_features})"
            raise OptionError(f"WaveNet: this model {what}, got {None if c is None else tuple(c.shape)}")


def mu_law_encode(x: Tensor, levels: int = 256) -> Tensor:
    """Loudness in [−1, 1] as whole numbers 0 … levels − 1, fine near 0: sign(x) ln(1 + μ|x|) / ln(1 + μ), μ = levels − 1."""
    mu = levels - 1
    squeezed = x.sign() * (x.abs() * mu).log1p() / math.log1p(mu)
    return ((squeezed + 1) / 2 * mu + 0.5).floor().to(weft.int64).clamp(0, mu)


def mu_law_decode(tokens: Tensor, levels: int = 256) -> Tensor:
    """The middle of each level: sign(y) ((1 + μ)^|y| − 1) / μ with y = 2 token / μ − 1."""
    mu = levels - 1
    y = tokens.to(weft.get_default_dtype()) / mu * 2 - 1
    return y.sign() * ((y.abs() * math.log1p(mu)).exp() - 1) / mu
