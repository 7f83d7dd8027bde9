"""Fit a two-layer network to handwritten digits with nothing but tensors and autograd: `make demo`.

The forward pass, the loss, the gradient step and the test each fit in a few lines; the names are
PyTorch's. The test set is every fifth image, so the same people wrote both parts of the data.
"""

import argparse
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import weft
from weft.data import load_digits

HIDDEN = 128
BATCH = 32
LEARNING_RATE = 0.3

Split = tuple[weft.Tensor, weft.Tensor]


def main(arguments: list[str] | None = None) -> float:
    """Train, report, and return the accuracy on the test images."""
    parser = argparse.ArgumentParser(prog="python -m weft.demo", description="Fit a network to 8×8 digits.")
    parser.add_argument("--epochs", type=int, default=60, help="passes over the training images (60)")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and order (0)")
    options = parser.parse_args(arguments)
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {options.epochs}")

    console = Console()
    weft.manual_seed(options.seed)
    train, test = load_split()
    parameters = initialise(inputs=64, hidden=HIDDEN, classes=10)
    console.print(
        f"Digits: {len(train[0])} images to learn from, {len(test[0])} to test; network 64-{HIDDEN}-10, relu."
    )
    started = time.perf_counter()
    fit(parameters, train, options.epochs, console)
    seconds = time.perf_counter() - started
    correct = accuracy(parameters, test)
    console.print(f"Trained {options.epochs} epochs in {seconds:.1f} s. Test accuracy {correct:.4f}")
    return correct


def load_split() -> tuple[Split, Split]:
    """Training and test images as rows of 64 values in [-½, ½], with their labels."""
    images, labels = load_digits()
    x = weft.tensor(images.reshape(-1, 64), dtype=weft.float32) / 16 - 0.5  # (1797, 8, 8) → (1797, 64)
    y = weft.tensor(labels, dtype=weft.int64)
    for_test = weft.arange(len(y)) % 5 == 0
    return (x[~for_test], y[~for_test]), (x[for_test], y[for_test])


def initialise(inputs: int, hidden: int, classes: int) -> list[weft.Tensor]:
    """Weights W₁, b₁, W₂, b₂ with the variance that keeps the size of activations (He et al. 2015)."""
    parameters = [
        weft.randn(inputs, hidden) * (2 / inputs) ** 0.5,
        weft.zeros(hidden),
        weft.randn(hidden, classes) * (1 / hidden) ** 0.5,
        weft.zeros(classes),
    ]
    return [p.requires_grad_() for p in parameters]


def predict(parameters: list[weft.Tensor], x: weft.Tensor) -> weft.Tensor:
    """Log-probabilities of the classes, log softmax(relu(x W₁ + b₁) W₂ + b₂): (B, 64) → (B, 10)."""
    w1, b1, w2, b2 = parameters
    return weft.log_softmax(weft.relu(x @ w1 + b1) @ w2 + b2, dim=1)


def fit(parameters: list[weft.Tensor], train: Split, epochs: int, console: Console) -> None:
    """Stochastic gradient descent on the mean negative log-likelihood, the rate falling to zero."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("training", total=epochs)
        for epoch in range(epochs):
            rate = LEARNING_RATE * (1 - epoch / epochs)
            losses = [step(parameters, x, y, rate) for x, y in batches(train)]
            mean_loss = sum(losses) / len(losses)
            progress.update(bar, advance=1, description=f"loss {mean_loss:.4f}")


def batches(split: Split) -> Iterator[Split]:
    """The images in random order, `BATCH` at a time."""
    x, y = split
    for chosen in weft.randperm(len(y)).split(BATCH):
        yield x[chosen], y[chosen]


def step(parameters: list[weft.Tensor], x: weft.Tensor, y: weft.Tensor, rate: float) -> float:
    """One gradient step; returns the loss before it."""
    likelihood = predict(parameters, x).gather(1, y[:, None])  # (B, 10) → (B, 1)
    loss = -likelihood.mean()
    loss.backward()
    with weft.no_grad():
        for p in parameters:
            p -= rate * p.grad
            p.grad = None
    return loss.item()


def accuracy(parameters: list[weft.Tensor], split: Split) -> float:
    """The share of images whose most probable class is their label."""
    x, y = split
    with weft.no_grad():
        return (predict(parameters, x).argmax(dim=1) == y).float().mean().item()


if __name__ == "__main__":
    main()
