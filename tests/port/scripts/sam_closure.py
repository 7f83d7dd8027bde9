# Sharpness-aware minimisation and L-BFGS with closures; hooks of optimisers; saved tensors packed; checkpointed blocks
import contextlib

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, set_checkpoint_early_stop

from portable import images, reset


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base_optimizer, rho=0.05, adaptive=False, **kwargs):
        assert rho >= 0.0, f"Invalid rho, should be non-negative: {rho}"
        defaults = dict(rho=rho, adaptive=adaptive, **kwargs)
        super(SAM, self).__init__(params, defaults)
        self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups
        self.defaults.update(self.base_optimizer.defaults)

    @torch.no_grad()
    def first_step(self, zero_grad=False):
        grad_norm = self._grad_norm()
        for group in self.param_groups:
            scale = group["rho"] / (grad_norm + 1e-12)
            for p in group["params"]:
                if p.grad is None:
                    continue
                self.state[p]["old_p"] = p.data.clone()
                e_w = (torch.pow(p, 2) if group["adaptive"] else 1.0) * p.grad * scale.to(p)
                p.add_(e_w)
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def second_step(self, zero_grad=False):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.data = self.state[p]["old_p"]
        self.base_optimizer.step()
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def step(self, closure=None):
        closure = torch.enable_grad()(closure)
        self.first_step(zero_grad=True)
        closure()
        self.second_step()

    def _grad_norm(self):
        shared_device = self.param_groups[0]["params"][0].device
        return torch.norm(torch.stack([((torch.abs(p) if group["adaptive"] else 1.0) * p.grad).norm(p=2).to(shared_device) for group in self.param_groups for p in group["params"] if p.grad is not None]), p=2)


def disable_running_stats(model):
    def _disable(module):
        if isinstance(module, _BatchNorm):
            module.backup_momentum, module.momentum = module.momentum, 0

    model.apply(_disable)


def enable_running_stats(model):
    def _enable(module):
        if isinstance(module, _BatchNorm) and hasattr(module, "backup_momentum"):
            module.momentum = module.backup_momentum

    model.apply(_enable)


net = reset(nn.Sequential(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(216, 16), nn.Tanh(), nn.Linear(16, 4)))
x, y = images(16, size=8)
criterion = nn.CrossEntropyLoss()
optimizer = SAM(net.parameters(), torch.optim.SGD, rho=0.05, adaptive=True, lr=0.05, momentum=0.9)
calls = []
handle = optimizer.base_optimizer.register_step_post_hook(lambda opt, args, kwargs: calls.append(1))
history = []
for _ in range(8):
    enable_running_stats(net)
    loss = criterion(checkpoint_sequential(net, 2, x, use_reentrant=False), y)
    loss.backward()
    optimizer.first_step(zero_grad=True)
    disable_running_stats(net)
    criterion(net(x), y).backward()
    optimizer.second_step(zero_grad=True)
    history.append(loss.item())
handle.remove()
assert len(calls) == 8
enable_running_stats(net)
net.eval()
lbfgs = torch.optim.LBFGS(net[-1].parameters(), lr=0.5, max_iter=4, line_search_fn="strong_wolfe")
packed = []


def pack(t):
    packed.append(t.numel())
    return t.detach().cpu()


for _ in range(3):
    def closure():
        lbfgs.zero_grad()
        with saved_tensors_hooks(pack, lambda t: t), set_checkpoint_early_stop(True):
            loss = criterion(net[-1](checkpoint(net[:-1], x, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), contextlib.nullcontext()))), y)
        loss.backward()
        return loss

    history.append(lbfgs.step(closure).item())
assert packed
