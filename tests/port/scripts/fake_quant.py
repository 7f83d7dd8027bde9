import torch
import torch.nn as nn
import torch.nn.functional as F

from portable import images, reset


class FakeQuantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, zero_point, qmin, qmax):
        q = torch.round(x / scale + zero_point)
        mask = (q >= qmin) & (q <= qmax)
        ctx.save_for_backward(mask)
        return (torch.clamp(q, qmin, qmax) - zero_point) * scale

    @staticmethod
    def backward(ctx, grad):
        mask, = ctx.saved_tensors
        return grad * mask, None, None, None, None


class Observer(nn.Module):
    def __init__(self, bits=8, momentum=0.1):
        super().__init__()
        self.qmin, self.qmax, self.momentum = 0, 2 ** bits - 1, momentum
        self.register_buffer('min_val', torch.tensor(float('inf')))
        self.register_buffer('max_val', torch.tensor(float('-inf')))
        self.register_buffer('observer_enabled', torch.tensor([1], dtype=torch.uint8))

    @torch.jit.export
    def enable_observer(self, enabled=True):
        self.observer_enabled[0] = 1 if enabled else 0
        return self

    def calculate_qparams(self):
        min_val = torch.min(self.min_val, torch.zeros_like(self.min_val))
        max_val = torch.max(self.max_val, torch.zeros_like(self.max_val))
        scale = torch.clamp((max_val - min_val) / float(self.qmax - self.qmin), min=torch.finfo(torch.float32).eps)
        zero_point = torch.clamp(self.qmin - torch.round(min_val / scale), self.qmin, self.qmax)
        return scale, zero_point

    def forward(self, x):
        if self.observer_enabled[0] == 1:
            cur_min, cur_max = x.detach().min(), x.detach().max()
            if torch.isinf(self.min_val):
                self.min_val.copy_(cur_min)
                self.max_val.copy_(cur_max)
            else:
                self.min_val.add_(self.momentum * (cur_min - self.min_val))
                self.max_val.add_(self.momentum * (cur_max - self.max_val))
        scale, zero_point = self.calculate_qparams()
        return FakeQuantize.apply(x, scale, zero_point, self.qmin, self.qmax)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for name in ('min_val', 'max_val'):
            key = prefix + name
            if key in state_dict:
                getattr(self, name).resize_(state_dict[key].shape)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)


class QConv2d(nn.Conv2d):
    def __init__(self, *args, bits=4, **kwargs):
        super(QConv2d, self).__init__(*args, **kwargs)
        self.weight_fake_quant, self.activation_post_process = Observer(bits), Observer()

    @classmethod
    def from_float(cls, mod):
        q = cls(mod.in_channels, mod.out_channels, mod.kernel_size, stride=mod.stride, padding=mod.padding, bias=mod.bias is not None)
        q.weight, q.bias = mod.weight, mod.bias
        return q

    def forward(self, input):
        return self.activation_post_process(self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias))


def prepare(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Conv2d):
            setattr(module, name, QConv2d.from_float(child))
        else:
            prepare(child)
    return module


model = reset(nn.Sequential(nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU()), nn.Conv2d(6, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4)).requires_grad_(True)
              if False else nn.Sequential(nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU()), nn.Conv2d(6, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 4)))
prepare(model)
x, y = images(16, size=8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
history = []
for step in range(8):
    if step == 6:
        model.apply(lambda m: m.enable_observer(False) if isinstance(m, Observer) else None)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
other = prepare(nn.Sequential(nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU()), nn.Conv2d(6, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 4)))
print(other.load_state_dict(model.state_dict()))
history.append(F.cross_entropy(other(x), y).item())
