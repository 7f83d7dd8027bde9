import copy
from copy import deepcopy

import torch
import torch.nn as nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn

from portable import images, reset


class ModelEMA:
    """Keep a moving average of everything in the model state_dict (parameters and buffers)."""

    def __init__(self, model, decay=0.9, tau=5, updates=0):
        self.ema = deepcopy(model).eval()
        self.updates = updates
        self.decay = lambda x: decay * (1 - 2.718281828459 ** (-x / tau))
        for p in self.ema.parameters():
            p.requires_grad_(False)

    def update(self, model):
        self.updates += 1
        d = self.decay(self.updates)
        msd = model.module.state_dict() if isinstance(model, (nn.DataParallel,)) else model.state_dict()
        for k, v in self.ema.state_dict().items():
            if v.dtype.is_floating_point:
                v *= d
                v += (1 - d) * msd[k].detach()


def get_model():
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU6(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 4))


model = reset(get_model())
ema = ModelEMA(model)
swa_model = AveragedModel(model)
ema_model = AveragedModel(model, avg_fn=lambda avg, p, n: 0.9 * avg + 0.1 * p)
optimizer = torch.optim.SGD([{'params': [p for n, p in model.named_parameters() if 'bias' in n], 'lr': 0.2},
                             {'params': [p for n, p in model.named_parameters() if 'bias' not in n]}], lr=0.1, momentum=0.9, nesterov=True)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)
swa_scheduler = SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*images(32, size=8)), batch_size=16)
loss_fn = nn.CrossEntropyLoss()
history = []
for epoch in range(5):
    for input, target in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(model(input), target)
        loss.backward()
        optimizer.step()
        ema.update(model)
        ema_model.update_parameters(model)
        history.append(loss.item())
    if epoch > 2:
        swa_model.update_parameters(model)
        swa_scheduler.step()
    else:
        scheduler.step()
update_bn(loader, swa_model)
for m in (ema.ema, swa_model.eval(), ema_model.eval()):
    with torch.inference_mode():
        history.append(sum(loss_fn(m(x), y).item() for x, y in loader))
