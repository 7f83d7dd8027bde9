# Modules as lucidrains writes them: einops everywhere, exists and default, rotary embeddings, memory, cosine attention
from collections import namedtuple
from functools import partial, wraps
from math import log

import torch
import torch.nn.functional as F
from einops import pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import Rearrange, Reduce
from torch import einsum, nn
from torch.amp import autocast

from portable import images, reset

Intermediates = namedtuple("Intermediates", ["attn", "values"])


def exists(val):
    return val is not None


def default(val, d):
    return val if exists(val) else d() if callable(d) else d


def once(fn):
    called = False

    @wraps(fn)
    def inner(x):
        nonlocal called
        if called:
            return
        called = True
        return fn(x)

    return inner


def l2norm(t):
    return F.normalize(t, p=2, dim=-1)


def max_neg_value(tensor):
    return -torch.finfo(tensor.dtype).max


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, theta=10000):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / (theta ** (torch.arange(0, dim, 2).float() / dim)), persistent=False)

    @autocast("cpu", enabled=False)
    def forward(self, n):
        t = torch.arange(n, device=self.inv_freq.device).type_as(self.inv_freq)
        freqs = einsum("i , j -> i j", t, self.inv_freq)
        return repeat(freqs, "n d -> n (d r)", r=2)


def rotate_half(x):
    x = rearrange(x, "... (d r) -> ... d r", r=2)
    x1, x2 = x.unbind(dim=-1)
    return rearrange(torch.stack((-x2, x1), dim=-1), "... d r -> ... (d r)")


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale, self.gamma = dim**0.5, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return F.normalize(x, dim=-1) * self.scale * self.gamma


class GEGLU(nn.Module):
    def forward(self, x):
        x, gate = x.chunk(2, dim=-1)
        return F.gelu(gate) * x


def FeedForward(dim, mult=2):
    return nn.Sequential(RMSNorm(dim), nn.Linear(dim, dim * mult * 2), GEGLU(), nn.Linear(dim * mult, dim))


class Attention(nn.Module):
    def __init__(self, dim, dim_head=8, heads=2, num_mem_kv=2, qk_norm=True):
        super().__init__()
        self.norm, self.heads, self.qk_norm = RMSNorm(dim), heads, qk_norm
        self.to_qkv = nn.Linear(dim, dim_head * heads * 3, bias=False)
        self.mem_kv = nn.Parameter(torch.randn(2, heads, num_mem_kv, dim_head))
        self.to_out = nn.Sequential(Rearrange("b h n d -> b n (h d)"), nn.Linear(dim_head * heads, dim, bias=False))

    def forward(self, x, mask=None, rotary_pos_emb=None):
        b, n, h = *x.shape[:2], self.heads
        q, k, v = map(partial(rearrange, pattern="b n (h d) -> b h n d", h=h), self.to_qkv(self.norm(x)).chunk(3, dim=-1))
        if self.qk_norm:
            q, k = map(l2norm, (q, k))
        if exists(rotary_pos_emb):
            q, k = map(lambda t: t * rotary_pos_emb.cos() + rotate_half(t) * rotary_pos_emb.sin(), (q, k))
        mk, mv = map(lambda t: repeat(t, "h n d -> b h n d", b=b), self.mem_kv)
        k, v = torch.cat((mk, k), dim=-2), torch.cat((mv, v), dim=-2)
        sim = einsum("b h i d, b h j d -> b h i j", q, k) * 8
        if exists(mask):
            mask = F.pad(rearrange(mask, "b j -> b 1 1 j"), (mk.shape[-2], 0), value=True)
            sim = sim.masked_fill(~mask, max_neg_value(sim))
        attn = sim.softmax(dim=-1)
        out = einsum("b h i j, b h j d -> b h i d", attn, v)
        return self.to_out(out), Intermediates(attn, v)


class ViT(nn.Module):
    def __init__(self, *, image_size, patch_size, num_classes, dim, depth, channels=1):
        super().__init__()
        n = (image_size // patch_size) ** 2
        self.to_patch_embedding = nn.Sequential(Rearrange("b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=patch_size, p2=patch_size), nn.LayerNorm(patch_size**2 * channels), nn.Linear(patch_size**2 * channels, dim))
        self.cls_token, self.pos_embedding = nn.Parameter(torch.randn(dim)), nn.Parameter(torch.randn(n, dim))
        self.rotary = RotaryEmbedding(8)
        self.layers = nn.ModuleList([nn.ModuleList([Attention(dim), FeedForward(dim)]) for _ in range(depth)])
        self.pool, self.to_logits = Reduce("b n d -> b d", "mean"), nn.Linear(dim * 2, num_classes)

    def forward(self, img, mask=None):
        x = self.to_patch_embedding(img) + self.pos_embedding
        cls = repeat(self.cls_token, "d -> b d", b=x.shape[0])
        x, ps = pack([cls, x], "b * d")
        rotary, kept = self.rotary(x.shape[1]), []
        mask = default(mask, lambda: torch.ones(x.shape[:2], dtype=torch.bool))
        for attn, ff in self.layers:
            out, intermediates = attn(x, mask=mask, rotary_pos_emb=rotary)
            kept.append(intermediates)
            x = out + x
            x = ff(x) + x
        cls, x = unpack(x, ps, "b * d")
        return self.to_logits(torch.cat((cls, self.pool(x)), dim=-1)), kept


print_once = once(print)
x, y = images(12, size=8)
net = reset(ViT(image_size=8, patch_size=4, num_classes=4, dim=16, depth=2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
history = []
mask = torch.ones(12, 5, dtype=torch.bool)
mask[::2, -1] = False
for _ in range(8):
    logits, kept = net(x, mask)
    entropy = reduce(-(kept[0].attn * log(2.0) * kept[0].attn.clamp(min=1e-9).log2()).sum(-1), "b h n -> ", "mean")
    loss = F.cross_entropy(logits, y) - 0.01 * entropy
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
print_once(f"{history[-1]:.3f}")
