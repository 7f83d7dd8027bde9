import math
import uuid
from typing import Dict, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter

from registry import register_criterion, register_lr, register_model


def Embedding(num_embeddings, embedding_dim, padding_idx):
    m = nn.Embedding(num_embeddings, embedding_dim, padding_idx=padding_idx)
    nn.init.normal_(m.weight, mean=0, std=embedding_dim ** -0.5)
    nn.init.constant_(m.weight[padding_idx], 0)
    return m


def make_positions(tensor, padding_idx: int):
    mask = tensor.ne(padding_idx).int()
    return (torch.cumsum(mask, dim=1).type_as(mask) * mask).long() + padding_idx


class SinusoidalPositionalEmbedding(nn.Module):
    def __init__(self, embedding_dim, padding_idx, init_size=1024):
        super().__init__()
        self.embedding_dim, self.padding_idx = embedding_dim, padding_idx
        self.weights = SinusoidalPositionalEmbedding.get_embedding(init_size, embedding_dim, padding_idx)
        self.register_buffer("_float_tensor", torch.FloatTensor(1))

    @staticmethod
    def get_embedding(num_embeddings: int, embedding_dim: int, padding_idx: Optional[int] = None):
        half_dim = embedding_dim // 2
        emb = math.log(10000) / (half_dim - 1)
        emb = torch.exp(torch.arange(half_dim, dtype=torch.float) * -emb)
        emb = torch.arange(num_embeddings, dtype=torch.float).unsqueeze(1) * emb.unsqueeze(0)
        emb = torch.cat([torch.sin(emb), torch.cos(emb)], dim=1).view(num_embeddings, -1)
        if padding_idx is not None:
            emb[padding_idx, :] = 0
        return emb

    def forward(self, input):
        bsz, seq_len = input.shape
        self.weights = self.weights.to(self._float_tensor)
        positions = make_positions(input, self.padding_idx)
        return self.weights.index_select(0, positions.view(-1)).view(bsz, seq_len, -1).detach()


class MultiheadAttention(nn.Module):
    def __init__(self, embed_dim, num_heads, add_bias_kv=True):
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.scaling = self.head_dim ** -0.5
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (nn.Linear(embed_dim, embed_dim) for _ in range(4))
        if add_bias_kv:
            self.bias_k = Parameter(torch.Tensor(1, 1, embed_dim))
            self.bias_v = Parameter(torch.Tensor(1, 1, embed_dim))
        else:
            self.bias_k = self.bias_v = None
        self._id = str(uuid.uuid4())
        self.onnx_trace = False

    def forward(self, x, key_padding_mask: Optional[Tensor] = None, attn_mask=None, incremental_state: Optional[Dict[str, Dict[str, Optional[Tensor]]]] = None):
        tgt_len, bsz, embed_dim = x.size()
        q, k, v = self.q_proj(x) * self.scaling, self.k_proj(x), self.v_proj(x)
        if self.bias_k is not None:
            k = torch.cat([k, self.bias_k.repeat(1, bsz, 1)])
            v = torch.cat([v, self.bias_v.repeat(1, bsz, 1)])
            attn_mask = torch.cat([attn_mask, attn_mask.new_zeros(attn_mask.size(0), 1)], dim=1)
            key_padding_mask = torch.cat([key_padding_mask, key_padding_mask.new_zeros(key_padding_mask.size(0), 1)], dim=1)
        q = q.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        k, v = (t.contiguous().view(-1, bsz * self.num_heads, self.head_dim).transpose(0, 1) for t in (k, v))
        src_len = k.size(1)
        attn_weights = torch.bmm(q, k.transpose(1, 2))
        assert list(attn_weights.size()) == [bsz * self.num_heads, tgt_len, src_len]
        attn_weights += attn_mask.unsqueeze(0)
        attn_weights = attn_weights.view(bsz, self.num_heads, tgt_len, src_len)
        attn_weights = attn_weights.masked_fill(key_padding_mask.unsqueeze(1).unsqueeze(2).to(torch.bool), float("-inf"))
        attn_weights = attn_weights.view(bsz * self.num_heads, tgt_len, src_len)
        attn_weights_float = F.softmax(attn_weights, dim=-1, dtype=torch.float32)
        attn = torch.bmm(attn_weights_float.type_as(attn_weights), v)
        attn = attn.transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        return self.out_proj(attn)

    def upgrade_state_dict_named(self, state_dict, name):
        prefix = name + "." if name != "" else ""
        items_to_add, keys_to_remove = {}, []
        for k in state_dict.keys():
            if k.endswith(prefix + "in_proj_weight"):
                dim = int(state_dict[k].shape[0] / 3)
                items_to_add[prefix + "q_proj.weight"] = state_dict[k][:dim]
                items_to_add[prefix + "k_proj.weight"] = state_dict[k][dim: 2 * dim]
                items_to_add[prefix + "v_proj.weight"] = state_dict[k][2 * dim:]
                keys_to_remove.append(k)
        for k in keys_to_remove:
            del state_dict[k]
        for key, value in items_to_add.items():
            state_dict[key] = value


@register_model('lm')
class TransformerLM(nn.Module):
    def __init__(self, vocab, dim=16, pad=1):
        super().__init__()
        self.pad = pad
        self.embed_tokens, self.embed_positions = Embedding(vocab, dim, pad), SinusoidalPositionalEmbedding(dim, pad)
        self.embed_scale = math.sqrt(dim)
        self.layers = nn.ModuleList([])
        self.layers.extend([nn.ModuleDict({'attn': MultiheadAttention(dim, 2), 'ln1': nn.LayerNorm(dim), 'fc1': nn.Linear(dim, 32), 'fc2': nn.Linear(32, dim), 'ln2': nn.LayerNorm(dim)}) for _ in range(2)])
        self._future_mask = torch.empty(0)

    def buffered_future_mask(self, tensor):
        dim = tensor.size(0)
        if self._future_mask.size(0) == 0 or self._future_mask.size(0) < dim:
            self._future_mask = torch.triu(torch.zeros([dim, dim]).float().fill_(float("-inf")), 1)
        self._future_mask = self._future_mask.to(tensor)
        return self._future_mask[:dim, :dim]

    def forward(self, tokens):
        padding_mask = tokens.eq(self.pad)
        x = self.embed_scale * self.embed_tokens(tokens) + self.embed_positions(tokens)
        x = x.transpose(0, 1)
        for layer in self.layers:
            x = layer['ln1'](x + layer['attn'](x, padding_mask, self.buffered_future_mask(x)))
            x = layer['ln2'](x + layer['fc2'](F.relu(layer['fc1'](x))))
        return F.linear(x.transpose(0, 1), self.embed_tokens.weight)


def label_smoothed_nll_loss(lprobs, target, epsilon, ignore_index=None, reduce=True):
    if target.dim() == lprobs.dim() - 1:
        target = target.unsqueeze(-1)
    nll_loss = -lprobs.gather(dim=-1, index=target)
    smooth_loss = -lprobs.sum(dim=-1, keepdim=True)
    if ignore_index is not None:
        pad_mask = target.eq(ignore_index)
        nll_loss.masked_fill_(pad_mask, 0.0)
        smooth_loss.masked_fill_(pad_mask, 0.0)
    if reduce:
        nll_loss, smooth_loss = nll_loss.sum(), smooth_loss.sum()
    eps_i = epsilon / (lprobs.size(-1) - 1)
    return (1.0 - epsilon - eps_i) * nll_loss + eps_i * smooth_loss, nll_loss


@register_criterion('label_smoothed_cross_entropy')
class Criterion(nn.modules.loss._Loss):
    def __init__(self, pad):
        super().__init__()
        self.padding_idx = pad

    def forward(self, model, sample):
        lprobs = F.log_softmax(model(sample['tokens']), dim=-1)
        return label_smoothed_nll_loss(lprobs.view(-1, lprobs.size(-1)), sample['target'].view(-1), 0.1, ignore_index=self.padding_idx)


@register_lr('inverse_sqrt')
class InverseSquareRootSchedule(object):
    def __init__(self, optimizer, warmup=4, lr=5e-3):
        self.optimizer, self.warmup, self.lr_step, self.decay_factor = optimizer, warmup, lr / warmup, lr * warmup ** 0.5

    def step_update(self, num_updates):
        lr = (num_updates + 1) * self.lr_step if num_updates < self.warmup else self.decay_factor * num_updates ** -0.5
        for param_group in self.optimizer.param_groups:
            param_group['lr'] = lr
        return lr
