"""Vision models that torchvision does not have, parts of models, and compiled training of all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import weft
from tests.models.torchvision_models import difference, outputs, same_weights, torchvision_models
from tests.tables import slow_but
from weft import nn
from weft.errors import OptionError, ShapeError
from weft.models import supervised as ours
from weft.models.vision.blocks import StochasticDepth, make_divisible
from weft.models.vision.convnext import stages
from weft.models.vision.lenet import C3_TABLE
from weft.models.vision.vgg import make_layers

F = nn.functional
VIT = {"image_size": 32, "patch_size": 8, "num_layers": 2, "num_heads": 4, "hidden_dim": 32, "mlp_dim": 48}


def test_lenet_of_the_paper() -> None:
    """Parameters of every layer as §II.B of the paper counts them; C3 is a convolution with zeros where the table has none."""
    model = ours.LeNet5Original()
    counts = [sum(p.numel() for p in layer.parameters()) for layer in model.children()]
    assert counts == [156, 12, 1516, 32, 48120, 10164]
    assert set(np.unique(model.codes.numpy())) == {-1.0, 1.0}
    x = torch.randn(2, 1, 32, 32)
    assert difference(model(weft.from_numpy(x.numpy())), torch_lenet(x, model)) <= 1e-4
    with pytest.raises(RuntimeError):
        model(weft.zeros(2, 1, 28, 28))


def torch_lenet(x: Any, model: ours.LeNet5Original) -> Any:
    T, w = torch.nn.functional, {key: torch.from_numpy(value.numpy()) for key, value in model.state_dict().items()}
    squash = lambda a: 1.7159 * torch.tanh(2 / 3 * a)
    pool = lambda z, name: squash(T.avg_pool2d(z, 2) * w[f"{name}.weight"] + w[f"{name}.bias"])
    kernel = torch.zeros(16, 6, 5, 5)
    for number, maps in enumerate(C3_TABLE):
        kernel[number, list(maps)] = w[f"c3.{number}.weight"][0]
    bias = torch.cat([w[f"c3.{number}.bias"] for number in range(16)])
    x = pool(squash(T.conv2d(x, w["c1.weight"], w["c1.bias"])), "s2")
    x = pool(squash(T.conv2d(x, kernel, bias)), "s4")
    x = squash(T.conv2d(x, w["c5.weight"], w["c5.bias"])).flatten(1)
    return -(torch.cdist(squash(T.linear(x, w["f6.weight"], w["f6.bias"])), w["codes"]) ** 2)


def torch_cifar_resnet(models: Any, widths: list[int]) -> Any:
    """He et al. 2015 §4.2 from torchvision's blocks, with projections ("B")."""
    block, layers, before = models.resnet.BasicBlock, torch.nn.Sequential(), widths[0]
    layers.add_module("conv1", torch.nn.Conv2d(3, before, 3, padding=1, bias=False))
    layers.add_module("bn1", torch.nn.BatchNorm2d(before))
    layers.add_module("relu", torch.nn.ReLU())
    for number, width in enumerate(widths, 1):
        join = (
            None
            if number == 1
            else torch.nn.Sequential(torch.nn.Conv2d(before, width, 1, 2, bias=False), torch.nn.BatchNorm2d(width))
        )
        stage = torch.nn.Sequential(block(before, width, 1 if number == 1 else 2, join), block(width, width))
        layers.add_module(f"layer{number}", stage)
        before = width
    layers.add_module("pool", torch.nn.AdaptiveAvgPool2d(1))
    layers.add_module("flat", torch.nn.Flatten())
    layers.add_module("fc", torch.nn.Linear(before, 10))
    return layers


def test_cifar_resnet() -> None:
    theirs = torch_cifar_resnet(torchvision_models(), [8, 16, 32])
    model = ours.CifarResNet((2, 2, 2), widths=(8, 16, 32), shortcut="B")
    same_weights(theirs, model)
    x = torch.randn(3, 3, 32, 32)
    assert difference(model(weft.from_numpy(x.numpy())), theirs(x)) <= 1e-4
    with pytest.raises(OptionError, match="shortcut must be 'A' or 'B', got 'C'"):
        ours.resnet20(shortcut="C")


def test_padded_shortcut() -> None:
    """Option A keeps every second pixel and adds channels of zeros; sizes that are odd round up as convolutions do."""
    model = ours.CifarResNet((1, 1), widths=(4, 6))
    x = weft.randn(2, 4, 7, 7)
    y = model.layer2[0].downsample(x)
    np.testing.assert_array_equal(y[:, :4].numpy(), x.numpy()[:, :, ::2, ::2])
    assert y.shape == (2, 6, 4, 4) and not y[:, 4:].any()
    assert model(weft.randn(2, 3, 7, 7)).shape == (2, 10)


def torch_preact(x: Any, weights: dict[str, Any], stride: int) -> Any:
    """One pre-activation block in PyTorch's functions, in evaluation."""
    T = torch.nn.functional
    norm = lambda z, n: T.batch_norm(
        z, *(weights[f"{n}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
    )
    h = norm(x, "bn1").relu()
    y = T.conv2d(h, weights["conv1.weight"], stride=stride, padding=1)
    y = T.conv2d(norm(y, "bn2").relu(), weights["conv2.weight"], padding=1)
    return y + (T.conv2d(h, weights["downsample.weight"], stride=stride) if "downsample.weight" in weights else x)


@pytest.mark.parametrize(("inputs", "outputs", "stride"), [(4, 4, 1), (4, 6, 1), (4, 6, 2), (4, 4, 2)])
def test_pre_activation(inputs: int, outputs: int, stride: int) -> None:
    block = ours.PreActBlock(inputs, outputs, stride, dropout=0.3).eval()
    for buffer in block.buffers():
        buffer += weft.rand(buffer.shape).to(buffer.dtype)
    x = torch.randn(2, inputs, 8, 8)
    weights = {key: torch.from_numpy(value.numpy()) for key, value in block.state_dict().items()}
    assert difference(block(weft.from_numpy(x.numpy())), torch_preact(x, weights, stride)) <= 1e-5


def test_wide_resnet_depths() -> None:
    assert sum(p.numel() for p in ours.wide_resnet(10, 1).parameters()) == 77_850
    with pytest.raises(OptionError, match="6 n \\+ 4"):
        ours.wide_resnet(20, 2)


@pytest.mark.parametrize("mode", ["row", "batch"])
def test_stochastic_depth(mode: str) -> None:
    """Rows are 0 or x / (1 − p); the share of zeros is p; nothing happens in evaluation or at p = 0."""
    weft.manual_seed(0)
    layer, x = StochasticDepth(0.3, mode), weft.ones(2000, 2)
    y = layer(x).numpy() if mode == "row" else np.stack([layer(x[:1]).numpy()[0] for _ in range(2000)])
    assert set(np.unique(y.round(5))) == {0.0, np.float32(1 / 0.7).round(5)}
    assert (y[:, 0] == y[:, 1]).all()
    assert (y == 0).mean() == pytest.approx(0.3, abs=5 * (0.21 / 2000) ** 0.5)
    assert layer.eval()(x) is x and StochasticDepth(0.0)(x) is x
    with pytest.raises(OptionError, match="0 <= p <= 1"):
        StochasticDepth(1.5)


@pytest.mark.parametrize("channels", [3, 8.1, 12, 18, 19.2, 44, 100.7])
def test_make_divisible(channels: float) -> None:
    assert make_divisible(channels) == torchvision_models()._utils._make_divisible(channels, 8)


def test_inputs_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"expected images \(B, C, 32, 32\), got \(1, 3, 16, 16\)"):
        ours.VisionTransformer(**VIT)(weft.zeros(1, 3, 16, 16))
    with pytest.raises(OptionError, match="no multiple of patch_size"):
        ours.VisionTransformer(**VIT | {"image_size": 30})
    with pytest.raises(OptionError, match="expected 4 numbers of blocks"):
        ours.ResNet(ours.BasicBlock, [2, 2])
    with pytest.raises(OptionError, match="options of Bottleneck"):
        ours.resnet18(groups=2)
    with pytest.raises(OptionError, match="CNBlockConfig"):
        ours.ConvNeXt([])
    with pytest.raises(OptionError, match="stride of 1 or 2"):
        ours.MobileNetV2(inverted_residual_setting=[[1, 16, 1, 3]])


# ------------------------------------------------------------------------------------------- compiled


def tiny_vgg(batch_norm: bool) -> nn.Module:
    return ours.VGG(make_layers([8, "M", 8, "M"], batch_norm), 10, dropout=0.0, hidden=16)


SETTING = [[1, 16, 1, 1], [6, 24, 2, 2]]
TINY: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "lenet": (ours.LeNet5, (4, 1, 28, 28)),
    "lenet_original": (ours.LeNet5Original, (4, 1, 32, 32)),
    "alexnet": (lambda: ours.AlexNet(10, 0.0, channels=(8,) * 5, hidden=16), (4, 3, 64, 64)),
    "vgg": (lambda: tiny_vgg(False), (4, 3, 32, 32)),
    "vgg_bn": (lambda: tiny_vgg(True), (4, 3, 32, 32)),
    "googlenet": (lambda: ours.GoogLeNet(10, width_mult=1 / 128, dropout=0.0, dropout_aux=0.0), (8, 3, 64, 64)),
    "resnet": (lambda: ours.ResNet(ours.BasicBlock, (1,) * 4, 10, width=8), (4, 3, 40, 40)),
    "resnext": (
        lambda: ours.ResNet(ours.Bottleneck, (1,) * 4, 10, width=4, groups=4, width_per_group=32),
        (4, 3, 40, 40),
    ),
    "cifar_resnet": (lambda: ours.CifarResNet((1, 1, 1), widths=(8, 16, 32)), (4, 3, 16, 16)),
    "preact": (lambda: ours.PreActResNet(ours.PreActBottleneck, (1, 1), widths=(8, 16)), (4, 3, 16, 16)),
    "wide": (lambda: ours.wide_resnet(10, 1, dropout=0.0), (4, 3, 16, 16)),
    "densenet": (lambda: ours.DenseNet(8, (2, 2), 16, 2, num_classes=10), (4, 3, 32, 32)),
    "mobilenet_v1": (lambda: ours.MobileNetV1(10, 0.25, ((64, 1), (128, 2)), dropout=0.0), (4, 3, 32, 32)),
    "mobilenet_v2": (lambda: ours.MobileNetV2(10, 0.25, SETTING, dropout=0.0, last_channel=32), (4, 3, 32, 32)),
    "convnext": (lambda: ours.ConvNeXt(stages((16, 32), (1, 1)), layer_scale=0.5, num_classes=10), (4, 3, 32, 32)),
    "vit": (lambda: ours.VisionTransformer(16, 4, 2, 2, 16, 32, num_classes=10), (4, 3, 16, 16)),
}


def train(name: str, compiled: bool) -> tuple[list[float], list[np.ndarray]]:
    """Losses and final weights of ten steps of SGD with momentum."""
    weft.manual_seed(0)
    make, shape = TINY[name]
    model = make()
    optimizer = weft.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    x, y = weft.randn(*shape), weft.randint(0, 10, shape[:1])

    def step(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        scores, *auxiliary = outputs(model, x)
        loss = F.cross_entropy(scores, y) + 0.3 * sum(F.cross_entropy(other, y) for other in auxiliary)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = weft.compile(step) if compiled else step
    losses = [run(x, y).item() for _ in range(10)]
    return losses, [value.numpy().astype(np.float64) for value in model.state_dict().values()]


QUICK = {"lenet", "alexnet", "vgg_bn", "resnet", "mobilenet_v2", "vit"}  # the others take seconds to compile


@pytest.mark.parametrize("name", slow_but(QUICK, TINY))
def test_compiled_training_equals_eager(name: str) -> None:
    eager, compiled = train(name, False), train(name, True)
    np.testing.assert_allclose(compiled[0], eager[0], atol=1e-4, rtol=1e-4)
    assert eager[0][-1] < eager[0][0]
    for got, want in zip(compiled[1], eager[1], strict=True):
        np.testing.assert_allclose(got, want, atol=1e-4, rtol=1e-4)
