# Operators of one's own by torch.library, with a gradient and a fake; used in a trained model and under vmap-free eager code
import numpy as np
import torch
from torch import Tensor, nn
from torch.library import custom_op

from portable import normal, reset


@custom_op("mylib::numpy_sin_mul", mutates_args=())
def numpy_sin_mul(x: Tensor, y: Tensor, scale: float) -> Tensor:
    return torch.from_numpy(np.sin(x.numpy()) * y.numpy() * scale)


@numpy_sin_mul.register_fake
def _(x, y, scale):
    torch._check(x.shape == y.shape)
    return torch.empty_like(x)


def setup_context(ctx, inputs, output):
    x, y, ctx.scale = inputs
    ctx.save_for_backward(x, y)


def backward(ctx, grad):
    x, y = ctx.saved_tensors
    return grad * x.cos() * y * ctx.scale, grad * x.sin() * ctx.scale, None


numpy_sin_mul.register_autograd(backward, setup_context=setup_context)


@torch.library.custom_op("mylib::add_one_", mutates_args={"x"})
def add_one_(x: Tensor) -> None:
    x.numpy()[...] += 1


class Wave(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.out(torch.ops.mylib.numpy_sin_mul(self.a(x), self.b(x), 1.5)).squeeze(-1)


net, x = reset(Wave()), normal(24, 4, seed=1)
y = torch.sin(x[:, 0]) * x[:, 1]
optimizer = torch.optim.Adam(net.parameters(), lr=0.03)
history = []
for _ in range(12):
    loss = nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
z = torch.zeros(3)
add_one_(z)
history.append(z.sum().item())
