import copy
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from portable import images, normal, reset


def exists(x):
    return x is not None


def default(val, d):
    if exists(val):
        return val
    return d() if callable(d) else d


def extract(a, t, x_shape):
    b, *_ = t.shape
    out = a.gather(-1, t)
    return out.reshape(b, *((1,) * (len(x_shape) - 1)))


class SinusoidalPosEmb(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        device = x.device
        half_dim = self.dim // 2
        emb = math.log(10000) / (half_dim - 1)
        emb = torch.exp(torch.arange(half_dim, device=device) * -emb)
        emb = x[:, None] * emb[None, :]
        return torch.cat((emb.sin(), emb.cos()), dim=-1)


class Block(nn.Module):
    def __init__(self, dim, dim_out, groups=2):
        super().__init__()
        self.proj = nn.Conv2d(dim, dim_out, 3, padding=1)
        self.norm = nn.GroupNorm(groups, dim_out)
        self.act = nn.SiLU()

    def forward(self, x, scale_shift=None):
        x = self.norm(self.proj(x))
        if exists(scale_shift):
            scale, shift = scale_shift
            x = x * (scale + 1) + shift
        return self.act(x)


class ResnetBlock(nn.Module):
    def __init__(self, dim, dim_out, *, time_emb_dim=None, groups=2):
        super().__init__()
        self.mlp = nn.Sequential(nn.SiLU(), nn.Linear(time_emb_dim, dim_out * 2)) if exists(time_emb_dim) else None
        self.block1, self.block2 = Block(dim, dim_out, groups=groups), Block(dim_out, dim_out, groups=groups)
        self.res_conv = nn.Conv2d(dim, dim_out, 1) if dim != dim_out else nn.Identity()

    def forward(self, x, time_emb=None):
        scale_shift = None
        if exists(self.mlp) and exists(time_emb):
            time_emb = self.mlp(time_emb)
            time_emb = time_emb[:, :, None, None]
            scale_shift = time_emb.chunk(2, dim=1)
        h = self.block1(x, scale_shift=scale_shift)
        return self.block2(h) + self.res_conv(x)


class LinearAttention(nn.Module):
    def __init__(self, dim, heads=2, dim_head=4):
        super().__init__()
        self.scale, self.heads = dim_head ** -0.5, heads
        self.to_qkv = nn.Conv2d(dim, dim_head * heads * 3, 1, bias=False)
        self.to_out = nn.Conv2d(dim_head * heads, dim, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = (t.reshape(b, self.heads, -1, h * w) for t in self.to_qkv(x).chunk(3, dim=1))
        q = q.softmax(dim=-2) * self.scale
        k = k.softmax(dim=-1)
        context = torch.einsum('b h d n, b h e n -> b h d e', k, v)
        out = torch.einsum('b h d e, b h d n -> b h e n', context, q).reshape(b, -1, h, w)
        return self.to_out(out)


class Unet(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.time_mlp = nn.Sequential(SinusoidalPosEmb(dim), nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim * 2))
        self.init_conv = nn.Conv2d(1, dim, 5, padding=2)
        self.down, self.mid, self.attn = ResnetBlock(dim, dim, time_emb_dim=dim * 2), ResnetBlock(dim, dim, time_emb_dim=dim * 2), LinearAttention(dim)
        self.pool = nn.Conv2d(dim, dim, 4, 2, 1)
        self.upsample = nn.Sequential(nn.Upsample(scale_factor=2, mode='nearest'), nn.Conv2d(dim, dim, 3, padding=1))
        self.final = nn.Conv2d(dim * 2, 1, 1)

    def forward(self, x, time):
        x = self.init_conv(x)
        t = self.time_mlp(time)
        h = self.down(x, t)
        x = self.pool(h)
        x = x + self.attn(self.mid(x, t))
        x = self.upsample(x)
        return self.final(torch.cat((x, h), dim=1))


class GaussianDiffusion(nn.Module):
    def __init__(self, model, timesteps=20):
        super().__init__()
        self.model = model
        steps = timesteps + 1
        x = torch.linspace(0, timesteps, steps, dtype=torch.float64)
        alphas_cumprod = torch.cos(((x / timesteps) + 0.008) / 1.008 * math.pi * 0.5) ** 2
        alphas_cumprod = alphas_cumprod / alphas_cumprod[0]
        betas = torch.clip(1 - (alphas_cumprod[1:] / alphas_cumprod[:-1]), 0, 0.999)
        alphas_cumprod = torch.cumprod(1. - betas, dim=0)
        register_buffer = lambda name, val: self.register_buffer(name, val.to(torch.float32))
        register_buffer('betas', betas)
        register_buffer('sqrt_alphas_cumprod', torch.sqrt(alphas_cumprod))
        register_buffer('sqrt_one_minus_alphas_cumprod', torch.sqrt(1. - alphas_cumprod))
        snr = alphas_cumprod / (1 - alphas_cumprod)
        register_buffer('loss_weight', snr.clone().clamp_(max=5) / snr)

    def q_sample(self, x_start, t, noise=None):
        noise = default(noise, lambda: torch.randn_like(x_start))
        return extract(self.sqrt_alphas_cumprod, t, x_start.shape) * x_start + extract(self.sqrt_one_minus_alphas_cumprod, t, x_start.shape) * noise

    def forward(self, img, t, noise):
        loss = F.mse_loss(self.model(self.q_sample(img, t, noise), t), noise, reduction='none')
        loss = loss.flatten(1).mean(1) * extract(self.loss_weight, t, (len(t),))
        return loss.mean()


diffusion = GaussianDiffusion(reset(Unet()))
opt = torch.optim.Adam(diffusion.parameters(), lr=2e-3, betas=(0.9, 0.99))
ema = copy.deepcopy(diffusion).requires_grad_(False)
x, _ = images(8, size=8)
history = []
for step in range(8):
    t = torch.from_numpy(np.random.RandomState(step).randint(0, 20, 8)).long()
    loss = diffusion(x * 2 - 1, t, normal(*x.shape, seed=step))
    loss.backward()
    nn.utils.clip_grad_norm_(diffusion.parameters(), 1.0)
    opt.step()
    opt.zero_grad()
    for p, q in zip(ema.parameters(), diffusion.parameters()):
        p.lerp_(q, 0.1)
    history.append(loss.item())
with torch.no_grad():
    history.append(ema(x, t, normal(*x.shape, seed=99)).item())
