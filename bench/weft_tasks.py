"""The fifteen training steps of the yardstick in Weft: a peer as `run.py` wants it, with `build`, `value`, `version`.

Sizes, data and initial parameters come from the yardstick's `tasks` module. Variants: `eager`, and `compile`, where
the whole step (forward, backward, optimiser) is one call of `weft.compile`.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import tasks

import weft
from weft import Tensor, nn
from weft.nn import functional as F

weft.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))

Step = Callable[[], Tensor]
LOG_2PI = 1.8378770664093453


# ---------------------------------------------------------------------------------------------- models


def chain(dims: list[int], prefix: str = "fc", act: Callable[[], nn.Module] = nn.ReLU, *last: nn.Module) -> nn.Module:
    """Linear layers with activations between them, named prefix0, prefix1, …"""
    layers = OrderedDict()
    for n, (fan_in, fan_out) in enumerate(pairwise(dims)):
        if n:
            layers[f"act{n}"] = act()
        layers[f"{prefix}{n}"] = nn.Linear(fan_in, fan_out)
    layers.update((f"last{n}", layer) for n, layer in enumerate(last))
    return nn.Sequential(layers)


def small_cnn() -> nn.Module:
    """Two blocks of convolution, BatchNorm and pooling, then two linear layers; 28 × 28 pixels."""
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 32, 3, padding=1),
            bn1=nn.BatchNorm2d(32),
            act1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(32, 64, 3, padding=1),
            bn2=nn.BatchNorm2d(64),
            act2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),
            flat=nn.Flatten(),
            fc1=nn.Linear(64 * 7 * 7, 128),
            act3=nn.ReLU(),
            fc2=nn.Linear(128, 10),
        )
    )


class Residual(nn.Module):
    """relu(x + norm(conv(relu(norm(conv(x)))))), with a 1 × 1 convolution of x where the shape changes."""

    def __init__(self, fan_in: int, fan_out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(fan_in, fan_out, 3, stride, 1, bias=False), nn.BatchNorm2d(fan_out)
        self.conv2, self.bn2 = nn.Conv2d(fan_out, fan_out, 3, 1, 1, bias=False), nn.BatchNorm2d(fan_out)
        self.resized = stride != 1
        if self.resized:
            self.down, self.bnd = nn.Conv2d(fan_in, fan_out, 1, stride, bias=False), nn.BatchNorm2d(fan_out)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.bnd(self.down(x)) if self.resized else x))


class ResNet18(nn.Module):
    """The residual network of 18 layers for 32 × 32 pixels."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        stages: dict[str, list[nn.Module]] = {}
        for name, fan_in, fan_out, stride in tasks.RESNET_BLOCKS:
            stages.setdefault(name.partition(".")[0], []).append(Residual(fan_in, fan_out, stride))
        self.stages = list(stages)
        for name, blocks in stages.items():
            self.add_module(name, nn.Sequential(*blocks))
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        for name in self.stages:
            x = getattr(self, name)(x)
        return self.fc(x.mean((2, 3)))


class Recurrent(nn.Module):
    """The last output of an LSTM through a linear layer."""

    def __init__(self, c: dict) -> None:
        super().__init__()
        self.lstm, self.fc = nn.LSTM(c["inp"], c["hidden"], batch_first=True), nn.Linear(c["hidden"], c["classes"])

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.lstm(x)[0][:, -1])


class Block(nn.Module):
    """Attention and a two-layer network, each after a LayerNorm and added to what came in."""

    def __init__(self, d: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc1, self.fc2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: Tensor) -> Tensor:
        B, T, d = x.shape
        parts = self.qkv(self.ln1(x)).view(B, T, 3, self.heads, d // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, heads, T, d / heads)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, d))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x)), approximate="tanh"))


class Transformer(nn.Module):
    """Blocks h0, h1, …, a last LayerNorm and a linear head over positions `wpe`."""

    def __init__(self, c: dict, positions: int, outputs: int, causal: bool) -> None:
        super().__init__()
        self.wpe = nn.Parameter(weft.zeros(positions, c["d"]))
        self.blocks = [f"h{n}" for n in range(c["layers"])]
        for name in self.blocks:
            self.add_module(name, Block(c["d"], c["heads"], causal))
        self.lnf, self.head = nn.LayerNorm(c["d"]), nn.Linear(c["d"], outputs, bias=not causal)

    def encode(self, x: Tensor) -> Tensor:
        x = x + self.wpe
        for name in self.blocks:
            x = getattr(self, name)(x)
        return self.lnf(x)


class GPT(Transformer):
    """Scores of the next token at every position."""

    def __init__(self, c: dict) -> None:
        super().__init__(c, c["T"], c["vocab"], causal=True)
        self.wte = nn.Embedding(c["vocab"], c["d"])

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encode(self.wte(x)))


class ViT(Transformer):
    """Scores of an image's class from a learnt first token over its patches."""

    def __init__(self, c: dict) -> None:
        super().__init__(c, (c["image"] // c["patch"]) ** 2 + 1, c["classes"], causal=False)
        self.patch = nn.Conv2d(3, c["d"], c["patch"], c["patch"])
        self.cls = nn.Parameter(weft.zeros(1, 1, c["d"]))

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)  # (B, patches, d)
        x = weft.cat([self.cls.expand(x.shape[0], -1, -1), x], 1)
        return self.head(self.encode(x)[:, 0])


class VAE(nn.Module):
    """A variational autoencoder of one hidden layer each way; gives the negative evidence bound per example."""

    def __init__(self, c: dict) -> None:
        super().__init__()
        self.enc, self.mu, self.logvar = nn.Linear(c["x"], c["h"]), nn.Linear(c["h"], c["z"]), nn.Linear(c["h"], c["z"])
        self.dec1, self.dec2 = nn.Linear(c["z"], c["h"]), nn.Linear(c["h"], c["x"])

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + weft.randn_like(mu) * (0.5 * logvar).exp()
        logits = self.dec2(F.relu(self.dec1(z)))
        reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        divergence = -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum()
        return (reconstruction + divergence) / x.shape[0]


class RealNVP(nn.Module):
    """Affine couplings with alternating masks; gives the mean negative log-likelihood."""

    def __init__(self, c: dict) -> None:
        super().__init__()
        dims = [c["dim"], c["hidden"], c["hidden"], c["dim"]]
        self.couplings = c["couplings"]
        for n in range(self.couplings):
            self.add_module(f"s{n}", chain(dims, "", nn.ReLU, nn.Tanh()))
            self.add_module(f"t{n}", chain(dims, ""))
            self.register_buffer(f"mask{n}", weft.from_numpy(tasks.realnvp_mask(n)))

    def forward(self, x: Tensor) -> Tensor:
        logdet = 0.0
        for n in range(self.couplings):
            kept = getattr(self, f"mask{n}")
            moved = 1 - kept
            s, t = getattr(self, f"s{n}")(x * kept) * moved, getattr(self, f"t{n}")(x * kept) * moved
            x = x * kept + moved * (x * s.exp() + t)
            logdet = logdet + s.sum(1)
        return -(-0.5 * x.square().sum(1) - LOG_2PI + logdet).mean()


class GCN(nn.Module):
    """Two graph convolutions A (x Wᵀ) + b with dropout before each.

    A is a sparse CSR matrix, or with `GCN_SPARSE=0` a gather of source nodes and an `index_add` to target nodes.
    """

    def __init__(self, c: dict, data: dict[str, Tensor]) -> None:
        super().__init__()
        self.gc1, self.gc2 = nn.Linear(c["feats"], c["hidden"]), nn.Linear(c["hidden"], c["classes"])
        self.p, self.nodes = c["dropout"], c["nodes"]
        self.source, self.target, self.weight = data["src"], data["dst"], data["w"]
        self.sparse = os.environ.get("GCN_SPARSE", "1") == "1"
        if self.sparse:
            counts = weft.bincount(self.target, minlength=self.nodes)
            starts = weft.cat([weft.zeros(1, dtype=weft.int64), counts.cumsum(0)])
            self.matrix = weft.sparse_csr_tensor(starts, self.source, self.weight, (self.nodes, self.nodes))

    def spread(self, x: Tensor) -> Tensor:
        if self.sparse:
            return self.matrix @ x
        messages = x.index_select(0, self.source) * self.weight[:, None]
        return weft.zeros(self.nodes, x.shape[1]).index_add(0, self.target, messages)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.spread(F.dropout(x, self.p) @ self.gc1.weight.t()) + self.gc1.bias)
        return self.spread(F.dropout(x, self.p) @ self.gc2.weight.t()) + self.gc2.bias


class DDPM(nn.Module):
    """Predicts the noise in points of the plane; gives the mean squared error."""

    def __init__(self, c: dict) -> None:
        super().__init__()
        h = c["hidden"]
        self.net = chain([c["dim"] + c["temb"], h, h, h, c["dim"]], act=nn.SiLU)
        for name, array in zip(("signal", "noise", "frequencies"), tasks.ddpm_schedule(), strict=True):
            self.register_buffer(name, weft.from_numpy(array))

    def forward(self, x: Tensor) -> Tensor:
        t = weft.randint(0, len(self.signal), (len(x),))
        noise = weft.randn_like(x)
        mixed = self.signal[t][:, None] * x + self.noise[t][:, None] * noise
        angle = t[:, None].float() * self.frequencies
        return F.mse_loss(self.net(weft.cat([mixed, angle.sin(), angle.cos()], 1)), noise)


# ----------------------------------------------------------------------------------------------- steps


def started(module: nn.Module, start: dict[str, np.ndarray]) -> nn.Module:
    """The module with the yardstick's initial parameters, which must be exactly its own."""
    own = dict(module.named_parameters())
    if own.keys() != start.keys():
        raise KeyError(f"parameters differ: {sorted(own.keys() ^ start.keys())}")
    with weft.no_grad():
        for name, array in start.items():
            own[name].copy_(weft.from_numpy(array).view_as(own[name]))
    return module


def optimiser(c: dict, parameters: Iterable[Tensor]) -> weft.optim.Optimizer:
    if c["opt"] == "sgd":
        return weft.optim.SGD(parameters, lr=c["lr"], momentum=c["momentum"])
    betas = (c["b1"], c["b2"])
    return weft.optim.Adam(parameters, lr=c["lr"], betas=betas, eps=c["eps"], weight_decay=c["wd"])


def supervised(c: dict, model: nn.Module, loss: Step) -> Step:
    """One step on a loss; no gradient outlives it."""
    optimizer = optimiser(c, model.parameters())

    def step() -> Tensor:
        value = loss()
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        return value.detach()

    return step


def contrastive(c: dict, start: dict[str, np.ndarray], v0: Tensor) -> Step:
    """One step of contrastive divergence (CD-1) of a restricted Boltzmann machine."""
    W, b, hidden = (weft.from_numpy(start[name]) for name in ("W", "b", "c"))
    rate = c["lr"] / c["batch"]

    @weft.no_grad()
    def step() -> Tensor:
        h0 = weft.sigmoid(v0 @ W + hidden)
        v1 = weft.bernoulli(weft.sigmoid(weft.bernoulli(h0) @ W.t() + b))
        h1 = weft.sigmoid(v1 @ W + hidden)
        W.add_(v0.t() @ h0 - v1.t() @ h1, alpha=rate)
        b.add_((v0 - v1).sum(0), alpha=rate)
        hidden.add_((h0 - h1).sum(0), alpha=rate)
        return F.mse_loss(v1, v0)

    return step


def adversarial(c: dict, start: dict[str, np.ndarray], real: Tensor) -> Step:
    """One step of the critic with gradient penalty, then one of the generator (WGAN-GP)."""
    act = lambda: nn.LeakyReLU(c["slope"])
    generator = started(chain(c["gen"], "g", act, nn.Tanh()), {k: v for k, v in start.items() if k[0] == "g"})
    critic = started(chain(c["critic"], "d", act), {k: v for k, v in start.items() if k[0] == "d"})
    of_generator, of_critic = optimiser(c, generator.parameters()), optimiser(c, critic.parameters())
    drawn = list(generator.parameters())

    def step() -> Tensor:
        with weft.no_grad():
            fake = generator(weft.randn(c["batch"], c["z"]))
        share = weft.rand(c["batch"], 1)
        mixed = (share * real + (1 - share) * fake).requires_grad_()
        (slope,) = weft.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = (slope.norm(2, 1) - 1).square().mean()
        loss = critic(fake).mean() - critic(real).mean() + c["penalty"] * penalty
        loss.backward()
        of_critic.step()
        of_critic.zero_grad()
        (-critic(generator(weft.randn(c["batch"], c["z"]))).mean()).backward(inputs=drawn)
        of_generator.step()
        of_generator.zero_grad()
        return loss.detach()

    return step


def tiny(c: dict, x: Tensor) -> tuple[Step, Step]:
    """A chain of tiny operations, forward and backward, and its forward part alone."""
    leaf = x.clone().requires_grad_()

    def forward() -> Tensor:
        y = leaf
        for _ in range(c["reps"]):
            y = y * c["mul"] + c["add"]
        return y.sum()

    def step() -> Tensor:
        leaf.grad = None
        value = forward()
        value.backward()
        return value.detach()

    return step, forward


def training_step(task: str, c: dict, data: dict[str, Tensor]) -> Step:
    """The step of a task, not compiled."""
    x, y, start = data["x"], data.get("y"), tasks.params(task)
    if task == "rbm_cd1":
        return contrastive(c, start, x)
    if task == "wgan_gp":
        return adversarial(c, start, x)
    if task in ("vae", "realnvp", "ddpm_mlp"):  # these give their loss themselves
        if task == "ddpm_mlp":
            start = {f"net.{k}": v for k, v in start.items()}
        model = started({"vae": VAE, "realnvp": RealNVP, "ddpm_mlp": DDPM}[task](c), start)
        return supervised(c, model, lambda: model(x))
    if task == "gcn":
        model = started(GCN(c, data), start)
        return supervised(c, model, lambda: F.cross_entropy(model(x)[: c["train"]], y))
    if task.startswith("gpt"):
        model = started(GPT(c), {"wte.weight" if k == "wte" else k: v for k, v in start.items()})
        return supervised(c, model, lambda: F.cross_entropy(model(x).flatten(0, 1), y.flatten()))
    if task == "lstm":
        names = {
            f"{a}_{b}": f"lstm.{long}_{b}_l0" for a, long in (("w", "weight"), ("b", "bias")) for b in ("ih", "hh")
        }
        model = started(Recurrent(c), {names.get(k, k): v for k, v in start.items()})
    else:
        makers: dict[str, Callable[[], nn.Module]] = {
            "mlp_small": lambda: chain(c["dims"]),
            "mlp_large": lambda: chain(c["dims"]),
            "cnn_small": small_cnn,
            "resnet18_cifar": lambda: ResNet18(c["classes"]),
            "vit_tiny": lambda: ViT(c),
        }
        model = started(makers[task](), start)
    return supervised(c, model, lambda: F.cross_entropy(model(x), y))


# ------------------------------------------------------------------------------------ the peer's interface


def build(task: str, variant: str) -> tuple[Step, dict[str, Step]]:
    """The step of a task, and parts of it that are timed by themselves."""
    weft.manual_seed(0)
    c = tasks.TASKS[task]
    data = {name: weft.from_numpy(array) for name, array in tasks.inputs(task).items()}
    if task == "eager_tiny":
        if variant != "eager":
            raise NotImplementedError("eager_tiny measures eager operations")
        step, forward = tiny(c, data["x"])
        return step, {"forward": forward}
    step = training_step(task, c, data)
    return (weft.compile(step) if variant == "compile" else step), {}


def value(loss: Any) -> float:
    return float(loss)


def version() -> str:
    return weft.__version__
