import numpy as np
import torch
from torch import distributions, nn
from torch.nn.parameter import Parameter

from portable import reset


class RealNVP(nn.Module):
    def __init__(self, nets, nett, mask, prior):
        super(RealNVP, self).__init__()
        self.prior = prior
        self.mask = nn.Parameter(mask, requires_grad=False)
        self.t = torch.nn.ModuleList([nett() for _ in range(len(mask))])
        self.s = torch.nn.ModuleList([nets() for _ in range(len(mask))])

    def g(self, z):
        x = z
        for i in range(len(self.t)):
            x_ = x * self.mask[i]
            s = self.s[i](x_) * (1 - self.mask[i])
            t = self.t[i](x_) * (1 - self.mask[i])
            x = x_ + (1 - self.mask[i]) * (x * torch.exp(s) + t)
        return x

    def f(self, x):
        log_det_J, z = x.new_zeros(x.shape[0]), x
        for i in reversed(range(len(self.t))):
            z_ = self.mask[i] * z
            s = self.s[i](z_) * (1 - self.mask[i])
            t = self.t[i](z_) * (1 - self.mask[i])
            z = (1 - self.mask[i]) * (z - t) * torch.exp(-s) + z_
            log_det_J -= s.sum(dim=1)
        return z, log_det_J

    def log_prob(self, x):
        z, logp = self.f(x)
        return self.prior.log_prob(z) + logp


nets = lambda: nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 16), nn.LeakyReLU(), nn.Linear(16, 2), nn.Tanh())
nett = lambda: nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 2))
masks = torch.from_numpy(np.array([[0, 1], [1, 0]] * 2).astype(np.float32))
prior = distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
flow = RealNVP(nets, nett, masks, prior)
reset(flow)
flow.mask.data.copy_(masks)
optimizer = torch.optim.Adam([p for p in flow.parameters() if p.requires_grad == True], lr=5e-3)
rng = np.random.RandomState(0)
history = []
for t in range(10):
    angle = rng.uniform(0, np.pi, 64)
    side = rng.randint(0, 2, 64)
    moons = np.stack([np.cos(angle) * (1 - 2 * side) + side, np.sin(angle) * (1 - 2 * side) + 0.5 * side], 1) + 0.05 * rng.randn(64, 2)
    loss = -flow.log_prob(torch.from_numpy(moons.astype(np.float32))).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    history.append(loss.item())
x = flow.g(torch.from_numpy(rng.randn(10, 2).astype(np.float32)))
z, _ = flow.f(x)
history.append(flow.g(z).sub(x).abs().max().item() + prior.log_prob(z).exp().mean().item())
mix = distributions.MixtureSameFamily(distributions.Categorical(torch.ones(3)), distributions.Independent(distributions.Normal(torch.zeros(3, 2), torch.tensor([[1.], [2.], [3.]])), 1))
history.append(mix.log_prob(x.detach()).mean().item())
