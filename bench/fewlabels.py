"""Learning with few labels: training steps of Weft, compiled, against the same programs in PyTorch, eager, in turns.

Prints medians and the ratio Weft / PyTorch (below 1: Weft is faster). PyTorch's programs are in `fewlabels_peers`. Times are
those of the processor with one thread, of the wall with several. Views are given: what augmentation costs is not in it.

    python bench/fewlabels.py [--rounds 9] [--threads 1] [--only vat] [--json FILE]

Semi-supervised methods at two sizes: "moons", a network 2-64-64-2 with 4 labelled and 100 unlabelled points in a step, and
"digits", 784-256-256-10 with 32 and 96. Views: two convolutions on 64 images of 28×28. MAE: patches of 4×4, four blocks of 64.
M2: 100 labelled and 100 unlabelled codes of 50 numbers, all ten classes of the latter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from turns import run

Program = Callable[[], Any]
METHODS = ("pseudo_label", "pi_model", "mean_teacher", "vat", "mixmatch", "fixmatch", "ladder")
SIZES = {"moons": ((2, 64, 64, 2), 4, 100), "digits": ((784, 256, 256, 10), 32, 96)}  # network, labelled, unlabelled
WIDTH, IMAGES = 16, 64


def programs(library: Any) -> dict[str, Program]:
    """Every program, made when it is first called."""
    if library.__name__ == "weft":
        semi, others = ours, OURS
    else:
        import fewlabels_peers as peers

        semi = peers.semi
        others = {
            "SimCLR": lambda: peers.simclr(WIDTH, views()),
            "BYOL": lambda: peers.byol(WIDTH, views()),
            "MAE": lambda: peers.mae(views()[0], 4, 64, 4),
            "M2": lambda: peers.m2(50, 300, 30, codes()),
        }
    made = {
        f"{method} {size}": functools.partial(semi, method, SIZES[size][0], batch(size))
        for method in METHODS
        for size in SIZES
    }
    return {name: later(make) for name, make in (made | others).items()}


def later(make: Callable[[], Program]) -> Program:
    made = functools.cache(make)
    return lambda: made()()


# ---------------------------------------------------------------------------------------------------- data


def batch(size: str) -> tuple[np.ndarray, ...]:
    """Labelled examples and labels, two views of others, their labels."""
    (inputs, *_, classes), labelled, unlabelled = SIZES[size]
    rng = np.random.default_rng(0)
    x, weak, strong = (rng.standard_normal((n, inputs), np.float32) for n in (labelled, unlabelled, unlabelled))
    return x, np.arange(labelled) % classes, weak, strong, np.arange(unlabelled) % classes


def views() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return tuple(rng.random((IMAGES, 1, 28, 28), np.float32) for _ in range(2))


def codes() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((100, 50), np.float32), np.arange(100) % 10, rng.standard_normal((100, 50), np.float32)


# ---------------------------------------------------------------------------------------------------- Weft


def stepping(model: Any, loss: Callable[[], Any], before: Callable[[], Any] = lambda: None) -> Program:
    """One compiled step of Adam."""
    import weft

    optimizer = weft.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)

    @weft.compile
    def step() -> None:
        before()
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def ours(method: str, sizes: tuple[int, ...], data: Any) -> Program:
    """The tasks of `weft.train.methods.semi`, as a trainer runs them."""
    import weft
    from weft.models.classical import MLP
    from weft.models.fewlabels import LadderNetwork
    from weft.train.methods import semi

    net = lambda: MLP(sizes[0], sizes[1:-1], sizes[-1])
    classes = sizes[-1]
    made: dict[str, Callable[[], Any]] = {
        "pseudo_label": lambda: semi.PseudoLabel(net()),
        "pi_model": lambda: semi.PiModel(net()),
        "mean_teacher": lambda: semi.MeanTeacher(net(), ema_m=0.99),
        "vat": lambda: semi.VAT(net()),
        "mixmatch": lambda: semi.MixMatch(net(), num_classes=classes, ema_m=0.99),
        "fixmatch": lambda: semi.FixMatch(net(), ema_m=0.99),
        "ladder": lambda: semi.Ladder(LadderNetwork(sizes[0], sizes[1:-1], classes)),
    }
    task = made[method]()
    x, y, weak, strong, truth = (weft.tensor(part) for part in data)
    given = semi.SemiBatch(x, y, weak, strong, weft.arange(len(weak)), truth)
    return stepping(task.model, lambda: task.training_step(given))


def of_views(kind: str) -> Program:
    import weft
    from weft import nn
    from weft.models import fewlabels

    encoder = nn.Sequential(
        *(nn.Conv2d(1, WIDTH, 3, stride=2, padding=1), nn.BatchNorm2d(WIDTH), nn.ReLU()),
        *(nn.Conv2d(WIDTH, 2 * WIDTH, 3, stride=2, padding=1), nn.BatchNorm2d(2 * WIDTH), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )
    model = getattr(fewlabels, kind)(encoder, 2 * WIDTH, hidden=128, projection=64)
    given = [weft.tensor(part) for part in views()]
    return stepping(model, lambda: model.loss(*given), model.follow)


def masked() -> Program:
    import weft
    from weft.models.fewlabels import MaskedAutoencoder

    model, x = MaskedAutoencoder(28, 4, num_layers=4, num_heads=4, hidden_dim=64, mlp_dim=256), weft.tensor(views()[0])
    return stepping(model, lambda: model.loss(x))


def second() -> Program:
    import weft
    from weft.models.variational import DenseSemiSupervisedVAE

    model = DenseSemiSupervisedVAE(50, (300,), 30, "gaussian", classes=10)
    x, y, unlabelled = (weft.tensor(part) for part in codes())
    return stepping(model, lambda: model.loss(x, y, unlabelled, 5.0))


OURS: dict[str, Callable[[], Program]] = {
    "SimCLR": lambda: of_views("SimCLR"),
    "BYOL": lambda: of_views("BYOL"),
    "MAE": masked,
    "M2": second,
}

if __name__ == "__main__":
    run("step", __doc__, programs, rounds=9, processor=True)
