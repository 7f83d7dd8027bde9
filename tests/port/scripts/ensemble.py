# An ensemble trained at once: stack_module_state, functional_call, vmap over models; functorch's tutorial as one script
import copy
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, grad_and_value, jacrev, stack_module_state, vmap

from portable import labels, normal, reset

torch.manual_seed(0)
models = [reset(nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)), seed=k) for k in range(4)]
x, y = normal(20, 6), labels(20, 3)
params, buffers = stack_module_state(models)
base = copy.deepcopy(models[0]).to("meta")


def fmodel(params, buffers, x):
    return functional_call(base, (params, buffers), (x,))


def compute_loss(params, buffers, x, y):
    return F.cross_entropy(fmodel(params, buffers, x), y)


history = []
params = {k: v.detach() for k, v in params.items()}
step = vmap(grad_and_value(compute_loss), in_dims=(0, 0, None, None))
for epoch in range(8):
    grads, losses = step(params, buffers, x, y)
    params = {k: p - 0.3 * grads[k] for k, p in params.items()}
    history += losses.tolist()

# gradients of each example, and their norms, for one of the models
one = {k: v[0] for k, v in params.items()}
sample_loss = lambda p, x, y: compute_loss(p, {}, x.unsqueeze(0), y.unsqueeze(0))
per_sample = vmap(grad(sample_loss), in_dims=(None, 0, 0))(one, x, y)
norms = torch.stack([g.flatten(1).norm(dim=1) for g in per_sample.values()]).norm(dim=0)
history += norms[:4].tolist()

# the neural tangent kernel
fnet_single = lambda p, x: functional_call(base, p, (x.unsqueeze(0),)).squeeze(0)
jac = vmap(jacrev(fnet_single), (None, 0))(one, x[:3])
jac = [j.flatten(2) for j in jac.values()]
ntk = torch.stack([torch.einsum("Naf,Mbf->NMab", j, j) for j in jac]).sum(0)
history += ntk.diagonal(dim1=0, dim2=1).sum((0, 1)).log().tolist()
scaled = partial(torch.mul, 2.0)
history.append(scaled(torch.tensor(history[-1])).item())
