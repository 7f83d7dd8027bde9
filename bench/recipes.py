"""Recipes from data in memory to the test figure: Weft's trainer beside the same model in PyTorch's eager code.

    python bench/recipes.py --data DIR [--recipes mnist-mlp,mnist-cnn] [--threads 2] [--quick]

Each side is a process of its own, one after the other. Both begin with the same weights and use the same optimiser,
schedule, batch size, epochs, augmentation and validation; each shuffles with its own random numbers. PyTorch indexes
tensors in memory, which is faster than its DataLoader. Seconds count training with validation, for Weft with compiling
(its cache is empty) and checkpoints. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine

RECIPES = ("mnist-linear", "mnist-mlp", "mnist-cnn", "fashion-cnn", "cifar10-cnn")
HEADER = "| recipe | parameters | epochs | goal | Weft: accuracy | seconds | PyTorch: accuracy | seconds | times |"


# ------------------------------------------------------------------------------------------- one side


def weft_side(name: str, settings: Any, root: str) -> dict[str, float]:
    """The recipe as `weft train` runs it."""
    from weft import recipes

    with tempfile.TemporaryDirectory() as folder:
        result = recipes.run(name, settings, folder=folder, root=root, progress=False)
        said = json.loads(Path(folder, "result.json").read_text())
    return {"accuracy": result.figures["test_accuracy"], "seconds": said["seconds"], "data_wait": said["data_wait"]}


def torch_side(name: str, settings: Any, root: str) -> dict[str, float]:
    """The same in PyTorch: a plain loop over tensors in memory."""
    import torch

    import weft
    from weft import recipes

    recipe = recipes.get(name)
    torch.manual_seed(settings.seed)
    weft.manual_seed(settings.seed)
    splits = recipe.data(settings, root)
    train, validation, test = (as_torch(part) for part in (splits.train, splits.validation, splits.test))
    model = torch_model(recipe.task(settings, splits).model)
    started = time.perf_counter()
    fit(model, settings, train, validation, MOVES.get(name))
    seconds = time.perf_counter() - started
    return {"accuracy": accuracy(model, *test), "seconds": seconds}


def fit(model: Any, settings: Any, train: tuple, validation: tuple | None, move: Any) -> None:
    """AdamW on a one-cycle schedule, validated after every epoch."""
    import torch

    from weft.recipes.shared import cycle

    x, y = train
    steps = len(y) // settings.batch_size
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)
    total = settings.epochs * steps
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: cycle(step / total))
    for _ in range(settings.epochs):
        order = torch.randperm(len(y))
        for rows in order[: steps * settings.batch_size].split(settings.batch_size):
            images = x[rows] if move is None else move(x[rows])
            loss = torch.nn.functional.cross_entropy(model(images), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        if validation is not None:
            accuracy(model, *validation)


def accuracy(model: Any, x: Any, y: Any) -> float:
    """The share of images whose most probable class is their label."""
    import torch

    model.eval()
    with torch.no_grad():
        right = [(model(a).argmax(1) == b).sum() for a, b in zip(x.split(500), y.split(500), strict=True)]
    model.train()
    return float(sum(right) / len(y))


def flipped(images: Any) -> Any:
    """Each image mirrored with probability ½."""
    import torch

    chosen = torch.rand(len(images), 1, 1, 1) < 0.5
    return torch.where(chosen, images.flip(3), images)


def moved_and_flipped(images: Any) -> Any:
    """Each image cut from itself with a border of 4 black pixels, at a random place, and mirrored at random."""
    import torch

    count, _, height, width = images.shape
    padded = torch.nn.functional.pad(images, (4, 4, 4, 4))
    down, right = torch.randint(0, 9, (2, count, 1))
    rows, columns = (down + torch.arange(height))[:, :, None], (right + torch.arange(width))[:, None, :]
    number = torch.arange(count)[:, None, None]
    return flipped(padded[number, :, rows, columns].permute(0, 3, 1, 2).contiguous())  # (B, H, W, C) → (B, C, H, W)


MOVES = {"fashion-cnn": flipped, "cifar10-cnn": moved_and_flipped}


# ------------------------------------------------------------------------------------------- translation


def as_torch(loader: Any) -> tuple[Any, Any] | None:
    """The tensors behind a loader, in PyTorch's memory."""
    import torch

    if loader is None:
        return None
    x, y = (torch.from_numpy(part.numpy().copy()) for part in loader.dataset.tensors)
    return x, y


def torch_model(module: Any) -> Any:
    """The PyTorch module with the structure and the weights of a Weft module."""
    from torch import nn

    kind, parts = type(module).__name__, list(module.children())
    if parts:
        return nn.Sequential(*(torch_model(part) for part in parts))
    made = {
        "Linear": lambda m: nn.Linear(m.in_features, m.out_features, m.bias is not None),
        "Conv2d": lambda m: nn.Conv2d(
            m.in_channels, m.out_channels, m.kernel_size, padding=m.padding, bias=m.bias is not None
        ),
        "BatchNorm2d": lambda m: nn.BatchNorm2d(m.num_features),
        "Dropout": lambda m: nn.Dropout(m.p),
        "MaxPool2d": lambda m: nn.MaxPool2d(m.kernel_size),
        "AdaptiveAvgPool2d": lambda m: nn.AdaptiveAvgPool2d(m.output_size),
        "Flatten": lambda m: nn.Flatten(),
        "ReLU": lambda m: nn.ReLU(),
    }[kind](module)
    made.load_state_dict({name: _copied(value) for name, value in module.state_dict().items()})
    return made


def _copied(value: Any) -> Any:
    import torch

    return torch.from_numpy(value.detach().numpy().copy())


# ------------------------------------------------------------------------------------------- both sides


def measured(side: str, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """What one side says, run in a process of its own with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        told = [sys.executable, __file__, "--side", side, "--recipes", name, "--threads", str(options.threads)]
        told += ["--data", options.data] if options.data else []
        told += ["--quick"] if options.quick else []
        variables = machine.environment(options.threads, Path(cache))
        done = subprocess.run(told, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: {side} failed on {name}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def chosen_settings(name: str, quick: bool) -> Any:
    from weft import recipes

    return recipes.get(name).settings({"epochs": 1, "limit": 2000} if quick else None)


def row(name: str, options: argparse.Namespace) -> str:
    """A line of the table."""
    from weft import recipes

    weft, torch = (measured(side, name, options) for side in ("weft", "torch"))
    recipe, settings = recipes.get(name), chosen_settings(name, options.quick)
    count = sum(p.numel() for p in recipe.task(settings).parameters())
    sides = [f"{said['accuracy']:.4f} | {said['seconds']:.1f}" for said in (weft, torch)]
    faster = torch["seconds"] / weft["seconds"]
    return f"| {name} | {count:,} | {settings.epochs} | {recipe.goal.target:g} | {' | '.join(sides)} | {faster:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", default=",".join(RECIPES), help="names with commas between them")
    parser.add_argument("--data", default=os.environ.get("WEFT_DATA"), help="folder with the data files ($WEFT_DATA)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one epoch of 2,000 images")
    parser.add_argument("--side", choices=("weft", "torch"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.recipes.split(",")
    if options.side:
        run_side(options.side, names[0], options)
        return
    print(HEADER)
    print("|" + "---|" * (HEADER.count("|") - 1))
    for name in names:
        print(row(name, options), flush=True)


def run_side(side: str, name: str, options: argparse.Namespace) -> None:
    """What a process started by `measured` does."""
    if side == "torch":
        import torch

        torch.set_num_threads(options.threads)
    work = weft_side if side == "weft" else torch_side
    print(json.dumps(work(name, chosen_settings(name, options.quick), options.data)))


if __name__ == "__main__":
    main()
