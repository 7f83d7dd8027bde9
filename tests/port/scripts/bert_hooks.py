"""A masked language model whose state dict is renamed by hooks, with frozen layers and layer-wise rates."""
import logging
from collections import OrderedDict
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import CrossEntropyLoss
from torch.nn.modules.module import register_module_forward_hook

from portable import reset

logger = logging.getLogger(__name__)
ACT2FN = {"gelu": torch.nn.functional.gelu, "relu": torch.nn.functional.relu, "swish": lambda x: x * torch.sigmoid(x)}


class Output(NamedTuple):
    logits: torch.Tensor
    hidden: torch.Tensor


class BertLayerNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-12):
        super(BertLayerNorm, self).__init__()
        self.gamma = nn.Parameter(torch.ones(hidden_size))
        self.beta = nn.Parameter(torch.zeros(hidden_size))
        self.variance_epsilon = eps
        self._register_load_state_dict_pre_hook(self._rename)

    @staticmethod
    def _rename(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for old, new in (('weight', 'gamma'), ('bias', 'beta')):
            if prefix + old in state_dict:
                state_dict[prefix + new] = state_dict.pop(prefix + old)

    def forward(self, x):
        u = x.mean(-1, keepdim=True)
        s = (x - u).pow(2).mean(-1, keepdim=True)
        x = (x - u) / torch.sqrt(s + self.variance_epsilon)
        return self.gamma * x + self.beta


class BertModel(nn.Module):
    def __init__(self, vocab=15, dim=16):
        super().__init__()
        self.embeddings = nn.ModuleDict({'word': nn.Embedding(vocab, dim, padding_idx=0), 'position': nn.Embedding(12, dim)})
        self.norm = BertLayerNorm(dim)
        layer = nn.TransformerEncoderLayer(dim, 2, 32, dropout=0.0, activation=ACT2FN["gelu"], batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.register_buffer("position_ids", torch.arange(12).expand((1, -1)), persistent=False)
        self.decoder = nn.Linear(dim, vocab, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocab))
        self.decoder.weight = self.embeddings['word'].weight
        self._register_state_dict_hook(lambda module, sd, prefix, meta: sd.update({prefix + 'extra': torch.tensor(1.0)}))

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def forward(self, input_ids, attention_mask=None):
        n = input_ids.shape[1]
        x = self.norm(self.embeddings['word'](input_ids) + self.embeddings['position'](self.position_ids[:, :n]))
        x = self.encoder(x, src_key_padding_mask=attention_mask == 0)
        return Output(self.decoder(x) + self.bias, x)


model = reset(BertModel(), 1, 0.6)
calls = []
handle = register_module_forward_hook(lambda m, i, o: calls.append(type(m).__name__))
no_decay = ["bias", "norm"]
grouped = [{"params": [p for n, p in model.named_parameters() if not any(nd in n for nd in no_decay)], "weight_decay": 0.01, "lr": 5e-3},
           {"params": [p for n, p in model.named_parameters() if any(nd in n for nd in no_decay)], "weight_decay": 0.0}]
optimizer = torch.optim.NAdam(grouped, lr=2e-3)
scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3),
                                                              torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 4)], milestones=[3])
ids = torch.tensor([[3 + (i * 2 + j * j) % 12 for j in range(8)] for i in range(6)])
ids[2, 5:] = 0
labels = ids.clone()
masked = torch.zeros_like(ids).bool()
masked[:, ::3] = True
labels[~masked] = -100
inputs = ids.masked_fill(masked, 1)
loss_fct = CrossEntropyLoss()
history = []
for step in range(8):
    out = model(inputs, attention_mask=(ids != 0).long())
    loss = loss_fct(out.logits.view(-1, 15), labels.view(-1))
    loss.backward()
    optimizer.step()
    scheduler.step()
    model.zero_grad()
    history += [loss.item(), scheduler.get_last_lr()[0]]
handle.remove()
state = model.state_dict()
assert list(state)[-1] == 'extra' and 'position_ids' not in state, list(state)
renamed = OrderedDict((k.replace('norm.gamma', 'norm.weight').replace('norm.beta', 'norm.bias'), v) for k, v in state.items())
print(BertModel().load_state_dict(renamed, strict=False))
history.append(float(len(calls)) / 100)
history.append(float(sum(len(k) for k in state)) / 100)
