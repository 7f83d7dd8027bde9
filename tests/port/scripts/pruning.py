import torch
import torch.nn.functional as F
import torch.nn.utils.prune as prune
from torch import nn

from portable import images, reset


class LeNet(nn.Module):
    def __init__(self):
        super(LeNet, self).__init__()
        self.conv1 = nn.Conv2d(1, 6, 3)
        self.conv2 = nn.Conv2d(6, 8, 3)
        self.fc1 = nn.Linear(8, 16)
        self.fc2 = nn.Linear(16, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), (2, 2))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = x.view(-1, int(x.nelement() / x.shape[0]))
        return self.fc2(F.relu(self.fc1(x)))


class FooBarPruningMethod(prune.BasePruningMethod):
    """Prune every other entry in a tensor"""
    PRUNING_TYPE = 'unstructured'

    def compute_mask(self, t, default_mask):
        mask = default_mask.clone()
        mask.view(-1)[::2] = 0
        return mask


def foobar_unstructured(module, name):
    FooBarPruningMethod.apply(module, name)
    return module


model = reset(LeNet())
x, y = images(24, size=10)
history = []


def fit(steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        history.append(loss.item())


fit(3)
prune.l1_unstructured(model.conv1, name="bias", amount=2)
prune.ln_structured(model.conv2, name="weight", amount=0.5, n=2, dim=0)
foobar_unstructured(model.fc2, name='weight')
fit(3)
print(model.conv2._forward_pre_hooks)
prune.l1_unstructured(model.conv2, name="weight", amount=0.3)
parameters_to_prune = ((model.conv1, 'weight'), (model.fc1, 'weight'))
prune.global_unstructured(parameters_to_prune, pruning_method=prune.L1Unstructured, amount=0.2)
fit(3)
for module in (model.conv1, model.fc1):
    history.append(100. * float(torch.sum(module.weight == 0)) / float(module.weight.nelement()))
prune.remove(model.conv2, 'weight')
assert 'weight' in dict(model.conv2.named_parameters()) and sorted(model.conv1.state_dict())[0] == 'bias_mask'
fit(2)
history.append(float((model.conv2.weight == 0).float().mean()))
