# FlexAttention: masks and scores as functions, with a small language model trained over them
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention.flex_attention import and_masks, create_block_mask, create_mask, flex_attention, noop_mask, or_masks

from portable import normal, reset

WINDOW = 5


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def sliding(b, h, q_idx, kv_idx):
    return q_idx - kv_idx <= WINDOW


def prefix(b, h, q_idx, kv_idx):
    return kv_idx < 2


def documents(ids):
    def mask_mod(b, h, q_idx, kv_idx):
        return ids[q_idx] == ids[kv_idx]

    return mask_mod


def generate_alibi_bias(H):
    def alibi_mod(score, b, h, q_idx, kv_idx):
        scale = torch.exp2(-((h + 1) * 8.0 / H))
        return score + scale * (kv_idx - q_idx)

    return alibi_mod


def tanh_softcap(soft_cap):
    def softcap(score, b, h, q_idx, kv_idx):
        return soft_cap * torch.tanh(score / soft_cap)

    return softcap


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, x, score_mod=None, block_mask=None):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in self.qkv(x).split(C, dim=-1))
        if torch.is_grad_enabled():  # on the CPU the fused kernel has no backward pass
            mask = block_mask.mask_mod(torch.tensor(0), torch.tensor(0), torch.arange(T)[:, None], torch.arange(T)[None, :])
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        else:
            y = flex_attention(q, k, v, score_mod=score_mod, block_mask=block_mask)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


class LM(nn.Module):
    def __init__(self, vocab=11, dim=16):
        super().__init__()
        self.emb, self.attn, self.norm, self.head = nn.Embedding(vocab, dim), Attention(dim, 2), nn.RMSNorm(dim), nn.Linear(dim, vocab)

    def forward(self, idx, **how):
        x = self.emb(idx)
        return self.head(self.norm(x + self.attn(x, **how)))


T = 12
tokens = torch.arange(3 * (T + 1)).view(3, T + 1).mul(7).remainder(11)
ids = torch.tensor([0] * 5 + [1] * 7)
masks = [
    create_block_mask(and_masks(causal, sliding), B=None, H=None, Q_LEN=T, KV_LEN=T, device="cpu"),
    create_block_mask(or_masks(causal, prefix), None, None, T, T, device="cpu"),
    create_block_mask(and_masks(causal, documents(ids)), None, None, T, T, device="cpu"),
]
dense = create_mask(causal, 1, 1, T, T, device="cpu")
assert dense.shape == (1, 1, T, T) and torch.equal(dense[0, 0], torch.ones(T, T, dtype=torch.bool).tril())
net = reset(LM())
optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)
history = []
for step in range(9):
    how = {"block_mask": masks[step % 3], "score_mod": (None, generate_alibi_bias(2), tanh_softcap(20.0))[step // 3]}
    with torch.no_grad():
        history.append(F.cross_entropy(net(tokens[:, :-1], **how).flatten(0, 1), tokens[:, 1:].flatten()).item())
    loss = F.cross_entropy(net(tokens[:, :-1], block_mask=masks[step % 3]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
q, k, v = (normal(1, 4, 6, 8, seed=s) for s in range(3))
history.append(flex_attention(q, k, v).square().mean().item())
history.append(flex_attention(q, k[:, :2], v[:, :2], enable_gqa=True, scale=0.5).square().mean().item())
out, lse = flex_attention(q, k, v, score_mod=generate_alibi_bias(4), return_lse=True)
history += [out.mean().item(), lse.mean().item()]
