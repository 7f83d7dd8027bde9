"""Networks of diffusions: shapes, classes, embeddings, gradients; and means of weights that carry their buffers."""

from __future__ import annotations

import math

import pytest
import torch

import weft
from weft import nn
from weft.errors import OptionError, ShapeError
from weft.models.diffusion import DDPM, DiT, PointNetwork, UNet, timestep_embedding
from weft.optim.swa_utils import AveragedModel, get_ema_avg_fn

from .common import seeded


def awake(network: nn.Module) -> nn.Module:
    """Layers that start at 0, filled, so that nothing is hidden."""
    generator = seeded(1)
    with weft.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.3 * weft.randn(parameter.shape, generator=generator))
    return network


NETWORKS = {
    "unet": (lambda: UNet(2, 8, (1, 2), attention=(1,), out_channels=4, classes=3), (2, 9, 6)),
    "unet in patches": (lambda: UNet(2, 8, (1, 2), patch=2, out_channels=4, classes=3), (2, 10, 10)),
    "dit": (lambda: DiT(2, 8, patch=4, features=16, layers=2, heads=2, out_channels=4, classes=3), (2, 8, 8)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_have_the_size_of_images_and_depend_on_time_and_class(name):
    make, shape = NETWORKS[name]
    network = make()
    x, t, y = weft.randn(3, *shape, generator=seeded()), weft.tensor([1, 50, 900]), weft.tensor([0, 1, 3])
    assert not network(x, t, y).any()  # nothing at first: the last layer starts at 0
    network = awake(network)
    found = network(x, t, y)
    assert found.shape == (3, 4, *shape[1:]) and found.isfinite().all()
    assert not weft.allclose(network(x, t + 1, y), found) and not weft.allclose(
        network(x, t, 2 - y.clamp(max=2)), found
    )
    same = network(x, weft.tensor([50, 50, 50]), y)
    assert weft.allclose(network(x, weft.tensor([50]), y), same, atol=1e-5)  # one time for all rows
    alone = network(x[1:2], t[1:2], y[1:2])
    assert weft.allclose(alone, found[1:2], rtol=1e-3, atol=1e-4)  # no row sees another
    found.square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


@pytest.mark.parametrize("name", NETWORKS)
def test_every_output_pixel_sees_the_whole_image(name):
    make, shape = NETWORKS[name]
    network = awake(make())
    x, t, y = weft.randn(1, *shape, generator=seeded()), weft.tensor([5]), weft.tensor([1])
    slope = weft.func.grad(lambda x: network(x, t, y)[0, 0, 0, 0])(x)
    assert (slope != 0).double().mean() > 0.9


def test_times_are_told_as_sinusoids():
    """cos and sin of t at rates 10000^(−k/(F/2)), as in improved-diffusion; close times look alike, others do not."""
    t = weft.tensor([0, 3, 999])
    rates = torch.exp(-math.log(10000) * torch.arange(4) / 4)
    angles = torch.tensor([0, 3, 999])[:, None].float() * rates[None]
    expected = torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1)
    assert weft.allclose(timestep_embedding(t, 8), weft.tensor(expected.numpy()), atol=1e-4)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(OptionError, match="width in fours"):
        UNet(1, 6)
    with pytest.raises(OptionError, match="side in patches"):
        DiT(1, 9, patch=4)
    with pytest.raises(ShapeError, match="8×8"):
        DiT(1, 8)(weft.zeros(1, 1, 12, 12), weft.zeros(1))
    with pytest.raises(OptionError, match="even number"):
        timestep_embedding(weft.zeros(1), 5)


class Normalised(nn.Module):
    """A network with buffers that training moves."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm = PointNetwork(2, 8, 1), nn.BatchNorm1d(2)

    def forward(self, x, t):
        return self.inner(self.norm(x), t)


def test_a_mean_of_weights_has_the_buffers_of_its_model():
    """An EMA that copies parameters alone would sample with statistics of its first day."""
    model = DDPM(Normalised(), (2,))
    mean = AveragedModel(model, avg_fn=get_ema_avg_fn(0.9))
    adam = weft.optim.SGD(model.parameters(), lr=0.1)
    for number in range(5):
        adam.zero_grad()
        model.loss(3 + weft.randn(64, 2, generator=seeded(number)), generator=seeded(number)).backward()
        adam.step()
        mean.update_parameters(model)
    norm, kept = model.network.norm, mean.module.network.norm
    assert norm.running_mean.abs().max() > 0.1
    assert weft.allclose(kept.running_mean, norm.running_mean) and weft.allclose(kept.running_var, norm.running_var)
    assert not weft.allclose(mean.module.network.inner.last.bias, model.network.inner.last.bias)
