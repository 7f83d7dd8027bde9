import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function, gradcheck
from torch.autograd.function import once_differentiable

from portable import labels, normal, reset


class ReverseLayerF(Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        output = grad_output.neg() * ctx.alpha
        return output, None


class BinarizeF(Function):
    @staticmethod
    def forward(cxt, input):
        cxt.save_for_backward(input)
        output = input.new(input.size())
        output[input >= 0] = 1
        output[input < 0] = -1
        return output

    @staticmethod
    def backward(cxt, grad_output):
        input, = cxt.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input.abs() > 1] = 0
        return grad_input


binarize = BinarizeF.apply


class LinearFunction(Function):
    @staticmethod
    def forward(ctx, input, weight, bias=None):
        ctx.save_for_backward(input, weight, bias)
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        input, weight, bias = ctx.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if ctx.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if bias is not None and ctx.needs_input_grad[2]:
            grad_bias = grad_output.sum(0)
        return grad_input, grad_weight, grad_bias


class Exp(Function):
    @staticmethod
    def forward(i):
        return i.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.set_materialize_grads(False)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        result, = ctx.saved_tensors
        return grad_output * result


class Sorter(Function):
    @staticmethod
    def forward(ctx, x):
        values, idx = x.sort()
        ctx.mark_non_differentiable(idx)
        ctx.save_for_backward(idx)
        return values, idx

    @staticmethod
    def backward(ctx, g1, g2):
        idx, = ctx.saved_tensors
        return torch.zeros_like(g1).scatter_(-1, idx, g1)


class BinLinear(nn.Module):
    def __init__(self, in_features, out_features, bias=True):
        super(BinLinear, self).__init__()
        self.weight = nn.Parameter(torch.Tensor(out_features, in_features))
        if bias:
            self.bias = nn.Parameter(torch.Tensor(out_features))
        else:
            self.register_parameter('bias', None)

    def forward(self, input):
        return LinearFunction.apply(input, binarize(self.weight), self.bias)

    def extra_repr(self):
        return 'in_features={}, bias={}'.format(self.weight.shape[1], self.bias is not None)


class DANN(nn.Module):
    def __init__(self):
        super().__init__()
        self.feature = nn.Sequential(BinLinear(6, 16), nn.BatchNorm1d(16), nn.Hardtanh(), nn.Linear(16, 8))
        self.class_classifier = nn.Linear(8, 3)
        self.domain_classifier = nn.Linear(8, 2, bias=False)

    def forward(self, x, alpha):
        feature = Exp.apply(0.1 * self.feature(x))
        feature, _ = Sorter.apply(feature)
        reverse_feature = ReverseLayerF.apply(feature, alpha)
        return self.class_classifier(feature), self.domain_classifier(reverse_feature)


assert gradcheck(LinearFunction.apply, (torch.randn(4, 3, dtype=torch.double, requires_grad=True),
                                        torch.randn(2, 3, dtype=torch.double, requires_grad=True)), eps=1e-6, atol=1e-4)
model = reset(DANN())
print(model)
seen = []
handle = model.feature[0].weight.register_hook(lambda grad: seen.append(grad.norm().item()))
model.class_classifier.register_full_backward_hook(lambda module, gi, go: seen.append(go[0].norm().item()))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x, y, d = normal(24, 6), labels(24, 3), labels(24, 2, seed=1)
history = []
for epoch in range(6):
    p = epoch / 6
    alpha = 2. / (1. + 2.718281828 ** (-10 * p)) - 1
    c, dom = model(x, alpha=alpha)
    err = F.cross_entropy(c, y) + F.nll_loss(F.log_softmax(dom, 1), d)
    optimizer.zero_grad()
    err.backward()
    optimizer.step()
    history.append(err.data.cpu().numpy().item())
handle.remove()
history += seen
