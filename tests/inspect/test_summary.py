"""The layer table against numbers worked out by hand, published ones, and PyTorch's own counter of operations."""

from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console
from torch.utils.flop_counter import FlopCounterMode

import weft
from weft import nn
from weft.inspect import summary


def le_net():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10),
    )  # fmt: skip


# kind, output shape, parameters, operations, receptive field: LeNet-5 on one 32 × 32 image, by hand
LE_NET = [
    ("Sequential", (1, 10), 0, 0, None),
    ("Conv2d", (1, 6, 28, 28), 6 * 25 + 6, 2 * 25 * 6 * 28 * 28, (5, 5)),
    ("Tanh", (1, 6, 28, 28), 0, 6 * 28 * 28, (5, 5)),
    ("AvgPool2d", (1, 6, 14, 14), 0, 4 * 6 * 14 * 14, (6, 6)),
    ("Conv2d", (1, 16, 10, 10), 16 * 6 * 25 + 16, 2 * 25 * 6 * 16 * 10 * 10, (14, 14)),
    ("Tanh", (1, 16, 10, 10), 0, 1600, (14, 14)),
    ("AvgPool2d", (1, 16, 5, 5), 0, 4 * 400, (16, 16)),
    ("Flatten", (1, 400), 0, 0, None),
    ("Linear", (1, 120), 400 * 120 + 120, 2 * 400 * 120, None),
    ("Tanh", (1, 120), 0, 120, None),
    ("Linear", (1, 84), 120 * 84 + 84, 2 * 120 * 84, None),
    ("Tanh", (1, 84), 0, 84, None),
    ("Linear", (1, 10), 850, 1680, None),
]


def test_le_net_by_hand():
    found = le_net().summary((1, 1, 32, 32))
    assert [(r.kind, r.output_shape, r.parameters, r.flops, r.receptive_field) for r in found.rows] == LE_NET
    assert found.total_parameters == found.trainable_parameters == 61_706 and found.parameter_bytes == 4 * 61_706
    assert found.total_flops == sum(row[3] for row in LE_NET)


class Block(nn.Module):
    """A basic residual block whose skip is a 1 × 1 convolution with stride 2."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(64, 128, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(128)
        self.conv2 = nn.Conv2d(128, 128, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(128)
        self.down = nn.Sequential(nn.Conv2d(64, 128, 1, stride=2, bias=False), nn.BatchNorm2d(128))
        self.relu = nn.ReLU()

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + self.down(x))


def test_residual_block_by_hand():
    """Branches meet in a sum: the field is the widest, 1 → 3 → 3 + 2·2 = 7; ReLU is used, and listed, twice."""
    found = summary(Block(), (1, 64, 56, 56))
    assert found.total_parameters == 9 * 64 * 128 + 9 * 128 * 128 + 64 * 128 + 3 * 2 * 128 == 230_144
    positions = 128 * 28 * 28
    products = 2 * positions * (9 * 64 + 9 * 128 + 64)
    assert found.total_flops == products + 3 * 4 * positions + 2 * positions
    fields = {r.name: r.receptive_field for r in found.rows if r.name}
    assert fields == {
        "conv1": (3, 3), "bn1": (3, 3), "relu": (7, 7), "conv2": (7, 7), "bn2": (7, 7), "down": (1, 1), "0": (1, 1),
        "1": (1, 1),
    }  # fmt: skip
    assert [r.kind for r in found.rows].count("ReLU") == 2 and found.rows[0].receptive_field == (7, 7)


def test_dilated_strided_and_uneven_fields():
    """r' = r + (k − 1) d j along each axis, j' = j s: a stack with dilation, stride and a kernel of 1 × 5."""
    model = nn.Sequential(
        nn.Conv2d(1, 1, (1, 5)), nn.Conv2d(1, 1, 3, dilation=4), nn.MaxPool2d(3, stride=2), nn.Conv2d(1, 1, (3, 2))
    )
    fields = [r.receptive_field for r in summary(model, (1, 1, 40, 40)).rows[1:]]
    assert fields == [(1, 5), (9, 13), (11, 15), (15, 17)]
    causal = nn.Sequential(*(nn.Conv1d(1, 1, 2, dilation=2**i) for i in range(6)))
    assert summary(causal, (1, 1, 100)).rows[-1].receptive_field == (64,)


def test_fields_are_unknown_after_anything_else():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Conv1d(1, 1, 3), nn.Conv1d(1, 1, 3), nn.Conv1d(2, 1, 3)

        def forward(self, x):
            y = self.a(x)
            joined = weft.cat([y, y.tanh()], 1)
            return self.c(joined).sum() + self.b(y.flip(-1)).sum()

    fields = [r.receptive_field for r in summary(Odd(), (1, 1, 20)).rows]
    assert fields == [None, (3,), (5,), None]


def alex_net():
    """Krizhevsky's "one weird trick" variant, as torchvision publishes it."""
    conv = [(3, 64, 11, 4, 2), (64, 192, 5, 1, 2), (192, 384, 3, 1, 1), (384, 256, 3, 1, 1), (256, 256, 3, 1, 1)]
    layers = []
    for i, (a, b, k, s, p) in enumerate(conv):
        layers += [nn.Conv2d(a, b, k, stride=s, padding=p), nn.ReLU()]
        layers += [nn.MaxPool2d(3, 2)] if i in (0, 1, 4) else []
    layers += [nn.AdaptiveAvgPool2d(6), nn.Flatten(), nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU()]
    return nn.Sequential(*layers, nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))


def vgg(config):
    layers, channels = [], 3
    for width in config:
        layers += [nn.MaxPool2d(2)] if width == "M" else [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
        channels = channels if width == "M" else width
    layers += [nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers)


VGG_11 = [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"]
VGG_16 = [64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"]


@pytest.fixture
def without_values(monkeypatch):
    """Only shapes matter here: leave the memory of a hundred million weights untouched."""
    for name in ("kaiming_uniform_", "uniform_"):
        monkeypatch.setattr(nn.init, name, lambda tensor, *_, **__: tensor)


@pytest.mark.parametrize(
    "build, published",
    [(alex_net, 61_100_840), (lambda: vgg(VGG_11), 132_863_336), (lambda: vgg(VGG_16), 138_357_544)],
    ids=["AlexNet", "VGG-11", "VGG-16"],
)
def test_published_parameter_counts(build, published, without_values):
    found = build().summary()
    assert found.total_parameters == published == sum(row.parameters for row in found.rows)
    assert found.total_flops == 0 and "FLOPs of" not in str(found)


def test_published_operations_and_field_of_alex_net(without_values):
    """0.71 G multiply-adds, and a field of 195 pixels before the classifier."""
    found = alex_net().summary((1, 3, 224, 224))
    products = sum(r.flops for r in found.rows if r.kind in ("Conv2d", "Linear")) / 2
    assert products == pytest.approx(0.71e9, rel=0.01)
    assert next(r for r in reversed(found.rows) if r.kind == "MaxPool2d").receptive_field == (195, 195)


# layer in both libraries, shapes of its inputs, how it is called
COUNTED = {
    "Linear": (lambda n: n.Linear(5, 7), [(3, 4, 5)]),
    "Conv1d": (lambda n: n.Conv1d(4, 6, 3, stride=2, dilation=2), [(2, 4, 20)]),
    "Conv2d with groups": (lambda n: n.Conv2d(4, 6, (3, 2), groups=2, padding=1), [(2, 4, 9, 8)]),
    "Conv3d": (lambda n: n.Conv3d(2, 3, 3), [(1, 2, 5, 6, 7)]),
    "ConvTranspose1d": (lambda n: n.ConvTranspose1d(4, 6, 3, stride=2), [(2, 4, 5)]),
    "ConvTranspose2d with groups": (lambda n: n.ConvTranspose2d(4, 6, 4, 2, 1, groups=2), [(2, 4, 5, 6)]),
    "RNN": (lambda n: n.RNN(4, 5, num_layers=2), [(7, 3, 4)]),
    "LSTM": (lambda n: n.LSTM(4, 5, bidirectional=True, batch_first=True), [(3, 7, 4)]),
    "LSTM with projection": (lambda n: n.LSTM(4, 5, proj_size=2), [(7, 3, 4)]),
    "GRU": (lambda n: n.GRU(4, 5), [(7, 4)]),
    "LSTMCell": (lambda n: n.LSTMCell(4, 5), [(3, 4)]),
    "MultiheadAttention": (lambda n: n.MultiheadAttention(8, 2), [(5, 3, 8), (7, 3, 8), (7, 3, 8)]),
    "MultiheadAttention, other sizes": (
        lambda n: n.MultiheadAttention(8, 2, kdim=6, vdim=4, batch_first=True),
        [(3, 5, 8), (3, 7, 6), (3, 7, 4)],
    ),
    "MultiheadAttention, longer keys": (
        lambda n: n.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True),
        [(5, 3, 8), (7, 3, 8), (7, 3, 8)],
    ),
    "Transformer": (lambda n: n.Transformer(8, 2, 1, 1, 16, batch_first=True), [(3, 5, 8), (3, 4, 8)]),
}


@pytest.mark.parametrize("build, shapes", COUNTED.values(), ids=COUNTED)
def test_products_are_those_that_pytorch_counts(build, shapes):
    theirs = build(torch.nn).double()
    with FlopCounterMode(display=False) as counter:
        theirs(*(torch.zeros(s, dtype=torch.float64) for s in shapes))
    found = summary(build(nn), *shapes)
    cheap = ("LayerNorm", "ReLU")
    assert sum(r.flops for r in found.rows if r.kind not in cheap) == counter.get_total_flops() > 0
    assert found.total_parameters == sum(p.numel() for p in theirs.parameters())


PER_ELEMENT = {
    "BatchNorm2d": (nn.BatchNorm2d(3), 4),
    "BatchNorm2d without running statistics": (nn.BatchNorm2d(3, track_running_stats=False), 7),
    "LayerNorm": (nn.LayerNorm(4), 7),
    "LayerNorm without weights": (nn.LayerNorm(4, elementwise_affine=False), 5),
    "GroupNorm": (nn.GroupNorm(3, 3), 7),
    "RMSNorm": (nn.RMSNorm(4), 4),
    "GELU": (nn.GELU(), 1),
    "Dropout": (nn.Dropout(), 0),
}


@pytest.mark.parametrize("layer, each", PER_ELEMENT.values(), ids=PER_ELEMENT)
def test_cheap_layers_count_by_element(layer, each):
    assert summary(layer, (2, 3, 4, 4)).total_flops == each * 96


def test_depth_packed_sequences_types_and_shared_parameters():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.rnn = nn.Embedding(10, 4), nn.GRU(4, 4)
            self.decoder = nn.Linear(4, 10, bias=False)
            self.decoder.weight = self.embedding.weight
            self.scale = nn.Parameter(weft.ones(1), requires_grad=False)

        def forward(self, tokens):
            packed = nn.utils.rnn.pack_padded_sequence(self.embedding(tokens), [3, 2])
            hidden, _ = self.rnn(packed)
            return self.decoder(hidden.data) * self.scale

    found = summary(Tied(), (3, 2), dtypes=[weft.int64])
    assert [(r.kind, r.output_shape, r.parameters, r.flops) for r in found.rows] == [
        ("Tied", (5, 10), 1, 0), ("Embedding", (3, 2, 4), 40, 0), ("GRU", (5, 4), 120, 2 * 5 * 96),
        ("Linear", (5, 10), 0, 2 * 5 * 40),
    ]  # fmt: skip
    assert (found.total_parameters, found.trainable_parameters) == (161, 160)
    shallow = summary(Tied(), (3, 2), dtypes=[weft.int64], depth=0)
    assert [(r.kind, r.parameters, r.flops) for r in shallow.rows] == [("Tied", 161, found.total_flops)]


def test_the_model_is_as_before():
    """Mode, hooks, running statistics and the random stream are untouched, also when the model fails."""
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout())
    model[1].eval()
    before, state = weft.get_rng_state(), {k: v.clone() for k, v in model.state_dict().items()}
    model.summary((4, 2))
    with pytest.raises(RuntimeError):
        model.summary((4, 5))
    assert (weft.get_rng_state() == before).all() and [m.training for m in model] == [True, False, True]
    assert all((v == state[k]).all() for k, v in model.state_dict().items())
    assert not any(hooks for m in model.modules() for hooks in m.__dict__.get("_hooks", {}).values())
    assert all(p.grad is None for p in model.parameters())


def test_plain_text_and_terminal(capsys):
    table = le_net().summary((1, 1, 32, 32))
    text = str(table)
    assert (
        "\x1b" not in text and "61,706" in text and "14 × 14" in text and "[1, 16, 10, 10]" in text and "480 k" in text
    )
    table.show()
    assert "\x1b" not in capsys.readouterr().out
    screen = io.StringIO()
    Console(file=screen, force_terminal=True, color_system="standard").print(table.table())
    assert "\x1b[36mConv2d" in screen.getvalue()


def test_own_part_named_summary_comes_first():
    class Ported(nn.Module):
        def __init__(self):
            super().__init__()
            self.summary = nn.Linear(2, 1)

        def forward(self, x):
            return self.summary(x)

    model = Ported()
    assert model(weft.ones(3, 2)).shape == (3, 1) and list(model.state_dict()) == ["summary.weight", "summary.bias"]
    assert summary(model, weft.ones(3, 2)).rows[1].name == "summary"


def test_inputs_that_are_neither_tensor_nor_size():
    with pytest.raises(TypeError, match="an input must be a tensor or a size"):
        summary(nn.Linear(1, 1), "x")
