# A program of the years of PyTorch 0.4: Variables, typed tensors, old arguments, .data everywhere
from __future__ import print_function

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.init as init
from torch.autograd import Function, Variable
from torch.nn import Parameter
from torch.nn.modules.loss import _Loss, _WeightedLoss
from torch.optim import lr_scheduler

from portable import images, reset

use_cuda = torch.cuda.is_available()
FloatTensor = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor
LongTensor = torch.cuda.LongTensor if use_cuda else torch.LongTensor
Tensor = FloatTensor
torch.backends.cudnn.benchmark = True


class GradReverse(Function):
    @staticmethod
    def forward(ctx, x, lambd):
        ctx.lambd = lambd
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return (grad_output.neg() * ctx.lambd), None


class CenterLoss(_WeightedLoss):
    def __init__(self, num_classes, feat_dim):
        super(CenterLoss, self).__init__()
        self.centers = Parameter(torch.Tensor(num_classes, feat_dim).zero_())

    def forward(self, x, labels):
        batch_size, num_classes = x.size(0), self.centers.size(0)
        distmat = torch.pow(x, 2).sum(dim=1, keepdim=True).expand(batch_size, num_classes) + torch.pow(self.centers, 2).sum(dim=1, keepdim=True).expand(num_classes, batch_size).t()
        distmat.addmm_(x, self.centers.t(), beta=1, alpha=-2)
        classes = torch.arange(num_classes).long()
        mask = labels.unsqueeze(1).expand(batch_size, num_classes).eq(classes.expand(batch_size, num_classes))
        dist = distmat * mask.float()
        return dist.clamp(min=1e-12, max=1e12).sum() / batch_size


def weights_init_normal(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find("BatchNorm2d") != -1:
        init.normal_(m.weight.data, 1.0, 0.02)
        init.constant_(m.bias.data, 0.0)


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU(True), nn.MaxPool2d(2, 2))
        self.fc, self.domain = nn.Linear(8 * 16, 4), nn.Linear(8 * 16, 2)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                m.weight.data.uniform_(-0.1, 0.1)
                m.bias.data.zero_()

    def forward(self, x):
        h = self.features(x)
        h = h.view(h.size()[0], -1)
        return h, self.fc(h), self.domain(GradReverse.apply(h, 0.1))


def adjust_learning_rate(optimizer, epoch):
    for param_group in optimizer.param_groups:
        param_group["lr"] = 0.05 * (0.8 ** (epoch // 2))


x, y = images(20, size=8)
model = Net()
model.apply(weights_init_normal)
reset(model)
criterion, center = nn.CrossEntropyLoss(size_average=False), CenterLoss(4, 128)
optimizer = torch.optim.SGD([{"params": model.parameters()}, {"params": center.parameters(), "lr": 0.5}], lr=0.05, momentum=0.9, nesterov=True)
scheduler = lr_scheduler.MultiStepLR(optimizer, [4, 8], gamma=0.5)
history = []
for epoch in range(9):
    model.train()
    inputs, targets = Variable(x.type(Tensor), requires_grad=False), Variable(y.type(LongTensor))
    domain = Variable(LongTensor(20).fill_(0))
    domain.data[10:] = 1
    optimizer.zero_grad()
    features, out, side = model(inputs)
    loss = criterion(out, targets) / inputs.size(0) + F.nll_loss(F.log_softmax(side, dim=1), domain) + 0.001 * center(features, targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5)
    optimizer.step()
    scheduler.step()
    _, predicted = torch.max(out.data, 1)
    correct = predicted.eq(targets.data).cpu().sum()
    history.append(loss.data.item())
    history.append(float(correct) / targets.size(0))
model.eval()
one_hot = torch.zeros(20, 4).scatter_(1, y.view(-1, 1), 1)
history.append(F.mse_loss(F.softmax(model(Variable(x))[1], 1), Variable(one_hot), size_average=False, reduce=True).data.numpy().item())
confusion = torch.ByteTensor(4, 4).fill_(0)
for t, p in zip(y.numpy(), predicted.numpy()):
    confusion[t, p] += 1
history.append(confusion.float().trace().item() / 20)
assert isinstance(model.fc.weight, torch.nn.Parameter) and torch.is_tensor(model.fc.weight.data) and loss.dim() == 0
assert torch.Tensor([1, 2]).type(torch.IntTensor).sum().item() == 3 and torch.Tensor(2, 3).size() == torch.Size([2, 3])
