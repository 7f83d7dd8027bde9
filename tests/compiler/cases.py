"""Functions to compile: each case builds a fresh function, its calls, and what to look at afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
import weft.nn.functional as F
from weft import nn

CASES: dict[str, Callable[[], tuple[Callable, list[tuple], Callable[[], Any]]]] = {}


def case(build: Callable) -> Callable:
    CASES[build.__name__] = build
    return build


def data(*sizes: int, classes: int = 5, calls: int = 3) -> list[tuple]:
    """Inputs and class numbers for several calls."""
    return [(weft.randn(*sizes), weft.randint(0, classes, sizes[:1])) for _ in range(calls)]


def state_of(*parts: Any) -> Callable[[], Any]:
    """Everything that modules and optimisers hold, gradients included."""

    def look() -> list[Any]:
        found = []
        for part in parts:
            if isinstance(part, nn.Module):
                found += [*part.state_dict().values(), *(p.grad for p in part.parameters())]
            elif isinstance(part, weft.optim.Optimizer):
                found += [v for state in part.state.values() for v in state.values()]
            else:
                found.append(part)
        return found

    return look


def training(
    model: nn.Module,
    optimizer: weft.optim.Optimizer,
    loss: Callable = F.cross_entropy,
    zero_first: bool = True,
    between: Callable | None = None,
) -> Callable:
    def step(x: Any, y: Any) -> Any:
        if zero_first:
            optimizer.zero_grad()
        value = loss(model(x), y)
        value.backward()
        if between is not None:
            between()
        optimizer.step()
        if not zero_first:
            optimizer.zero_grad()
        return value

    return step


def mlp(*between: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(12, 16), *(between or (nn.ReLU(),)), nn.Linear(16, 5))


def trained(model: nn.Module, optimizer: Any, calls: list[tuple], **options: Any) -> tuple:
    return training(model, optimizer, **options), calls, state_of(model, optimizer)


# ------------------------------------------------------------------------------------- optimisers

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "adam": lambda p: weft.optim.Adam(p, lr=1e-2),
    "adam_decay": lambda p: weft.optim.Adam(p, lr=1e-2, weight_decay=0.1, amsgrad=True),
    "adamw": lambda p: weft.optim.AdamW(p, lr=1e-2),
    "maximize": lambda p: weft.optim.Adam(p, lr=1e-2, maximize=True),
    "tensor_lr": lambda p: weft.optim.Adam(p, lr=weft.tensor(1e-2)),
    "sgd": lambda p: weft.optim.SGD(p, lr=0.1),
    "momentum": lambda p: weft.optim.SGD(p, lr=0.1, momentum=0.9),
    "dampening": lambda p: weft.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5, weight_decay=1e-2),
    "nesterov": lambda p: weft.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "rmsprop": lambda p: weft.optim.RMSprop(p, lr=1e-2),
    "rmsprop_centered": lambda p: weft.optim.RMSprop(p, lr=1e-3, momentum=0.5, centered=True),
    "adagrad": lambda p: weft.optim.Adagrad(p, lr=1e-2, lr_decay=0.1),
    "adadelta": lambda p: weft.optim.Adadelta(p),
    "adamax": lambda p: weft.optim.Adamax(p),
    "nadam": lambda p: weft.optim.NAdam(p),
    "radam": lambda p: weft.optim.RAdam(p, lr=1e-2),
    "asgd": lambda p: weft.optim.ASGD(p),
    "rprop": lambda p: weft.optim.Rprop(p),
    "adafactor": lambda p: weft.optim.Adafactor(p),
    "lion": lambda p: weft.optim.Lion(p),
    "groups": lambda p: weft.optim.SGD(
        [{"params": [q]} if i else {"params": [q], "lr": 1.0} for i, q in enumerate(p)], lr=0.1
    ),
}
for _name, _make in OPTIMIZERS.items():
    CASES[f"optimizer_{_name}"] = lambda make=_make: (
        lambda model: trained(model, make(model.parameters()), data(8, 12, calls=7))
    )(mlp(nn.Tanh()))


@case
def zero_at_the_end():
    model = mlp()
    return trained(model, weft.optim.Adam(model.parameters()), data(8, 12), zero_first=False)


@case
def two_optimizers():
    first, second = nn.Linear(12, 16), nn.Linear(16, 5)
    a, b = weft.optim.Adam(first.parameters()), weft.optim.SGD(second.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        a.zero_grad()
        b.zero_grad()
        loss = F.cross_entropy(second(first(x).relu()), y)
        loss.backward()
        a.step()
        b.step()
        return loss

    return step, data(8, 12), state_of(first, second, a, b)


@case
def accumulation():
    model = mlp()
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        for part, target in zip(x.chunk(4), y.chunk(4), strict=True):
            (F.cross_entropy(model(part), target) / 4).backward()
        optimizer.step()

    return step, data(8, 12), state_of(model)


@case
def accumulation_over_calls():
    model = mlp()

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    return step, data(8, 12), state_of(model)


@case
def zero_in_place():
    model = mlp()
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step, data(8, 12), state_of(model)


@case
def clipping():
    model = mlp()
    norms = lambda: nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    return trained(model, weft.optim.Adam(model.parameters()), data(8, 12), between=norms)


@case
def value_clipping():
    model = mlp()
    clip = lambda: nn.utils.clip_grad_value_(model.parameters(), 0.01)
    return trained(model, weft.optim.Adam(model.parameters()), data(8, 12), between=clip)


@case
def schedule_outside():
    model = mlp()
    optimizer = weft.optim.Adam(model.parameters(), lr=1e-2)
    schedule = weft.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    step = training(model, optimizer)
    step.after = schedule.step
    return step, data(8, 12), state_of(model, optimizer)


# ------------------------------------------------------------------------------------------ layers


def one_layer(layer: Callable[[], nn.Module], *sizes: int) -> Callable:
    def build():
        part = layer()
        optimizer = weft.optim.SGD(list(part.parameters()) or [weft.zeros(1, requires_grad=True)], lr=1e-3)

        def step(x):
            optimizer.zero_grad()
            y = part(x)
            y = y[0] if isinstance(y, tuple) else y
            loss = (y * y.detach().cos()).sum()
            if loss.requires_grad:
                loss.backward()
                optimizer.step()
            return y.detach(), loss.detach()

        return step, [(weft.randn(*sizes),) for _ in range(3)], state_of(part)

    return build


LAYERS: dict[str, tuple] = {
    "dropout": (lambda: nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.4)), 5, 6),
    "batch_norm": (lambda: nn.BatchNorm1d(6), 5, 6),
    "batch_norm_2d": (lambda: nn.BatchNorm2d(3), 4, 3, 5, 5),
    "batch_norm_average": (lambda: nn.BatchNorm1d(6, momentum=None), 5, 6),
    "layer_norm": (lambda: nn.LayerNorm(6), 5, 6),
    "rms_norm": (lambda: nn.RMSNorm(6), 5, 6),
    "group_norm": (lambda: nn.GroupNorm(2, 4), 3, 4, 5),
    "instance_norm": (lambda: nn.InstanceNorm2d(3, affine=True), 2, 3, 5, 5),
    "conv": (lambda: nn.Conv2d(3, 4, 3, stride=2, padding=1), 2, 3, 8, 8),
    "conv_1d": (lambda: nn.Conv1d(4, 6, 3, dilation=2, groups=2), 2, 4, 9),
    "conv_transposed": (lambda: nn.ConvTranspose2d(3, 4, 3, stride=2), 2, 3, 5, 5),
    "max_pool": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2)), 2, 3, 8, 8),
    "mean_pool": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.AvgPool2d(2)), 2, 3, 8, 8),
    "adaptive_pool": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(2)), 2, 3, 8, 8),
    "upsample": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.Upsample(scale_factor=2, mode="bilinear")), 2, 3, 6, 6),
    "rnn": (lambda: nn.RNN(4, 6), 5, 2, 4),
    "lstm": (lambda: nn.LSTM(4, 6, num_layers=2, bidirectional=True), 5, 2, 4),
    "lstm_dropout": (lambda: nn.LSTM(4, 6, num_layers=2, dropout=0.3), 5, 2, 4),
    "gru": (lambda: nn.GRU(4, 6, batch_first=True), 5, 2, 4),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 3, 5, 8),
    "gelu": (lambda: nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.SiLU(), nn.Softmax(-1), nn.Mish()), 3, 6),
    "prelu": (lambda: nn.Sequential(nn.PReLU(), nn.Softplus(), nn.ELU(), nn.Hardswish()), 3, 6),
    "rrelu": (lambda: nn.RReLU(), 3, 6),
    "dropout_2d": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.Dropout2d(0.5)), 2, 3, 6, 6),
    "alpha_dropout": (lambda: nn.Sequential(nn.Linear(6, 8), nn.AlphaDropout(0.4)), 5, 6),
    "weight_norm": (lambda: nn.utils.weight_norm(nn.Linear(6, 4)), 5, 6),
    "spectral_norm": (lambda: nn.utils.spectral_norm(nn.Linear(6, 4)), 5, 6),
}
for _name, (_layer, *_sizes) in LAYERS.items():
    CASES[f"layer_{_name}"] = one_layer(_layer, *_sizes)


@case
def attention():
    layer = nn.MultiheadAttention(8, 2, batch_first=True)

    def step(x):
        y, weights = layer(x, x, x, attn_mask=weft.ones(5, 5).tril() == 0)
        y.square().sum().backward()
        return y, weights

    return step, [(weft.randn(3, 5, 8),) for _ in range(2)], state_of(layer)


@case
def embedding():
    table, out = nn.Embedding(11, 6, padding_idx=0), nn.Linear(6, 5)
    optimizer = weft.optim.Adam([*table.parameters(), *out.parameters()])

    def step(words, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(out(table(words).mean(1)), y)
        loss.backward()
        optimizer.step()
        return loss

    calls = [(weft.randint(0, 11, (4, 7)), weft.randint(0, 5, (4,))) for _ in range(3)]
    return step, calls, state_of(table, out, optimizer)


@case
def module_itself():
    model = mlp(nn.BatchNorm1d(16), nn.ReLU())
    return model, [(weft.randn(4, 12),) for _ in range(3)], state_of(model)


@case
def evaluation_and_training():
    model = mlp(nn.Dropout(0.5))

    def run(x, train):
        model.train(train)
        return model(x)

    x = weft.randn(4, 12)
    return run, [(x, True), (x, False), (x, True)], state_of(model)


# ---------------------------------------------------------------------------- differentiation


@case
def gradient_penalty():
    critic = nn.Sequential(nn.Linear(3, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    optimizer = weft.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))

    def step(real, fake):
        optimizer.zero_grad()
        mix = weft.rand(real.shape[0], 1)
        between = (mix * real + (1 - mix) * fake).requires_grad_()
        (slope,) = weft.autograd.grad(critic(between).sum(), between, create_graph=True)
        penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        loss.backward()
        optimizer.step()
        return loss

    return step, [(weft.randn(6, 3), weft.randn(6, 3)) for _ in range(3)], state_of(critic, optimizer)


@case
def checkpointed():
    model = mlp(nn.Dropout(0.3), nn.Tanh())
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(weft.utils.checkpoint.checkpoint(model, x), y)
        loss.backward()
        optimizer.step()
        return loss, weft.rand(2)

    return step, data(8, 12), state_of(model)


@case
def mapped():
    weight = weft.randn(4, 3)
    fn = weft.vmap(lambda x, y: (weight @ x).tanh() * y.exp().sum())
    return fn, [(weft.randn(5, 3), weft.randn(5, 2)) for _ in range(2)], list


@case
def per_example_gradients():
    model = mlp(nn.Tanh())
    names = dict(model.named_parameters())

    def loss(values, x, y):
        out = weft.func.functional_call(model, values, (x.unsqueeze(0),))
        return F.cross_entropy(out, y.unsqueeze(0))

    fn = lambda x, y: weft.vmap(weft.func.grad(loss), (None, 0, 0))(names, x, y)
    return fn, data(4, 12), list


@case
def tangent():
    weight = weft.randn(4, 3)
    fn = lambda x, v: weft.func.jvp(lambda x: (weight @ x).sin().sum(), (x,), (v,))
    return fn, [(weft.randn(3), weft.randn(3)) for _ in range(2)], list


@case
def jacobians():
    fn = lambda x: (weft.func.jacrev(lambda x: x.sin() * x.sum())(x), weft.func.hessian(lambda x: (x**3).sum())(x))
    return fn, [(weft.randn(3),) for _ in range(2)], list


@case
def custom_function():
    class Cube(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

    w = weft.randn(4, requires_grad=True)

    def step(x):
        Cube.apply(w * x).sum().backward()
        return w.grad

    return step, [(weft.randn(4),) for _ in range(3)], lambda: [w.grad]


@case
def argument_gradients():
    def step(x, w):
        loss = (x @ w).tanh().sum()
        loss.backward()
        return loss

    x, w = weft.randn(3, 4), weft.randn(4, 2, requires_grad=True)
    return step, [(x, w), (x, w), (x, w)], lambda: [w.grad]


@case
def hooks():
    w = weft.randn(4, requires_grad=True)

    def step(x):
        w.grad = None
        y = w * x
        y.register_hook(lambda g: g * 2)
        y.retain_grad()
        y.sin().sum().backward()
        return y.grad

    return step, [(weft.randn(4),) for _ in range(2)], lambda: [w.grad]


# ------------------------------------------------------------------------------- writing in place


@case
def writes_through_views():
    buffer = weft.zeros(4, 6)
    column, flat = buffer[:, 1], buffer.view(-1)

    def step(x):
        buffer[0] = x
        column.add_(1)
        flat[::5] *= 2
        buffer.t()[2].copy_(x[:4])
        before = buffer.clone()
        buffer[1:3, 2:4].fill_(7)
        return before, column + 0, flat[3:9] * 1, buffer.sum()

    return step, [(weft.randn(6),) for _ in range(3)], lambda: [buffer, column, flat]


@case
def writes_into_arguments():
    def step(x, y):
        x[:, 0] = y
        x.mul_(2)
        return x.sum()

    return step, [(weft.randn(3, 4), weft.randn(3)) for _ in range(2)], list


@case
def writes_with_history():
    w = weft.randn(5, requires_grad=True)

    def step(x):
        w.grad = None
        y = weft.zeros(3, 5)
        y[0] = w * x
        y[1] = (w * x).sin()
        y[2, 1:4] = w[1:4]
        y.mul_(x)
        y[:, ::2].exp_()
        (y * y).sum().backward()
        return y.detach()

    return step, [(weft.randn(5),) for _ in range(2)], lambda: [w.grad]


@case
def parts_of_one_memory():
    line = weft.randn(20)
    parts = [nn.Parameter(line[:8].view(2, 4)), nn.Parameter(line[8:12]), nn.Parameter(line[12:].view(4, 2).t())]
    optimizer = weft.optim.SGD(parts, lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        loss = ((x @ parts[0] + parts[1]).tanh() @ parts[2].t()).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    return step, [(weft.randn(3, 2),) for _ in range(3)], lambda: [line]


@case
def whole_and_parts():
    line = weft.zeros(12)
    rows = line.view(3, 4)

    def step(x):
        rows[1].add_(x)
        line.mul_(2)
        return rows.sum(1), line[5:7] + 0

    return step, [(weft.randn(4),) for _ in range(3)], lambda: [line, rows]


@case
def updates_by_hand():
    w, b, buffer = weft.randn(4, 3, requires_grad=True), weft.zeros(3, requires_grad=True), weft.zeros(3)

    def step(x):
        loss = (x @ w + b).square().sum()
        loss.backward()
        with weft.no_grad():
            w.sub_(0.01 * w.grad)
            w.grad.zero_()
        b.data -= 0.01 * b.grad
        b.data = b.data * 0.9
        b.grad = None
        weft.add(buffer, b.detach(), out=buffer)
        return loss.detach()

    return step, [(weft.randn(2, 4),) for _ in range(3)], lambda: [w, b, w.grad, b.grad, buffer]


@case
def reshaped_in_place():
    def step(x):
        y = x * 2
        y.t_().unsqueeze_(0)
        y[0, 1] = 5
        return y, y.squeeze_(0).sum(0)

    return step, [(weft.randn(3, 4),) for _ in range(2)], list


@case
def fresh_memory_every_call():
    def step(x):
        total = weft.zeros(4)
        total += x
        count = weft.ones((), dtype=weft.int64)
        count.add_(1)
        return total, count

    return step, [(weft.randn(4),) for _ in range(3)], list


@case
def strided_windows():
    base = weft.arange(24.0)

    def step(x):
        window = weft.as_strided(base, (3, 4), (5, 2), 1)
        window.add_(x)
        return base[:20].reshape(4, 5).t().contiguous().view(-1), window.clone()

    return step, [(weft.randn(3, 4),) for _ in range(2)], lambda: [base]


@case
def masks_and_indices():
    def step(x, places):
        y = x.clone()
        y[y > 0.5] = -1.0
        y[places] = x[places] * 2
        y.index_add_(0, places, weft.ones(3, 4))
        y.scatter_(1, places.unsqueeze(1), 9.0)
        return y, x.gather(1, places.unsqueeze(1)), weft.where(x > 0, x, 0.0), x.index_select(1, places)

    return step, [(weft.randn(3, 4), weft.tensor([2, 0, 1])) for _ in range(2)], list


@case
def averaged_weights():
    model = mlp()
    average = weft.optim.swa_utils.AveragedModel(model, multi_avg_fn=weft.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
    step = training(model, optimizer)

    def both(x, y):
        loss = step(x, y)
        average.update_parameters(model)
        return loss

    return both, data(8, 12, calls=4), state_of(model, average)


@case
def attribute_state():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.RNNCell(3, 4)
            self.hidden = weft.zeros(2, 4)

        def forward(self, x):
            self.hidden = self.cell(x, self.hidden.detach())
            return self.hidden.sum()

    model = Counter()

    def step(x):
        with weft.no_grad():
            return model(x)

    return step, [(weft.randn(2, 3),) for _ in range(3)], lambda: [model.hidden]


# ------------------------------------------------------------------------------------------ random


@case
def draws():
    own = weft.Generator().manual_seed(3)

    def step(x):
        a = weft.rand(3, generator=own) + weft.randn(3)
        b = weft.bernoulli(x.sigmoid()) + weft.randint(0, 9, (4,)) + weft.randperm(4)
        c = weft.multinomial(x.softmax(0), 2) + weft.poisson(x.exp()).sum()
        d = weft.empty(4).normal_(1.0, 2.0).add_(weft.normal(x, 0.5)).exponential_()
        local = weft.rand(2, generator=weft.Generator().manual_seed(1))
        return a, b, c, d, local, weft.distributions.Normal(x, 1.0).rsample()

    return step, [(weft.randn(4),) for _ in range(3)], lambda: [own.get_state(), weft.get_rng_state()]


@case
def seeded_inside():
    def step(x):
        a = weft.rand(2)
        weft.manual_seed(7)
        return a, weft.rand(2) + x

    return step, [(weft.randn(2),) for _ in range(3)], lambda: [weft.get_rng_state()]


@case
def mapped_draws():
    fn = weft.vmap(lambda x: x + weft.rand(2), randomness="different")
    return fn, [(weft.randn(3, 2),) for _ in range(2)], lambda: [weft.get_rng_state()]


# ----------------------------------------------------------------------------------- results and arguments


@case
def structured():
    scale = weft.tensor(3.0)

    def step(x, options, *, flag=True):
        y = {"a": x * options["k"], "b": [x if flag else None, 5, "word"]}
        return y, scale, (x.half() + 1, x.to(weft.float64), x.int(), x.bool())

    return step, [(weft.randn(3), {"k": 2.0}), (weft.randn(3), {"k": 3.0}), (weft.randn(3), {"k": 2.0})], list


@case
def low_precision():
    model = nn.Linear(4, 4).bfloat16()

    def step(x):
        y = F.gelu(model(x.bfloat16()))
        y.float().sum().backward()
        return y

    return step, [(weft.randn(3, 4),) for _ in range(2)], state_of(model)


@case
def complex_numbers():
    def step(x):
        z = weft.fft.fft(x)
        return z.abs(), z.angle(), weft.fft.ifft(z * 2).real, weft.view_as_real(z)

    return step, [(weft.randn(8),) for _ in range(2)], list


@case
def linear_algebra():
    def step(a):
        s = a @ a.mT + 3 * weft.eye(4)
        values, vectors = weft.linalg.eigh(s)
        return weft.linalg.solve(s, a), values, (vectors * values.unsqueeze(-2)) @ vectors.mT, weft.linalg.det(s)

    return step, [(weft.randn(2, 4, 4),) for _ in range(2)], list


@case
def scalar_parameters():
    w = nn.Parameter(weft.tensor(0.3))
    optimizer = weft.optim.Adam([w], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = ((w * x - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, [(weft.randn(4),) for _ in range(5)], lambda: [w]
