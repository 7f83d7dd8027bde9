import torch
import torch.nn as nn
import torch.nn.functional as F

from portable import images, reset


class DistillKL(nn.Module):
    def __init__(self, T):
        super(DistillKL, self).__init__()
        self.T = T

    def forward(self, y_s, y_t):
        p_s = F.log_softmax(y_s / self.T, dim=1)
        p_t = F.softmax(y_t / self.T, dim=1)
        return F.kl_div(p_s, p_t, reduction='sum') * (self.T ** 2) / y_s.shape[0]


class FeatureExtractor:
    """Collects activations by forward hooks."""

    def __init__(self, model, names):
        self.outputs = {}
        self.handles = [m.register_forward_hook(self.hook(n)) for n, m in model.named_modules() if n in names]

    def hook(self, name):
        def fn(module, input, output):
            self.outputs[name] = output
        return fn

    def close(self):
        for h in self.handles:
            h.remove()


def net(width):
    m = nn.Sequential()
    m.add_module('conv', nn.Conv2d(1, width, 3, stride=2))
    m.add_module('act', nn.SiLU())
    m.add_module('pool', nn.AdaptiveMaxPool2d((2, 2)))
    m.add_module('flat', nn.Flatten(start_dim=1))
    m.add_module('fc', nn.Linear(4 * width, 4))
    return m


teacher, student = reset(net(16), 1), reset(net(4), 2)
x, y = images(24, size=9)
history = []
opt_t = torch.optim.AdamW(teacher.parameters(), lr=0.02, amsgrad=True)
for i in range(5):
    loss = F.cross_entropy(teacher(x), y)
    opt_t.zero_grad()
    loss.backward()
    opt_t.step()
    history.append(loss.item())
for p in teacher.parameters():
    p.requires_grad = False
teacher.eval()
regress = reset(nn.Conv2d(4, 16, 1), 3)
module_list = nn.ModuleList([student, regress])
optimizer = torch.optim.SGD(module_list.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
kd, ft, fs = DistillKL(4.0), FeatureExtractor(teacher, {'act'}), FeatureExtractor(student, {'act'})
for i in range(8):
    with torch.no_grad():
        logit_t = teacher(x)
    logit_s = student(x)

    def attention(f):
        return F.normalize(f.pow(2).mean(1).view(f.size(0), -1))

    hint = F.mse_loss(regress(fs.outputs['act']), ft.outputs['act'])
    at = (attention(fs.outputs['act']) - attention(ft.outputs['act'])).pow(2).mean()
    loss = 0.1 * F.cross_entropy(logit_s, y) + 0.9 * kd(logit_s, logit_t) + hint + 100 * at
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
ft.close()
fs.close()
