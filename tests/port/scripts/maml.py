from collections import OrderedDict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap

from portable import reset


class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.vars = nn.ParameterList()
        for out, inp in ((16, 1), (16, 16), (1, 16)):
            self.vars.append(nn.Parameter(torch.ones(out, inp)))
            self.vars.append(nn.Parameter(torch.zeros(out)))

    def forward(self, x, vars=None):
        if vars is None:
            vars = self.vars
        x = torch.tanh(F.linear(x, vars[0], vars[1]))
        x = torch.tanh(F.linear(x, vars[2], vars[3]))
        return F.linear(x, vars[4], vars[5])

    def parameters(self):
        return self.vars


def tasks(step, n=4, k=10):
    rng = np.random.RandomState(step)
    amp, phase = rng.uniform(0.1, 5, (n, 1, 1)), rng.uniform(0, np.pi, (n, 1, 1))
    x = rng.uniform(-5, 5, (n, 2 * k, 1))
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(amp * np.sin(x - phase), dtype=torch.float32)
    return x[:, :k], y[:, :k], x[:, k:], y[:, k:]


net = Learner()
reset(net)
meta_optim = torch.optim.Adam(net.parameters(), lr=1e-2)
history = []
for step in range(5):
    xs, ys, xq, yq = tasks(step)
    losses_q = 0
    for i in range(xs.size(0)):
        fast_weights = list(net.parameters())
        for k in range(2):
            loss = F.mse_loss(net(xs[i], fast_weights), ys[i])
            grads = torch.autograd.grad(loss, fast_weights, create_graph=True)
            fast_weights = list(map(lambda p: p[1] - 0.01 * p[0], zip(grads, fast_weights)))
        losses_q = losses_q + F.mse_loss(net(xq[i], fast_weights), yq[i])
    loss_q = losses_q / xs.size(0)
    meta_optim.zero_grad()
    loss_q.backward()
    meta_optim.step()
    history.append(loss_q.item())

model = reset(nn.Sequential(OrderedDict([('l1', nn.Linear(1, 16)), ('relu1', nn.ReLU()), ('l2', nn.Linear(16, 1))])), 3)
params = dict(model.named_parameters())
opt = torch.optim.Adam(params.values(), lr=1e-2)


def task_loss(params, x, y):
    return F.mse_loss(functional_call(model, params, (x,)), y)


def adapted(params, xs, ys, xq, yq):
    grads = grad(task_loss)(params, xs, ys)
    return task_loss({k: params[k] - 0.01 * g for k, g in grads.items()}, xq, yq)


for step in range(5):
    loss = vmap(adapted, in_dims=(None, 0, 0, 0, 0))(params, *tasks(step)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    history.append(loss.item())
