"""Small data, models and loops shared by the tests of training."""

from __future__ import annotations

import numpy as np

import weft
from weft import nn
from weft.data import DataLoader, TensorDataset, load_digits
from weft.train import Supervised, Task


def digits(count: int = 1797) -> tuple[weft.Tensor, weft.Tensor]:
    """Images as rows of 64 numbers in [0, 1], and their labels; in an order that mixes the writers."""
    images, labels = load_digits()
    order = np.random.default_rng(0).permutation(len(labels))[:count]
    x = images.reshape(-1, 64)[order].astype(np.float32) / 16
    return weft.tensor(x), weft.tensor(labels[order]).long()


def loader(
    x: weft.Tensor, y: weft.Tensor, batch_size: int = 32, shuffle: bool = False, **options: object
) -> DataLoader:
    return DataLoader(TensorDataset(x, y), batch_size=batch_size, shuffle=shuffle, seed=7, **options)


def mlp(dropout: float = 0.0, hidden: int = 16) -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, 10))


def torch_mlp(model: nn.Module) -> object:
    """The same network in PyTorch, with the same weights."""
    import torch

    hidden = model[0].weight.shape[0]
    net = torch.nn.Sequential(
        torch.nn.Linear(64, hidden), torch.nn.ReLU(), torch.nn.Dropout(0.0), torch.nn.Linear(hidden, 10)
    )
    net.load_state_dict({name: torch.tensor(x.numpy()) for name, x in model.state_dict().items()})
    return net


def weights(module: weft.nn.Module) -> dict[str, np.ndarray]:
    return {name: x.detach().numpy().copy() for name, x in module.state_dict().items()}


def assert_same(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    """Equal bit for bit."""
    assert first.keys() == second.keys()
    for name in first:
        assert first[name].tobytes() == second[name].tobytes(), f"{name} differs"


class Adversaries(Task):
    """A small GAN on the line: two optimisers, by index (automatic) or by hand."""

    def __init__(self, manual: bool = False) -> None:
        super().__init__()
        self.automatic_optimization = not manual
        self.generator = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
        self.critic = nn.Sequential(nn.Linear(1, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))

    def generator_loss(self, noise: weft.Tensor) -> weft.Tensor:
        return nn.functional.softplus(-self.critic(self.generator(noise))).mean()

    def critic_loss(self, real: weft.Tensor, noise: weft.Tensor) -> weft.Tensor:
        fake = self.generator(noise).detach()
        return (nn.functional.softplus(-self.critic(real)) + nn.functional.softplus(self.critic(fake))).mean()

    def training_step(self, batch, batch_idx, optimizer_idx=None):
        (real,) = batch
        noise = weft.randn(len(real), 2)
        if self.automatic_optimization:
            loss = self.generator_loss(noise) if optimizer_idx == 0 else self.critic_loss(real, noise)
            self.log("g_loss" if optimizer_idx == 0 else "d_loss", loss)
            return loss
        for optimizer, loss_of in zip(self.optimizers(), (self.generator_loss, None), strict=True):
            optimizer.zero_grad()
            loss = loss_of(noise) if loss_of else self.critic_loss(real, noise)
            self.manual_backward(loss)
            optimizer.step()
        return None

    def configure_optimizers(self):
        return [
            weft.optim.Adam(self.generator.parameters(), lr=1e-2, betas=(0.5, 0.9)),
            weft.optim.Adam(self.critic.parameters(), lr=1e-2, betas=(0.5, 0.9)),
        ]


def supervised(model: nn.Module, make=None, **options: object) -> Supervised:
    make = make or (lambda p: weft.optim.SGD(p, lr=0.1))
    return Supervised(model, nn.functional.cross_entropy, make, **options)
