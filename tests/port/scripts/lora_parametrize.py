# LoRA by parametrisation, an orthogonal layer, weight norm; adapters merged at the end
import torch
import torch.nn as nn
import torch.nn.utils.parametrize as parametrize
from torch.nn.utils.parametrizations import orthogonal, weight_norm

from portable import images, reset


class LoRAParametrization(nn.Module):
    def __init__(self, features_in, features_out, rank=2, alpha=4.0, device="cpu"):
        super().__init__()
        self.lora_A = nn.Parameter(torch.zeros((rank, features_out)).to(device))
        self.lora_B = nn.Parameter(torch.zeros((features_in, rank)).to(device))
        nn.init.normal_(self.lora_A, mean=0, std=1)
        self.scale, self.enabled = alpha / rank, True

    def forward(self, original_weights):
        if self.enabled:
            return original_weights + torch.matmul(self.lora_B, self.lora_A).view(original_weights.shape) * self.scale
        return original_weights


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)

    def right_inverse(self, A):
        return A.triu()


class RichBoy(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear1, self.linear2, self.linear3 = nn.Linear(64, 24), nn.Linear(24, 24), nn.Linear(24, 4)
        self.relu = nn.ReLU()

    def forward(self, img):
        x = img.view(-1, 64)
        return self.linear3(self.relu(self.linear2(self.relu(self.linear1(x)))))


net = reset(RichBoy())
parametrize.register_parametrization(net.linear2, "weight", Symmetric())
x, y = images(24, size=8)
history = []


def train(steps, lr, only=None):
    chosen = [p for n, p in net.named_parameters() if only is None or only in n]
    optimizer = torch.optim.Adam(chosen, lr=lr)
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        with parametrize.cached():
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
        optimizer.step()
        history.append(loss.item())


train(5, 0.01)
assert torch.equal(net.linear2.weight, net.linear2.weight.T)
for layer in (net.linear1, net.linear3):
    features_in, features_out = layer.weight.shape
    parametrize.register_parametrization(layer, "weight", LoRAParametrization(features_in, features_out))
    reset(layer.parametrizations["weight"][0], seed=3)
for name, param in net.named_parameters():
    if "lora" not in name:
        param.requires_grad = False
count = sum(p.numel() for l in (net.linear1, net.linear3) for p in (l.parametrizations["weight"][0].lora_A, l.parametrizations["weight"][0].lora_B))
assert count == sum(p.nelement() for p in net.parameters() if p.requires_grad)
train(5, 0.02, only="lora")
before = net(x)
for layer in (net.linear1, net.linear3):
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
assert not parametrize.is_parametrized(net.linear1) and parametrize.is_parametrized(net.linear2, "weight")
assert torch.allclose(before, net(x), atol=1e-6)
head = weight_norm(reset(nn.Linear(4, 4), seed=9))
ortho = orthogonal(nn.Linear(4, 4, bias=False))
assert torch.allclose(ortho.weight @ ortho.weight.T, torch.eye(4), atol=1e-5)
history.append(head(net(x)).square().mean().item())
history.append(len(list(head.parametrizations.weight.parameters())))
