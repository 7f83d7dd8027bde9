"""One table of every family on the same bits, and one of densities in the plane: what the page families.md shows.

    python handbook/compare.py [--seconds 120] [--data FOLDER] [--only bits|plane] [--model NAME …] [--limit N] [--out families.md]

Every model of bits is trained for the same processor time on one thread, by the same loop, and judged on the whole test set;
models of the plane state theirs. With --model the rows of the models named are made anew, and the others stay. Bits are those
of fixed-binarised MNIST (784 an image). Densities of the plane are known, so log p − log q of fresh points is an estimate of
KL(p ‖ q) that needs no other model. Settings were chosen for short runs: the recipes train longer.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import weft
from weft import nn, optim
from weft.data.sources import BinarizedMNIST
from weft.models import autoregressive, diffusion, energy, flows, generative, variational
from weft.models.energy.annealing import base_rates, dense_near_one
from weft.models.variational.flow_posteriors import flow_posterior
from weft.recipes.flows.density_2d import DENSITIES, Plane
from weft.tensor import Tensor

HERE = Path(__file__).parent
PIXELS, SHAPE, BATCH = 784, (1, 28, 28), 100
DRAWN = 100  # samples that are timed
FINE_STEPS = 64  # of Runge and Kutta's rule, when a continuous flow is judged
SECONDS = 120.0  # that a model of bits learns; models of the plane learn as long as they say
CLIP = 5.0  # largest norm of a gradient of the plane's models: a steep map has steep slopes now and then
Batches = Iterator[Tensor]


def descend(
    loss: Callable[[Tensor], Tensor],
    parameters: Any,
    batches: Batches,
    seconds: float,
    rule: Any,
    lr: float,
    clip: float = math.inf,
) -> None:
    """Steps of an optimiser, each one plan, until the processor time is spent; the rate falls to 0 in a straight line."""
    parameters = list(parameters)
    optimizer = rule(parameters, lr=lr)

    @weft.compile
    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        loss(x).backward()
        nn.utils.clip_grad_norm_(parameters, clip)
        optimizer.step()

    step(next(batches))
    started = time.process_time()
    while (spent := time.process_time() - started) < seconds:
        for group in optimizer.param_groups:
            group["lr"] = lr * (1 - spent / seconds)
        step(next(batches))


def forever(x: Tensor, generator: weft.Generator) -> Batches:
    """Batches of rows in random order, epoch after epoch."""
    while True:
        order = weft.randperm(len(x), generator=generator)
        for start in range(0, len(x) - BATCH + 1, BATCH):
            yield x[order[start : start + BATCH]]


# ---------------------------------------------------------------------------------------------- bits


@dataclass(frozen=True)
class Bits:
    """Training and test images as bits, (N, 784), and how long a model may learn."""

    train: Tensor
    test: Tensor
    seconds: float
    seed: int

    def batches(self) -> Batches:
        return forever(self.train, weft.Generator().manual_seed(self.seed))


def by_likelihood(model: Any, bits: Bits, lr: float, shape: tuple[int, ...] = (PIXELS,)) -> Any:
    loss = lambda x: -model.log_prob(x.reshape(-1, *shape)).mean()
    descend(loss, model.parameters(), bits.batches(), bits.seconds, optim.Adam, lr)
    return model


def by_own_loss(model: Any, bits: Bits, lr: float, shape: tuple[int, ...] = (PIXELS,)) -> Any:
    loss = lambda x: model.loss(x.reshape(-1, *shape))
    descend(loss, model.parameters(), bits.batches(), bits.seconds, optim.Adam, lr)
    return model


def product(bits: Bits) -> Any:
    return generative.ProductOfBernoullis(PIXELS).fit(bits.train)


def mixture(bits: Bits) -> Any:
    generator, started = weft.Generator().manual_seed(bits.seed), time.process_time()
    generative.BernoulliMixture(200, PIXELS).fit(bits.train, 1, generator=generator)
    once = max(time.process_time() - started, 1e-3)
    rounds = max(1, int(bits.seconds / once))
    return generative.BernoulliMixture(200, PIXELS).fit(bits.train, min(rounds, 100), generator=generator)


def contrastive(machine: Any, batches: Batches, seconds: float, seed: int, lr: float) -> None:
    """Persistent chains with the centred gradient."""
    generator = weft.Generator().manual_seed(seed)
    learning = energy.PersistentContrastiveDivergence(machine, BATCH, generator=generator, centred=True)
    learning.centre(weft.cat([next(batches) for _ in range(20)]))
    descend(lambda v: learning(v, generator), machine.parameters(), batches, seconds, optim.SGD, lr)


@weft.no_grad()
def start_at_rates(machine: Any, train: Tensor) -> None:
    machine.visible_bias.copy_(base_rates(train, 1e-3))


def rbm(bits: Bits) -> Any:
    machine = energy.BernoulliRBM(PIXELS, 500)
    start_at_rates(machine, bits.train)
    contrastive(machine, bits.batches(), bits.seconds, bits.seed, 0.2)
    return machine


def deep_belief(bits: Bits) -> Any:
    net = energy.DeepBelief((PIXELS, 500, PIXELS))
    start_at_rates(net.machines[0], bits.train)
    contrastive(net.machines[0], bits.batches(), bits.seconds / 2, bits.seed, 0.2)
    net.tie(0)
    net.unfold(1)
    generator = weft.Generator().manual_seed(bits.seed + 1)
    above = (weft.bernoulli(net.upward(x).detach(), generator=generator) for x in bits.batches())
    contrastive(net.machines[1], above, bits.seconds / 2, bits.seed, 0.05)
    return net


def dense_vae(bits: Bits, **options: Any) -> Any:
    return by_own_loss(variational.DenseVAE(PIXELS, (200, 200), 50, init="xavier", **options), bits, 0.004)


def ddpm(bits: Bits, network: Any, lr: float) -> Any:
    """What is said of a pixel is a chance of 1; Bayes' rule adds what the noisy pixel itself shows."""
    schedule = diffusion.NoiseSchedule("cosine", 1000)
    posterior = diffusion.PixelPosterior(network, schedule, (-1.0, 1.0), 0)
    options = {"prediction_type": "v_prediction", "variance_type": "learned_range", "levels": 2}
    return by_own_loss(diffusion.DDPM(posterior, SHAPE, schedule, **options), bits, lr, SHAPE)


class Rows(nn.Module):
    """A network of rows for images."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.broadcasts_time = getattr(network, "broadcasts_time", False)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return self.network(x.flatten(1), t).reshape(len(x), -1, *x.shape[2:])


FAMILIES: dict[str, tuple[Callable[[Bits], Any], tuple[int, ...]]] = {
    "product of Bernoullis": (product, (PIXELS,)),
    "mixture of 200 Bernoullis": (mixture, (PIXELS,)),
    "RBM, 500 hidden": (rbm, (PIXELS,)),
    "deep belief network, 500-784": (deep_belief, (PIXELS,)),
    "NADE, 500 hidden": (lambda b: by_likelihood(autoregressive.NADE(PIXELS, 500), b, 0.005), (PIXELS,)),
    "MADE, 500 hidden": (
        lambda b: by_likelihood(autoregressive.MADE(PIXELS, (500,), direct=True), b, 0.002),
        (PIXELS,),
    ),
    "gated PixelCNN, 4 layers": (
        lambda b: by_likelihood(autoregressive.GatedPixelCNN(SHAPE, 16, 4), b, 0.005, SHAPE),
        SHAPE,
    ),
    "VAE": (dense_vae, (PIXELS,)),
    "IWAE, k = 5": (functools.partial(dense_vae, objective=variational.IWAE(5)), (PIXELS,)),
    "VAE, flow posterior": (lambda b: dense_vae(b, posterior=flow_posterior("iaf", 50, 1, 50, 400)), (PIXELS,)),
    "DDPM, perceptron": (
        lambda b: ddpm(b, Rows(diffusion.PointNetwork(PIXELS, 500, 3, outputs=2 * PIXELS)), 0.002),
        SHAPE,
    ),
    "DDPM, U-Net of 4×4 patches": (
        lambda b: ddpm(b, diffusion.UNet(1, 48, (1,), attention=(0,), patch=4, out_channels=2), 0.002),
        SHAPE,
    ),
}


def judged(model: Any, bits: Bits, shape: tuple[int, ...]) -> tuple[str, str]:
    """Nats with their side and standard error, and how they were found."""
    x = bits.test.reshape(-1, *shape)
    options: dict[str, Any] = {}
    if isinstance(model, energy.BernoulliRBM | energy.DeepBelief):
        options = {"chains": 100, "temperatures": dense_near_one(2000), "base": base_rates(bits.train)}
    if isinstance(model, energy.DeepBelief):
        del options["base"]
    if isinstance(model, diffusion.DDPM):
        model.eval()
        terms = weft.cat([model.elbo(part, draws=10) for part in x.split(500)])
        return f"≤ {-terms.mean():.2f} ± {terms.std() / len(x) ** 0.5:.2f}", "bound, 10 steps of each image"
    samples = 5 if isinstance(model, energy.DeepBelief) else 200
    found = generative.evaluate(model.eval(), x, binarisation="fixed", samples=(samples,), options=options)
    best = found.side("lower")
    sign = "=" if best.side is None else "≤"
    said = f"{sign} {-best.nats:.2f} ± {best.error:.2f}"
    other = found.side("upper")
    if best.side is not None and other is not None:
        said = (
            f"{-other.nats:.2f} … {-best.nats:.2f}"
            if best.nats <= other.nats
            else f"{said}; chains too short: {-other.nats:.2f}"
        )
    return said, best.method


def sampling(model: Any) -> float:
    """Milliseconds of processor time for one sample, of a hundred drawn together by a plan that is there already."""
    generator = weft.Generator().manual_seed(1)
    how = {"sampler": "dpm", "steps": 25} if isinstance(model, diffusion.DDPM) else {}
    model.sample(DRAWN, generator=generator, **how)
    started = time.process_time()
    model.sample(DRAWN, generator=generator, **how)
    return 1000 * (time.process_time() - started) / DRAWN


def bits_table(options: argparse.Namespace) -> list[str]:
    train, test = (_images(options, part) for part in ("train", "test"))
    bits = Bits(train, test, options.seconds, options.seed)
    rows = ["| model | nats an image | found by | parameters | training s | ms a sample |", "|---|---|---|--:|--:|--:|"]
    for label, (make, shape) in chosen(FAMILIES, options).items():
        weft.manual_seed(options.seed)
        started = time.process_time()
        model = make(bits)
        spent = time.process_time() - started
        with weft.no_grad():
            said, method = judged(model, bits, shape)
            pace = sampling(model)
        count = sum(p.numel() for p in model.parameters())
        rows.append(f"| {label} | {said} | {method} | {count:,} | {spent:.0f} | {pace:.2f} |")
        print(rows[-1], flush=True)
    return rows


def _images(options: argparse.Namespace, part: str) -> Tensor:
    found = BinarizedMNIST(root=options.data, split=part, download=options.data is None)
    images = found.as_tensors().tensors[0] if options.limit is None else found.drawn(options.limit)
    return images.flatten(1)


# ---------------------------------------------------------------------------------------------- the plane


class Mixture(nn.Module):
    """So many normal densities with full covariances, learned by gradients like the others."""

    def __init__(self, components: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(weft.zeros(components))
        self.means = nn.Parameter(weft.randn(components, 2))
        self.factors = nn.Parameter(3 * weft.eye(2).repeat(components, 1, 1))  # Σ⁻¹ = FᵀF

    def log_prob(self, x: Tensor) -> Tensor:
        moved = weft.einsum("kij,bkj->bki", self.factors, x.unsqueeze(1) - self.means)
        dets = weft.linalg.det(self.factors).abs().log() - math.log(2 * math.pi)
        return (self.weights.log_softmax(0) + dets - (moved**2).sum(-1) / 2).logsumexp(1)


def _flow(*parts: Any) -> flows.Flow:
    return flows.Flow([*parts, flows.ActNorm(2)], 2)


def _ended(flow: Any) -> flows.Flow:
    """Its maps with a last one that moves and stretches the plane."""
    parts = getattr(flow.bijector, "parts", [flow.bijector])
    return flows.Flow([*parts, flows.ActNorm(2)], flow.noise)


def _shaken(flow: Any) -> Any:
    """Its networks' last layers away from 0, where shifts of data that mirror themselves have no slope."""
    for name, part in flow.named_parameters():
        if name.endswith(("last.weight", "output.weight")):
            nn.init.normal_(part, std=0.1)
    return flow


class Turn(flows.Bijector):
    """The plane turned by an eighth."""

    def __init__(self) -> None:
        super().__init__()
        half = math.sqrt(0.5)
        self.register_buffer("rows", weft.tensor([[half, -half], [half, half]]))

    def forward(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return z @ self.rows.T, weft.zeros(len(z))

    def inverse(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return x @ self.rows, weft.zeros(len(x))


def _turning(flow: flows.Flow, every: int = 2) -> flows.Flow:
    """Its maps, which move points along an axis, with a turn after every so many, so that there are four directions."""
    parts = [part for part in flow.bijector.parts if not isinstance(part, flows.ActNorm | flows.Scaling)]
    groups = [parts[k : k + every] for k in range(0, len(parts), every)]
    return _ended(flows.Flow([part for group in groups for part in (*group, Turn())], flow.noise))


def matched(flow: flows.Flow, plane: Plane, seconds: float, generator: weft.Generator) -> None:
    """A continuous flow's first lessons: its field alone by flow matching, whose steps solve no equation."""
    continuous, last = flow.bijector.parts
    flow.log_prob(plane.draw(4096, generator))  # the last map finds its scale
    matcher = diffusion.ConditionalFlowMatcher()

    def loss(x: Tensor) -> Tensor:
        with weft.no_grad():
            y = last.inverse(x)[0]
            t, between, velocity = matcher.sample_location_and_conditional_flow(weft.randn_like(y), y)
        return ((continuous.field(t.unsqueeze(1), between) - velocity) ** 2).sum(1).mean()

    batches = iter(lambda: plane.draw(1024, generator), None)
    descend(loss, continuous.field.parameters(), batches, seconds, optim.Adam, 0.004, CLIP)


@weft.no_grad()
def _apart(map: flows.Planar) -> flows.Planar:
    """Its bend somewhere in the plane and four times as sharp; all through the middle they end at half as much again."""
    u, w, b = map.values.split([2, 2, 1])
    u.div_(4)
    w.mul_(4)
    b.copy_(w.norm() * weft.randn(1))
    return map


@weft.no_grad()
def _turned(map: flows.Sylvester) -> flows.Sylvester:
    """The same with its two bends."""
    _, inner, b = map.values.split([4, 4, 2])
    inner.copy_(3 * weft.eye(2).flatten() + 0.1 * weft.randn(4))
    b.copy_(4 * weft.randn(2))
    return map


@weft.no_grad()
def _placed(map: flows.Radial) -> flows.Radial:
    """Its centre somewhere in the plane, its reach 0.2; all near 0 they would be one map."""
    map.values[:2].copy_(weft.randn(2))
    map.values[2:].sub_(1.5)
    return map


# With the learning rate, and seconds for each density: of the curves, and of the checkerboard.
PLANE: dict[str, tuple[Callable[[], Any], float, tuple[float, float]]] = {
    "mixture of 30 Gaussians": (lambda: Mixture(30), 0.02, (10, 10)),
    "planar flow, 128 maps": (lambda: _flow(*(_apart(flows.Planar(2)).inv for _ in range(128))), 0.02, (30, 60)),
    "radial flow, 640 maps": (lambda: _flow(*(_placed(flows.Radial(2)).inv for _ in range(640))), 0.02, (120, 400)),
    "Sylvester flow, 64 maps": (
        lambda: _flow(*(_turned(flows.Sylvester(2, 2)).inv for _ in range(64))),
        0.02,
        (40, 90),
    ),
    "NICE": (lambda: _turning(_shaken(flows.NICE(2, (64, 64), 32, "gaussian"))), 0.001, (200, 100)),
    "RealNVP": (lambda: _turning(_shaken(flows.RealNVP(2, (64, 64), 16))), 0.003, (120, 120)),
    "MAF": (
        lambda: _turning(
            _shaken(flows.MaskedAutoregressiveFlow(2, (64, 64), 12, flows.Affine(2.0), batch_norm=False)), 4
        ),
        0.001,
        (200, 120),
    ),
    "neural spline": (
        lambda: _ended(flows.NeuralSplineFlow(2, (64, 64), 4, bins=16, kind="autoregressive", bound=4.0)),
        0.005,
        (40, 40),
    ),
    "residual flow": (lambda: _ended(flows.ResidualFlow(2, (16, 16), 64, bound=0.99)), 0.004, (100, 340)),
    "continuous flow": (
        lambda: _ended(flows.ContinuousFlow(2, (64, 64, 64), method="rk4", options={"num_steps": 12})),
        0.0007,
        (100, 320),
    ),
    "RNADE": (lambda: autoregressive.RNADE(2, 64, components=20), 0.003, (8, 8)),
    "DDPM (bound)": (
        lambda: diffusion.DDPM(
            diffusion.PointNetwork(2, 128, 3, outputs=4),
            (2,),
            "cosine",
            1000,
            prediction_type="v_prediction",
            variance_type="learned_range",
        ),
        0.005,
        (8, 8),
    ),
}


def excess(model: Any, lr: float, plane: Plane, seconds: float, seed: int, points: int = 20_000) -> str:
    """KL(p ‖ q) by fresh points, with its standard error; "≤" where the model tells a bound only."""
    generator = weft.Generator().manual_seed(seed)
    bounded = isinstance(model, diffusion.DDPM)
    field = next((part for part in model.modules() if isinstance(part, flows.Continuous)), None)
    if field is not None:
        matched(model, plane, seconds / 2, generator)
        seconds /= 2
    batches = iter(lambda: plane.draw(512, generator), None)
    loss = model.loss if bounded else lambda x: -model.log_prob(x).mean()
    descend(loss, model.parameters(), batches, seconds, optim.Adam, lr, CLIP)
    if field is not None:  # few steps may tell a density that does not add up to 1
        field.options["options"] = {"num_steps": FINE_STEPS}
    x = plane.draw(points, weft.Generator().manual_seed(seed + 1))
    value = model.eval().elbo if bounded else model.eval().log_prob
    with weft.no_grad():
        gaps = plane.log_prob(x) - weft.cat([value(part) for part in x.split(1000)])
    return f"{'≤ ' if bounded else ''}{gaps.mean():.3f} ± {gaps.std() / points**0.5:.3f}"


def plane_table(options: argparse.Namespace) -> list[str]:
    rows = [
        f"| model | parameters | training s | {' | '.join(DENSITIES)} |",
        "|---|--:|--:" + "|--:" * len(DENSITIES) + "|",
    ]
    for label, (make, lr, seconds) in chosen(PLANE, options).items():
        cells, told = [], [each * options.seconds / SECONDS for each in seconds]
        for name, plane in DENSITIES.items():
            weft.manual_seed(options.seed)
            model = make()
            cells.append(excess(model, lr, plane, told[name == "checkerboard"], options.seed))
        count = sum(p.numel() for p in model.parameters())
        rows.append(f"| {label} | {count:,} | {told[0]:.0f}, {told[1]:.0f} | {' | '.join(cells)} |")
        print(rows[-1], flush=True)
    return rows


TABLES = {"bits": (bits_table, FAMILIES), "plane": (plane_table, PLANE)}


def chosen(models: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Those whose names begin with what was asked for."""
    return {name: made for name, made in models.items() if name.startswith(tuple(options.model or ("",)))}


def put(page: Path, name: str, rows: list[str], order: list[str]) -> None:
    """Replace these models' rows in the table between the page's marks of this name."""
    text = page.read_text(encoding="utf-8")
    label = lambda row: row.split("|")[1].strip()

    def table(found: re.Match[str]) -> str:
        kept = {label(row): row for row in found[2].splitlines()[2:]} | {label(row): row for row in rows[2:]}
        return "\n".join([found[1], *rows[:2], *(kept[name] for name in order if name in kept), found[3]])

    found = re.compile(rf"(<!-- {name} -->)\n(.*?)(<!-- end -->)", re.DOTALL)
    page.write_text(found.sub(table, text), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="that a model of bits learns; those of the plane in proportion"
    )
    parser.add_argument("--data", default=os.environ.get("WEFT_DATA"), help="folder with the data files ($WEFT_DATA)")
    parser.add_argument("--only", choices=tuple(TABLES), help="one of the tables")
    parser.add_argument(
        "--model", action="append", help="only models whose names begin so; other rows of the page stay"
    )
    parser.add_argument("--limit", type=int, help="so many images of each part only, to try it")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=HERE / "families.md", help="the page that holds the tables")
    options = parser.parse_args()
    weft.set_num_threads(1)
    for name, (table, models) in TABLES.items():
        if options.only in (None, name):
            rows = table(options)
            if options.limit is None:
                put(options.out, name, rows, list(models))


if __name__ == "__main__":
    main()
