"""Parameter counts: N0 §1.4 against modules, and every formula against the layer itself."""

from __future__ import annotations

import itertools

import pytest

from weft import nn
from weft.errors import OptionError
from weft.inspect import mlp_parameters, parameter_counts, parameters_of_widths
from weft.models.supervised import MLP


@pytest.mark.parametrize("inputs, width, depth, outputs", [*itertools.product((1, 5), (1, 7), (1, 2, 4), (1, 3))])
def test_formula_of_the_notes_counts_modules(inputs, width, depth, outputs):
    model = MLP(inputs, [width] * depth, outputs)
    found = mlp_parameters(inputs, width, depth, outputs)
    assert found == sum(p.numel() for p in model.parameters()) == parameter_counts(model).total
    assert found == parameters_of_widths([inputs, *[width] * depth, outputs])


@pytest.mark.parametrize("width, depth", [*itertools.product((1, 3, 10), (1, 2, 5))])
def test_simplified_form_of_the_notes(width, depth):
    assert mlp_parameters(1, width, depth, 1) == 3 * width + 1 + (depth - 1) * width * (width + 1)


LAYERS = [
    nn.Linear(7, 3),
    nn.Linear(7, 3, bias=False),
    nn.Bilinear(3, 4, 5),
    nn.Conv1d(4, 6, 3),
    nn.Conv2d(4, 6, (3, 5), groups=2, bias=False),
    nn.Conv3d(2, 3, 3),
    nn.BatchNorm2d(9),
    nn.LayerNorm((4, 5)),
    nn.LayerNorm(6, bias=False),
    nn.GroupNorm(2, 8),
    nn.RMSNorm(5),
    nn.Embedding(11, 4),
    nn.MultiheadAttention(8, 2),
    nn.MultiheadAttention(8, 2, bias=False, kdim=5, vdim=3),
    nn.MultiheadAttention(8, 2, add_bias_kv=True),
    nn.RNN(5, 7),
    nn.LSTM(5, 7, 3, bidirectional=True),
    nn.GRU(5, 7, 2, bias=False),
]


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_formula_of_a_layer(layer):
    (row,) = parameter_counts(layer).layers
    assert row.expected == row.counted == sum(p.numel() for p in layer.parameters())
    assert eval(row.formula.replace("·", "*")) == row.counted


def test_shared_and_unknown_parameters_count_once():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(nn.Linear(3, 4).weight.detach())
            self.inner = nn.Linear(3, 4)

    tied = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 10, bias=False), Scaled())
    tied[1].weight = tied[0].weight
    found = parameter_counts(tied)
    assert found.total == sum(p.numel() for p in tied.parameters()) == 40 + 12 + 16
    assert [(r.name, r.expected, r.counted) for r in found.layers] == [
        ("0", 40, 40),
        ("2", None, 12),
        ("2.inner", 16, 16),
    ]


def test_no_parameters():
    assert parameter_counts(nn.ReLU()).total == 0


def test_sizes_below_one_are_refused():
    with pytest.raises(OptionError, match="sizes >= 1"):
        mlp_parameters(1, 8, 0, 1)
