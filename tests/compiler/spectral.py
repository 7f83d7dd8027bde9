"""Layers that compute with complex numbers and Fourier transforms, as people write them."""

from __future__ import annotations

import math

import weft
from weft import nn


class DiagonalStateSpace(nn.Module):
    """A diagonal state-space layer (S4D) as one long convolution: y = k ∗ u + D u, k[l] = 2 Re Σₙ C′ₙ e^(l Δ Aₙ)."""

    def __init__(self, channels: int, states: int = 16) -> None:
        super().__init__()
        half = states // 2
        self.C = nn.Parameter(weft.randn(channels, half, 2) * 0.5**0.5)
        self.log_step = nn.Parameter(weft.rand(channels) * 3 - 5)
        self.log_decay = nn.Parameter(weft.full((channels, half), math.log(0.5)))
        self.frequency = nn.Parameter(math.pi * weft.arange(half).float().expand(channels, half).clone())
        self.D = nn.Parameter(weft.randn(channels))

    def forward(self, u: weft.Tensor) -> weft.Tensor:
        length = u.shape[-1]  # u: (B, H, L)
        A = -self.log_decay.exp() + 1j * self.frequency
        step = A * self.log_step.exp().unsqueeze(-1)
        C = weft.view_as_complex(self.C) * (step.exp() - 1.0) / A
        powers = (step.unsqueeze(-1) * weft.arange(length)).exp()  # (H, N, L)
        kernel = 2 * weft.einsum("hn,hnl->hl", C, powers).real
        spectrum = weft.fft.rfft(kernel, n=2 * length) * weft.fft.rfft(u, n=2 * length)
        return weft.fft.irfft(spectrum, n=2 * length)[..., :length] + u * self.D.unsqueeze(-1)


class FourierLayer(nn.Module):
    """A layer of a Fourier neural operator: the lowest frequencies mixed by complex weights, and a 1×1 convolution."""

    def __init__(self, channels: int, rows: int, columns: int) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns
        size = (channels, channels, rows, columns)
        self.low = nn.Parameter(weft.rand(*size, dtype=weft.complex64) / channels**2)
        self.high = nn.Parameter(weft.rand(*size, dtype=weft.complex64) / channels**2)
        self.skip = nn.Conv2d(channels, channels, 1)

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        rows, columns = self.rows, self.columns
        found = weft.fft.rfft2(x)  # (B, C, H, W/2 + 1)
        mixed = weft.zeros(*found.shape, dtype=found.dtype)
        for part, weight in ((slice(0, rows), self.low), (slice(-rows, None), self.high)):
            mixed[:, :, part, :columns] = weft.einsum("bixy,ioxy->boxy", found[:, :, part, :columns], weight)
        return nn.functional.gelu(weft.fft.irfft2(mixed, s=x.shape[-2:]) + self.skip(x))


class AutoCorrelation(nn.Module):
    """Attention by delays (Autoformer): the delays with the largest correlation of q and k, and v rolled by them."""

    def __init__(self, width: int, heads: int, delays: int = 3) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.heads, self.delays = heads, delays

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        B, T, C = x.shape
        q, k, v = (layer(x).view(B, T, self.heads, -1).permute(0, 2, 3, 1) for layer in (self.q, self.k, self.v))
        correlation = weft.fft.irfft(weft.fft.rfft(q) * weft.fft.rfft(k).conj(), n=T)  # (B, heads, C/heads, T)
        weights, delay = correlation.mean((1, 2)).topk(self.delays, dim=-1)
        weights, twice = weights.softmax(-1), weft.cat([v, v], -1)
        places = weft.arange(T).expand(v.shape)
        rolled = [twice.gather(-1, places + delay[:, n].view(B, 1, 1, 1)) for n in range(self.delays)]
        mixed = sum(r * weights[:, n].view(B, 1, 1, 1) for n, r in enumerate(rolled))
        return self.out(mixed.permute(0, 3, 1, 2).reshape(B, T, C))


class FourierMixing(nn.Module):
    """The real part of a transform over time and channels in the place of attention (FNet)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return self.out(self.norm(x + weft.fft.fft2(x).real))
