import torch

import modules
from portable import reset
from registry import build_criterion, build_lr, build_model

pad = 1
model = reset(build_model('lm', 12), 2, 0.5)
criterion = build_criterion('label_smoothed_cross_entropy', pad)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-7, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01)
lr_scheduler = build_lr('inverse_sqrt', optimizer)
tokens = torch.tensor([[2 + (i * j * 3 + j) % 10 for j in range(9)] for i in range(6)])
tokens[0, 6:] = pad
tokens[3, 4:] = pad
sample = {'tokens': tokens[:, :-1], 'target': tokens[:, 1:].contiguous()}
history = []
for num_updates in range(8):
    model.train()
    optimizer.zero_grad()
    loss, nll = criterion(model, sample)
    (loss / sample['target'].ne(pad).sum()).backward()
    grad_norm = torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.grad is not None], 0.5, norm_type=2.0)
    optimizer.step()
    lr_scheduler.step_update(num_updates)
    history += [loss.item() / 40, nll.item() / 40, grad_norm.item()]
state = {k: v.clone() for k, v in model.state_dict().items()}
prefix = 'layers.0.attn'
state[prefix + '.in_proj_weight'] = torch.cat([state.pop(prefix + '.%s_proj.weight' % n) for n in 'qkv'])
model.layers[0]['attn'].upgrade_state_dict_named(state, prefix)
model.load_state_dict(state)
history.append(criterion(model, sample)[0].item() / 40)
