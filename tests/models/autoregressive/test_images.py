"""PixelCNN, gated PixelCNN and PixelRNN: masks, blind spots, traps; kept activations against whole passes; PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft import nn
from weft.errors import ConditionError, OptionError
from weft.models.autoregressive import (
    CategoricalHead,
    CausalConv2d,
    GatedPixelCNN,
    LogisticMixtureHead,
    PixelCNN,
    PixelRNN,
    VerticalConv2d,
)
from weft.models.autoregressive.pixelrnn import skew, unskew
from weft.models.generative import binary_states, check_autoregressive, check_normalised, influence

from .common import classes_of, drawn_as_promised, filled, seeded

DOUBLE = {"dtype": weft.float64}
F = nn.functional
MODELS = {
    "plain": lambda shape, **o: PixelCNN(shape, 12, 2, first=3, **DOUBLE, **o),
    "gated": lambda shape, **o: GatedPixelCNN(shape, 6, 3, first=3, **DOUBLE, **o),
    "row": lambda shape, **o: PixelRNN(shape, 6, 2, first=3, kind="row", **DOUBLE, **o),
    "diagonal": lambda shape, **o: PixelRNN(shape, 6, 2, first=3, kind="diagonal", **DOUBLE, **o),
}


@pytest.fixture(params=MODELS)
def make(request):
    return lambda shape, **options: filled(MODELS[request.param](shape, **options), 0.5)


def images(count, shape, seed=1):
    return (weft.rand(count, *shape, generator=seeded(seed)) < 0.5).double()


# ---- what sees what ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 3, 4), (3, 2, 3)])
def test_no_pixel_and_no_colour_sees_a_later_one(make, shape):
    model = make(shape, head=CategoricalHead(4)) if shape[0] == 3 else make(shape)
    x = images(4, shape)
    check_autoregressive(model.conditionals, x, model.order, tolerance=0.0)
    rank = np.argsort(model.order)
    slopes = weft.func.jacrev(lambda row: model.conditionals(row.reshape(1, *shape)).sum(-1).flatten())(x[0].flatten())
    assert not np.where(rank[None] >= rank[:, None], slopes.detach().numpy(), 0).any()


def reached(height, width, kernels, steps):
    """What each pixel can see: paths along the offsets of each layer's kernel. (HW, HW) bool

    kernels: of the first layer and of the others, as sets of offsets (rows, columns)
    """
    link = lambda offsets: np.array(
        [[(b[0] - a[0], b[1] - a[1]) in offsets for b in np.ndindex(height, width)] for a in np.ndindex(height, width)]
    )
    first, other = map(link, kernels)
    seen = first
    for _ in range(steps):
        seen = (other.astype(int) @ seen.astype(int)) > 0
    return seen


def causal_offsets(width, center):
    half = width // 2
    above = {(-r, c) for r in range(1, half + 1) for c in range(-half, half + 1)}
    return above | {(0, -c) for c in range(0 if center else 1, half + 1)}


@pytest.mark.parametrize(("first", "kernel_size", "layers"), [(3, 3, 2), (5, 3, 1), (3, 3, 7)])
def test_the_blind_spot_of_plain_pixelcnn_is_exactly_the_one_of_its_kernels(first, kernel_size, layers):
    height, width = 5, 6
    model = filled(PixelCNN((1, height, width), 8, layers, kernel_size=kernel_size, first=first, **DOUBLE), 0.7)
    seen = influence(model.conditionals, images(12, (1, height, width))).numpy() > 0
    kernels = causal_offsets(first, False), causal_offsets(kernel_size, True)
    expected = reached(height, width, kernels, layers)
    assert (seen == expected).all()
    if layers == 7:  # as deep as the image is high and wide: what is left is a cone that opens to the right
        rows, columns = np.divmod(np.arange(height * width), width)
        up, right = rows[:, None] - rows[None], columns[None] - columns[:, None]
        blind = (up >= 0) & ((up > 0) | (right < 0)) & ~seen
        assert blind.any() and (blind == ((up > 0) & (right > up))).all()


@pytest.mark.parametrize("model", ["gated", "diagonal"])
def test_no_blind_spot(model):
    height, width = 5, 6
    if model == "gated":
        made = filled(GatedPixelCNN((1, height, width), 4, 7, first=3, **DOUBLE), 0.7)
    else:
        made = filled(PixelRNN((1, height, width), 4, 1, first=3, **DOUBLE), 0.7)
    seen = influence(made.conditionals, images(12, (1, height, width))).numpy() > 0
    assert (seen == np.tri(height * width, k=-1, dtype=bool)).all()  # everything before, and nothing else


# ---- traps ---------------------------------------------------------------------------------------------------


def test_masks_by_hand():
    a, b = (CausalConv2d(1, 1, 3, mask_center=center).mask[0, 0].tolist() for center in (True, False))
    assert a == [[1, 1, 1], [1, 0, 0], [0, 0, 0]] and b == [[1, 1, 1], [1, 1, 0], [0, 0, 0]]
    centre = CausalConv2d(3, 6, 1, colours=3).mask[:, :, 0, 0].tolist()
    assert centre == [[1, 0, 0], [1, 1, 0], [1, 1, 1]] * 2
    first = CausalConv2d(3, 3, (1, 3), mask_center=True, colours=3).mask[:, :, 0, 1].tolist()
    assert first == [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    with pytest.raises(OptionError, match="odd kernel sizes"):
        CausalConv2d(1, 1, 4)


def test_a_causal_convolution_against_pytorch():
    layer = filled(CausalConv2d(2, 4, 5, mask_center=True, **DOUBLE))
    x = weft.randn(3, 2, 6, 7, dtype=weft.float64, generator=seeded(1))
    weight, bias = (torch.tensor(p.detach().numpy()) for p in (layer.weight, layer.bias))
    mask = torch.zeros(5, 5)
    mask[:2] = mask[2, :2] = 1
    theirs = torch.nn.functional.conv2d(torch.tensor(x.numpy()), weight * mask, bias, padding=2)
    np.testing.assert_allclose(layer(x).detach().numpy(), theirs, atol=1e-12)


@pytest.mark.parametrize(
    "trap", ["centre in the first layer", "row of mask B", "no mask on 1×1", "vertical reads horizontal"]
)
def test_traps_are_found_out(trap):
    """Faults of published code, put into our models: the detector must see each."""
    shape = (3, 2, 3) if trap == "no mask on 1×1" else (1, 3, 4)
    model = filled(GatedPixelCNN(shape, 6, 3, first=3, head=CategoricalHead(3), **DOUBLE), 0.5)
    x = images(3, shape)
    check_autoregressive(model.conditionals, x, model.order)
    if trap == "centre in the first layer":
        model.layers[0].horizontal.mask.fill_(1)
    elif trap == "row of mask B":  # the vertical stack without its shift: rows above include this one
        model._rows = _unshifted(model)
    elif trap == "no mask on 1×1":
        model.mixed.mask.fill_(1)
    else:
        model = _Backwards(model)
    with pytest.raises(ConditionError, match="depends on"):
        check_autoregressive(model.conditionals, x, list(range(x[0].numel())) if shape[0] == 1 else model.order)


def _unshifted(model):
    rows = model._rows
    return lambda x, condition, see: rows(F.pad(x[:, :, 1:], (0, 0, 0, 1)), condition, see)


class _Backwards:
    """The vertical stack of each layer is given what the horizontal stack has seen."""

    def __init__(self, model):
        self.model = model

    def conditionals(self, x):
        model, see = self.model, lambda layer, x: layer(x)
        v, h = F.pad(x[:, :, :-1], (0, 0, 1, 0)), x
        for number, layer in enumerate(model.layers):
            v, given = layer.rows(v, None, see)
            h = layer.pixels(h, given, see)
            if number == 0:
                v = v + h
        return model._parameters_of(model.output(F.relu(model.mixed(F.relu(h)))))


# ---- densities -----------------------------------------------------------------------------------------------


def test_probabilities_of_all_images_sum_to_one(make):
    model = make((1, 2, 5))
    as_images = lambda x: model.log_prob(x.reshape(-1, 1, 2, 5))
    assert check_normalised(as_images, binary_states(10, weft.float64), tolerance=1e-9) == pytest.approx(1)


def test_images_of_levels_and_colours_sum_to_one():
    head = LogisticMixtureHead(2, 3)
    model = filled(GatedPixelCNN((3, 1, 2), 6, 2, head, first=3, **DOUBLE), 0.5)
    grid = weft.cartesian_prod(*(weft.tensor([0.0, 0.5, 1.0], **DOUBLE) for _ in range(6)))
    assert check_normalised(lambda x: model.log_prob(x.reshape(-1, 3, 1, 2)), grid) == pytest.approx(1)


def test_a_class_changes_the_density(make):
    model = make((1, 3, 2), classes=2)
    filled(model, 0.5)
    states = binary_states(6, weft.float64).reshape(-1, 1, 3, 2)
    each = [model.log_prob(states, classes_of(model, states, number)) for number in range(2)]
    assert all(found.exp().sum().item() == pytest.approx(1) for found in each)
    assert (each[0] - each[1]).abs().max() > 0.1


def test_gated_pixelcnn_against_pytorch():
    """Both stacks as full k×k kernels with zeros, which is how PyTorch programs write them."""
    model = filled(GatedPixelCNN((1, 5, 6), 4, 2, first=3, **DOUBLE), 0.5)
    x = images(3, (1, 5, 6))
    C = torch.nn.functional.conv2d
    of = lambda p: torch.tensor(p.detach().numpy())
    gate = lambda y: torch.tanh(y[:, :4]) * torch.sigmoid(y[:, 4:])
    v = h = torch.tensor(x.numpy())
    for number, layer in enumerate(model.layers):
        rows = torch.zeros(8, v.shape[1], 3, 3, dtype=torch.float64)
        rows[:, :, :2] = of(layer.vertical.weight)  # the row above and this one
        padded = torch.nn.functional.pad(v, (0, 0, 1, 0))[:, :, :-1] if number == 0 else v  # shifted down once
        found = C(padded, rows, of(layer.vertical.bias), padding=1)
        beside = of(layer.horizontal.weight).clone()
        beside[..., 2:] = 0
        beside[..., 1] = 0 if number == 0 else beside[..., 1]
        across = C(h, beside, of(layer.horizontal.bias), padding=(0, 1))
        across = across + C(found, of(layer.link.weight), of(layer.link.bias))
        out = C(gate(across), of(layer.mix.weight), of(layer.mix.bias))
        v, h = gate(found), out if number == 0 else h + out
    out = C(h.relu(), of(model.mixed.weight), of(model.mixed.bias)).relu()
    logits = C(out, of(model.output.weight), of(model.output.bias))
    theirs = torch.distributions.Bernoulli(logits=logits).log_prob(torch.tensor(x.numpy())).flatten(1).sum(1)
    np.testing.assert_allclose(model.log_prob(x).detach().numpy(), theirs, rtol=1e-9)


def test_a_diagonal_lstm_against_its_definition():
    """c and h at (r, c) from (r, c − 1) and (r − 1, c), pixel by pixel in PyTorch."""
    layer = filled(PixelRNN((1, 3, 4), 3, 1, **DOUBLE).layers[0].left, 0.7)
    x = weft.randn(2, layer.from_input.in_channels, 3, 4, dtype=weft.float64, generator=seeded(1))
    gates = torch.tensor(layer.from_input(x).detach().numpy())
    weight = torch.tensor(layer.from_state.weight.detach().numpy())  # (4F, F, 2): from above, from the left
    none = torch.zeros(2, 3, dtype=torch.float64)
    states = {}
    for r, c in np.ndindex(3, 4):
        (left, memory), (above, _) = states.get((r, c - 1), (none, none)), states.get((r - 1, c), (none, none))
        found = gates[:, :, r, c] + above @ weight[..., 0].T + left @ weight[..., 1].T
        opened, forgotten, written, value = found.chunk(4, 1)
        memory = forgotten.sigmoid() * memory + written.sigmoid() * value.tanh()
        states[r, c] = opened.sigmoid() * memory.tanh(), memory
    ours = layer(x).detach().numpy()
    for (r, c), (h, _) in states.items():
        np.testing.assert_allclose(ours[:, :, r, c], h, atol=1e-12)
    assert weft.equal(unskew(skew(x)), x) and skew(x)[0, 0, 2, :3].tolist()[:2] == [0, 0]


# ---- samples -------------------------------------------------------------------------------------------------

KEPT = {
    "plain": lambda: PixelCNN((1, 5, 4), 8, 2, first=5),
    "gated": lambda: GatedPixelCNN((1, 5, 4), 6, 3, first=5, kernel_size=5),
    "gated, classes": lambda: GatedPixelCNN((1, 3, 3), 6, 2, first=3, classes=3),
    "colours": lambda: GatedPixelCNN((3, 2, 3), 6, 2, CategoricalHead(5), first=3),
    "colours, plain": lambda: PixelCNN((3, 3, 2), 12, 1, LogisticMixtureHead(2, 8), first=3, classes=2),
    "row": lambda: PixelRNN((1, 5, 4), 6, 2, kind="row", first=5),
    "diagonal": lambda: PixelRNN((1, 5, 4), 6, 2, first=3),
    "row, colours": lambda: PixelRNN((3, 3, 2), 6, 2, CategoricalHead(5), kind="row", first=3, classes=2),
    "diagonal, colours": lambda: PixelRNN((3, 2, 3), 6, 1, CategoricalHead(5), first=1, classes=2),
}


@pytest.mark.parametrize("name", KEPT)
def test_kept_activations_draw_the_same_images_bit_for_bit(name):
    model = filled(KEPT[name](), 0.4)
    condition = 1 if model.classes else None
    drawn = model.sample(12, condition, generator=seeded(3))
    assert drawn.shape == (12, *model.event_shape) and 0.05 < drawn.mean() < 0.95
    assert weft.equal(drawn, model.naive_sample(12, condition, generator=seeded(3)))
    with weft.no_grad():  # the same without a plan
        eager = model.drawn(model.noise(12, seeded(3)), classes_of(model, drawn))
    assert weft.equal(drawn, eager)


def test_images_are_drawn_as_promised(make):
    model = filled(make((1, 2, 2)), 0.7, seed=4)
    states = binary_states(4, weft.float64)
    log_prob = model.log_prob(states.reshape(-1, 1, 2, 2))
    drawn_as_promised(model.sample(3000, generator=seeded(1)).flatten(1), states, log_prob)


def test_images_are_refused_with_a_reason():
    with pytest.raises(OptionError, match=r"\(C, H, W\)"):
        PixelCNN((28, 28))
    with pytest.raises(OptionError, match="multiple of 6"):
        PixelCNN((3, 8, 8), 64)
    with pytest.raises(OptionError, match="row, diagonal"):
        PixelRNN((1, 8, 8), kind="column")
    with pytest.raises(OptionError, match="odd kernel size"):
        VerticalConv2d(1, 1, 2)
