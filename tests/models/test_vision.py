"""Vision models against published sizes and torchvision: keys, values, gradients, initial values, files."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import weft
from tests.models.torchvision_models import difference, outputs, same_weights, torchvision_models
from weft import nn
from weft.errors import OptionError, ShapeError
from weft.models import supervised as ours
from weft.models.pretrained.torchvision import TORCHVISION
from weft.models.vision.convnext import stages
from weft.models.vision.vgg import make_layers

# Papers: LeCun 1998; He 2015 (0.27, 0.46, 0.66, 0.85, 1.7, 19.4 million); He 2016 (1.7); Zagoruyko 2016 (11.0, 36.5,
# 8.9); Howard 2017 (4.2, exactly Keras's trainable count); Touvron 2020 (DeiT: 5.7, 22). Others: torchvision's tables.
PUBLISHED: dict[str, int] = {
    "LeNet5": 61_706,
    "LeNet5Original": 60_000,
    "alexnet": 61_100_840,
    "vgg11": 132_863_336,
    "vgg11_bn": 132_868_840,
    "vgg13": 133_047_848,
    "vgg13_bn": 133_053_736,
    "vgg16": 138_357_544,
    "vgg16_bn": 138_365_992,
    "vgg19": 143_667_240,
    "vgg19_bn": 143_678_248,
    "googlenet": 6_624_904,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "resnext50_32x4d": 25_028_904,
    "resnext101_32x8d": 88_791_336,
    "resnext101_64x4d": 83_455_272,
    "wide_resnet50_2": 68_883_240,
    "wide_resnet101_2": 126_886_696,
    "resnet20": 269_722,
    "resnet32": 464_154,
    "resnet44": 658_586,
    "resnet56": 853_018,
    "resnet110": 1_727_962,
    "resnet1202": 19_421_274,
    "preresnet110": 1_730_522,
    "preresnet164": 1_703_258,
    "wide_resnet16_8": 10_961_370,
    "wide_resnet28_10": 36_479_194,
    "wide_resnet40_4": 8_949_210,
    "densenet121": 7_978_856,
    "densenet161": 28_681_000,
    "densenet169": 14_149_480,
    "densenet201": 20_013_928,
    "mobilenet_v1": 4_231_976,
    "mobilenet_v2": 3_504_872,
    "convnext_tiny": 28_589_128,
    "convnext_small": 50_223_688,
    "convnext_base": 88_591_464,
    "convnext_large": 197_767_336,
    "vit_ti_16": 5_717_416,
    "vit_s_16": 22_050_664,
    "vit_b_16": 86_567_656,
    "vit_b_32": 88_224_232,
    "vit_l_16": 304_326_632,
    "vit_l_32": 306_535_400,
    "vit_h_14": 632_045_800,
}


def empty(name: str, **options: Any) -> nn.Module:
    """A model by name whose memory is reserved and never touched: cheap at every size."""
    with nn.init.skipping():
        return getattr(ours, name)(**options)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts(name: str) -> None:
    model = empty(name, **({"aux_logits": False} if name == "googlenet" else {}))
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[name]


@pytest.mark.parametrize("name", TORCHVISION)
def test_keys_and_shapes_are_torchvisions(name: str) -> None:
    """Every model of one family, in the order of the state dict, and the count that torchvision documents."""
    models = torchvision_models()
    for model in TORCHVISION[name]:
        with torch.device("meta"):
            options = {"init_weights": False} if model == "googlenet" else {}
            theirs = {key: tuple(value.shape) for key, value in models.get_model(model, **options).state_dict().items()}
        assert [*theirs.items()] == [(key, tuple(v.shape)) for key, v in empty(model).state_dict().items()], model
        documented = {entry.meta["num_params"] for entry in models.get_model_weights(model)}
        assert PUBLISHED[model] in documented, model


# ------------------------------------------------------------------------------------------- values and gradients


def small_linear(theirs: Any, sizes: dict[int, tuple[int, int]]) -> Any:
    """Put small linear layers where torchvision has fixed large ones (made on the "meta" device, so never filled)."""
    for place, size in sizes.items():
        theirs.classifier[place] = torch.nn.Linear(*size)
    return theirs


def alexnet_pair(models: Any) -> tuple[Any, nn.Module]:
    widths = (3, 8, 12, 16, 8, 8)
    with torch.device("meta"):
        theirs = models.alexnet(dropout=0.0)
    for place, (a, b) in zip((0, 3, 6, 8, 10), itertools.pairwise(widths), strict=True):
        old = theirs.features[place]
        theirs.features[place] = torch.nn.Conv2d(a, b, old.kernel_size, old.stride, old.padding)
    theirs = small_linear(theirs, {1: (8 * 36, 20), 4: (20, 20), 6: (20, 5)})
    return theirs, ours.AlexNet(5, 0.0, channels=widths[1:], hidden=20)


def vgg_pair(models: Any, batch_norm: bool) -> tuple[Any, nn.Module]:
    plan = [8, "M", 12, 8, "M"]
    with torch.device("meta"):
        theirs = models.VGG(torch.nn.Sequential(), init_weights=False, dropout=0.0)
    theirs.features = models.vgg.make_layers(plan, batch_norm)
    theirs = small_linear(theirs, {0: (8 * 49, 20), 3: (20, 20), 6: (20, 5)})
    return theirs, ours.VGG(make_layers(plan, batch_norm), 5, dropout=0.0, hidden=20)


def resnet_pair(models: Any, block: str, layers: list[int], **options: Any) -> tuple[Any, nn.Module]:
    theirs = models.ResNet(getattr(models.resnet, block), layers, num_classes=5, **options)
    return theirs, ours.ResNet(getattr(ours, block), layers, num_classes=5, **options)


def googlenet_pair(models: Any) -> tuple[Any, nn.Module]:
    options = {"num_classes": 5, "transform_input": True, "dropout": 0.0, "dropout_aux": 0.0}
    return models.GoogLeNet(init_weights=False, **options), ours.GoogLeNet(init_weights=False, **options)


def both(name: str, **options: Any) -> Callable[[Any], tuple[Any, nn.Module]]:
    return lambda models: (getattr(models, name)(**options), getattr(ours, name)(**options))


def convnext_pair(models: Any) -> tuple[Any, nn.Module]:
    setting = [models.convnext.CNBlockConfig(16, 24, 2), models.convnext.CNBlockConfig(24, None, 1)]
    options = {"layer_scale": 0.5, "num_classes": 5}
    return models.ConvNeXt(setting, **options), ours.ConvNeXt(stages((16, 24), (2, 1)), **options)


VIT = {"image_size": 32, "patch_size": 8, "num_layers": 2, "num_heads": 4, "hidden_dim": 32, "mlp_dim": 48}
PAIRS: dict[str, tuple[Callable[[Any], tuple[Any, nn.Module]], int]] = {
    "alexnet": (alexnet_pair, 70),
    "vgg": (lambda models: vgg_pair(models, False), 33),
    "vgg_bn": (lambda models: vgg_pair(models, True), 33),
    "resnet": (lambda models: resnet_pair(models, "BasicBlock", [2, 1, 1, 1]), 65),
    "resnext": (lambda models: resnet_pair(models, "Bottleneck", [1, 2, 1, 1], groups=4, width_per_group=8), 64),
    "resnet_dilated": (
        lambda models: resnet_pair(
            models, "Bottleneck", [1, 1, 2, 1], replace_stride_with_dilation=[False, True, True]
        ),
        40,
    ),
    "googlenet": (googlenet_pair, 64),
    "densenet": (both("DenseNet", growth_rate=8, block_config=(2, 3), num_init_features=12, num_classes=5), 40),
    "mobilenet_v2": (
        both(
            "MobileNetV2",
            num_classes=5,
            width_mult=0.5,
            dropout=0.0,
            inverted_residual_setting=[[1, 16, 1, 1], [6, 24, 2, 2]],
        ),
        33,
    ),
    "convnext": (convnext_pair, 34),
    "vit": (both("VisionTransformer", **VIT, num_classes=5, representation_size=20), 32),
}


CASES = [  # what is compared in evaluation is compared in training too
    pytest.param(name, training, id=f"{name}-{'train' if training else 'eval'}", marks=marks)
    for name in PAIRS
    for training, marks in ((False, [] if name in ("vgg_bn", "resnet") else [pytest.mark.slow]), (True, []))
]


@pytest.mark.parametrize(("name", "training"), CASES)
def test_equals_torchvision(name: str, training: bool) -> None:
    """Outputs, gradients of every parameter and of the image, running statistics; then outputs in single precision.

    Gradients are compared in double precision: in single, a unit whose input is 0 up to rounding switches on or off.
    """
    torch.manual_seed(0)
    make, size = PAIRS[name]
    theirs, model = make(torchvision_models())
    same_weights(theirs, model)
    theirs.double().train(training), model.double().train(training)
    image = torch.randn(4, 3, size, size, dtype=torch.float64, requires_grad=True)
    x = weft.from_numpy(image.detach().numpy().copy()).requires_grad_()
    want, got = outputs(theirs, image), outputs(model, x)
    assert len(got) == len(want)
    assert max(map(difference, got, want)) <= 1e-8
    directions = [torch.randn_like(y) for y in want]
    torch.autograd.backward(want, directions)
    sum((y * weft.from_numpy(d.numpy())).sum() for y, d in zip(got, directions, strict=True)).backward()
    assert difference(x.grad, image.grad) <= 1e-8
    for (key, p), q in zip(theirs.named_parameters(), model.parameters(), strict=True):
        if p.grad is None:
            assert q.grad is None, key  # auxiliary classifiers in evaluation
        else:
            assert difference(q.grad, p.grad) <= 1e-8, key
    for (key, p), q in zip(theirs.named_buffers(), model.buffers(), strict=True):
        assert difference(q, p) <= 1e-8, key
    want, got = outputs(theirs.float(), image.detach().float()), outputs(model.float(), x.detach().float())
    assert max(map(difference, got, want)) <= 1e-4


FULL = (
    "resnet18",
    "resnet50",
    "resnext50_32x4d",
    "densenet121",
    "mobilenet_v2",
    "convnext_tiny",
    "alexnet",
    "vgg11_bn",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", FULL)
def test_whole_models_equal_torchvision(name: str) -> None:
    """Scores of the models as they are named, with torchvision's initial weights."""
    torch.manual_seed(0)
    theirs, model = torchvision_models().get_model(name, num_classes=10).eval(), empty(name, num_classes=10).eval()
    model.load_state_dict(weft.io.from_torch(theirs.state_dict()))
    image = torch.randn(1, 3, 96, 96)
    with torch.no_grad(), weft.no_grad():
        assert difference(model(weft.from_numpy(image.numpy())), theirs(image)) <= 1e-4


INITIAL = [*(name for name in PAIRS if name not in ("alexnet", "vgg", "vgg_bn", "googlenet"))]


@pytest.mark.parametrize("name", INITIAL)
def test_initial_values_are_torchvisions(name: str) -> None:
    """Mean and spread of every parameter agree within five standard errors of a sample of its size."""
    torch.manual_seed(0)
    weft.manual_seed(0)
    theirs, model = PAIRS[name][0](torchvision_models())
    for (key, p), q in zip(theirs.named_parameters(), model.parameters(), strict=True):
        want, got = p.detach().numpy(), q.detach().numpy()
        scale = float(want.std())
        error = 5 * scale / np.sqrt(want.size)
        assert abs(got.mean() - want.mean()) <= 1.5 * error + 1e-9, key
        assert abs(got.std() - scale) <= error + 1e-9, key


def test_initial_values_of_fixed_sizes() -> None:
    """VGG (He's fan-out rule, N(0, 0.01²)) and GoogLeNet (N(0, 0.01²), biases of linear layers as they come)."""
    weft.manual_seed(0)
    vgg, inception = ours.VGG(make_layers([64]), 10, hidden=50), ours.GoogLeNet(10, width_mult=0.25)
    assert float(vgg.features[0].weight.std()) == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.1)
    assert float(vgg.classifier[0].weight.std()) == pytest.approx(0.01, rel=0.02)
    assert not vgg.classifier[0].bias.any() and not vgg.features[0].bias.any()
    assert float(inception.inception5b.branch2[1].conv.weight.std()) == pytest.approx(0.01, rel=0.02)
    assert inception.fc.bias.any()


def test_zero_init_residual_starts_as_the_shortcuts() -> None:
    model = ours.ResNet(ours.BasicBlock, (1, 1, 1, 1), 5, zero_init_residual=True, width=8)
    x = weft.randn(2, 8, 8, 8).relu()
    np.testing.assert_array_equal(model.layer1(x).detach().numpy(), x.numpy())


# ------------------------------------------------------------------------------------------- files


@pytest.fixture(scope="module")
def mobilenet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """torchvision's MobileNetV2 for 7 classes and its state dict in a file."""
    torch.manual_seed(0)
    theirs = torchvision_models().mobilenet_v2(num_classes=7).eval()
    file = tmp_path_factory.mktemp("weights") / "mobilenet.pth"
    torch.save(theirs.state_dict(), file)
    return theirs, file


@pytest.mark.parametrize("form", ["plain", "legacy", "wrapped", "parallel", "safetensors"])
def test_files_of_torchvision(mobilenet: tuple[Any, Path], tmp_path: Path, form: str) -> None:
    theirs, file = mobilenet
    state = theirs.state_dict()
    if form == "legacy":
        torch.save(state, file := tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    elif form == "wrapped":
        torch.save({"epoch": 3, "model": state}, file := tmp_path / "checkpoint.pth")
    elif form == "parallel":
        torch.save({f"module.{key}": value for key, value in state.items()}, file := tmp_path / "parallel.pth")
    elif form == "safetensors":
        file = tmp_path / "mobilenet.safetensors"
        weft.io.save_file({key: weft.from_numpy(value.numpy().copy()) for key, value in state.items()}, file)
    model = ours.from_torchvision("mobilenet_v2", file).eval()
    image = torch.randn(2, 3, 32, 32)
    with torch.no_grad(), weft.no_grad():
        assert difference(model(weft.from_numpy(image.numpy())), theirs(image)) <= 1e-4


def test_every_wrong_key_is_named(mobilenet: tuple[Any, Path], tmp_path: Path) -> None:
    """Missing, unexpected and mis-shaped keys in one error; with another number of classes the head is mis-shaped."""
    theirs, file = mobilenet
    state = theirs.state_dict()
    state["features.0.0.weights"] = state.pop("features.0.0.weight")
    state["features.1.conv.1.weight"] = torch.zeros(16, 16, 1, 1)
    torch.save(state, tmp_path / "wrong.pth")
    with pytest.raises(RuntimeError) as error:
        ours.from_torchvision("mobilenet_v2", tmp_path / "wrong.pth")
    said = str(error.value)
    assert 'Missing key(s) in state_dict: "features.0.0.weight".' in said
    assert 'Unexpected key(s) in state_dict: "features.0.0.weights".' in said
    assert re.search(r"size mismatch for features\.1\.conv\.1\.weight.*16, 16, 1, 1.*16, 32, 1, 1", said)
    with pytest.raises(RuntimeError, match=r"size mismatch for classifier\.1\.weight.*7, 1280.*10, 1280"):
        ours.mobilenet_v2(weights=file, num_classes=10)


def test_files_that_are_no_state_dict(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="did you mean 'resnet18'"):
        ours.from_torchvision("resnet_18", "x.pth")
    with pytest.raises(FileNotFoundError, match="Weft downloads none"):
        ours.resnet18(weights="IMAGENET1K_V1")
    torch.save({"epoch": 3}, tmp_path / "epoch.pth")
    with pytest.raises(OptionError, match="expected a state dict, names with tensors, got dict with 'epoch'"):
        ours.from_torchvision("resnet18", tmp_path / "epoch.pth")
    torch.save({"a": torch.zeros(3)}, tmp_path / "vector.pth")
    with pytest.raises(OptionError, match="number of classes is unknown"):
        ours.from_torchvision("resnet18", tmp_path / "vector.pth")


def test_names_in_torchvisions_old_files() -> None:
    """ImageNet's files have norm.1 for norm1 (DenseNet), linear_1 for 0 (ViT), and do not count batches."""
    options = {"growth_rate": 4, "block_config": (1, 2), "num_init_features": 8, "num_classes": 3}
    first, second = ours.DenseNet(**options), ours.DenseNet(**options)
    state = {re.sub(r"(denselayer\d+\.(?:norm|conv))([12])", r"\1.\2", k): v for k, v in first.state_dict().items()}
    old = {key: value for key, value in state.items() if "num_batches" not in key}
    assert any(".norm.1." in key for key in old)
    second.load_state_dict(old)
    names = {".mlp.0.": ".mlp.linear_1.", ".mlp.3.": ".mlp.linear_2."}
    vit, other = ours.VisionTransformer(**VIT, num_classes=3), ours.VisionTransformer(**VIT, num_classes=3)
    other.load_state_dict({re.sub(r"\.mlp\.[03]\.", lambda m: names[m[0]], k): v for k, v in vit.state_dict().items()})
    for a, b in ((first, second), (vit, other)):
        for p, q in zip(a.parameters(), b.parameters(), strict=True):
            np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())


def test_options_that_follow_from_the_file(tmp_path: Path) -> None:
    """Classes from the head, auxiliary classifiers if the file has them, the size of images from the positions."""
    file, small = tmp_path / "weights.safetensors", {"num_classes": 3, "width_mult": 1 / 16}
    for auxiliary in (True, False):
        weft.io.save_file(ours.GoogLeNet(aux_logits=auxiliary, **small).state_dict(), file)
        model = ours.from_torchvision("googlenet", file, width_mult=1 / 16)
        assert (model.aux1 is not None) == auxiliary and model.fc.out_features == 3
    weft.io.save_file(ours.vit_b_32(image_size=96, num_classes=3, num_layers=1).state_dict(), file)
    model = ours.vit_b_32(weights=file, num_layers=1)
    assert model.image_size == 96 and model.heads.head.out_features == 3
    with pytest.raises(RuntimeError, match=r"size mismatch for encoder\.pos_embedding.*1, 10, 768.*1, 50, 768"):
        ours.vit_b_32(weights=file, num_layers=1, image_size=224)


def test_interpolate_embeddings() -> None:
    models = torchvision_models()
    theirs = models.VisionTransformer(**VIT, num_classes=3)
    state = {key: weft.from_numpy(value.numpy().copy()) for key, value in theirs.state_dict().items()}
    want = models.vision_transformer.interpolate_embeddings(48, 8, theirs.state_dict(), reset_heads=True)
    got = ours.interpolate_embeddings(48, 8, state, reset_heads=True)
    assert list(got) == list(want)
    assert difference(got["encoder.pos_embedding"], want["encoder.pos_embedding"]) <= 1e-5
    assert list(ours.interpolate_embeddings(32, 8, state)) == list(state)
    with pytest.raises(ShapeError, match=r"expected positions \(1, 1 \+ side², D\)"):
        ours.interpolate_embeddings(48, 8, {"encoder.pos_embedding": weft.zeros(1, 12, 4)})
