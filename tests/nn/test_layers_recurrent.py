"""Recurrent layers, cells and sequence tools against PyTorch; the notes' LSTM variants against their formulas."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch.nn.utils import rnn as torch_rnn

import weft
from weft.nn.utils import rnn

from .modules_harness import assert_close, case, check_cases, check_module, load_weights, map_tree, to_weft

T, N, D, H = 5, 3, 4, 6  # time steps, examples, input size, hidden size
OPTIONS = [
    {},
    {"num_layers": 2},
    {"bias": False},
    {"batch_first": True},
    {"bidirectional": True},
    {"num_layers": 2, "bidirectional": True, "batch_first": True, "dropout": 0.0},
    {"num_layers": 3, "bias": False, "bidirectional": True},
]
LAYERS = {
    "RNN": [*OPTIONS, {"nonlinearity": "relu"}, {"nonlinearity": "relu", "num_layers": 2, "bidirectional": True}],
    "LSTM": [*OPTIONS, {"proj_size": 2}, {"proj_size": 3, "num_layers": 2, "bidirectional": True, "batch_first": True}],
    "GRU": OPTIONS,
}


def initial(name, options, examples):
    """A random initial state: (h,) or ((h, c),), as the layer takes it."""
    count = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    middle = () if examples is None else (examples,)
    hidden = torch.randn(count, *middle, options.get("proj_size", 0) or H)
    return ((hidden, torch.randn(count, *middle, H)),) if name == "LSTM" else (hidden,)


def layer_cases(name):
    for options in LAYERS[name]:
        shape = (N, T, D) if options.get("batch_first") else (T, N, D)
        yield case(shape, args=(D, H), **options)
        yield case(shape, *initial(name, options, N), args=(D, H), **options)
        yield case((T, D), *initial(name, options, None), args=(D, H), **options)
    yield case((T, 0, D), args=(D, H))
    yield case((1, 1, D), args=(D, 1))


@pytest.mark.parametrize("name", LAYERS)
def test_layers_equal_torch(name, record_property):
    check_cases(name, list(layer_cases(name)), record_property)


@pytest.mark.parametrize("name", LAYERS)
def test_dropout_between_layers_is_off_in_evaluation(name, record_property):
    check_cases(name, [case((T, N, D), args=(D, H), num_layers=2, dropout=0.5)], record_property, train=False)
    layer = getattr(weft.nn, name)(D, 50, 2, dropout=0.5)
    y, again = layer(weft.ones(T, N, D))[0], layer(weft.ones(T, N, D))[0]
    assert (y != again).any()


@pytest.mark.parametrize("sorted_first", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_packed_sequences_equal_torch(name, sorted_first):
    torch.manual_seed(0)
    lengths = [5, 3, 3, 1] if sorted_first else [3, 1, 5, 3]
    for options in LAYERS[name]:
        options = {k: v for k, v in options.items() if k != "batch_first"}
        theirs, ours = (getattr(m.nn, name)(D, H, **options).double() for m in (torch, weft))
        load_weights(theirs, ours)
        x = torch.randn(5, 4, D, dtype=torch.float64, requires_grad=True)
        state = map_tree(lambda s: s.double(), initial(name, options, 4)[0])
        mine, my_state = to_weft(x), map_tree(to_weft, state)
        packed = torch_rnn.pack_padded_sequence(x, lengths, enforce_sorted=sorted_first)
        want, want_final = theirs(packed, state)
        got, got_final = ours(rnn.pack_padded_sequence(mine, lengths, enforce_sorted=sorted_first), my_state)
        assert_close(got.data, want.data, "packed output", (1e-8, 1e-10))
        finals = (want_final, got_final) if name == "LSTM" else ((want_final,), (got_final,))
        for a, b in zip(*finals, strict=True):
            assert_close(b, a, "final state", (1e-8, 1e-10))
        (want.data.square().sum() + sum(f.sin().sum() for f in finals[0])).backward()
        (got.data.square().sum() + sum(f.sin().sum() for f in finals[1])).backward()
        assert_close(mine.grad, x.grad, "gradient of the input", (1e-7, 1e-9))
        for (key, p), q in zip(theirs.named_parameters(), ours.parameters(), strict=True):
            assert_close(q.grad, p.grad, key, (1e-7, 1e-9))


CELLS = {
    "RNNCell": [{}, {"bias": False}, {"nonlinearity": "relu"}],
    "LSTMCell": [{}, {"bias": False}],
    "GRUCell": [{}, {"bias": False}],
}


@pytest.mark.parametrize("name", CELLS)
def test_cells_equal_torch(name, record_property):
    cases = []
    for options, batch in itertools.product(CELLS[name], [(N,), (), (0,)]):
        state = torch.randn(2, *batch, H)
        state = (tuple(state),) if name == "LSTMCell" else (state[0],)
        cases += [case((*batch, D), args=(D, H), **options), case((*batch, D), *state, args=(D, H), **options)]
    assert len(cases) >= 6
    check_cases(name, cases, record_property)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("reverse", [False, True])
def test_second_derivatives(name, reverse):
    weft.manual_seed(0)
    layer = getattr(weft.nn, name)(2, 2, bidirectional=reverse).double()
    x = weft.randn(3, 2, 2, dtype=weft.float64, requires_grad=True)
    assert weft.autograd.gradgradcheck(lambda x, *w: layer(x)[0].square(), (x, *layer.parameters()))


def test_vmap_over_a_layer():
    layer, x = weft.nn.LSTM(D, H), weft.randn(4, T, N, D)
    rows = weft.vmap(lambda one: layer(one)[0])(x)
    np.testing.assert_allclose(rows[2].detach().numpy(), layer(x[2])[0].detach().numpy(), 1e-5, 1e-6)


def test_a_changed_output_does_not_spoil_the_gradient():
    layer = weft.nn.RNN(D, H).double()
    x = weft.randn(T, N, D, dtype=weft.float64)
    want = weft.autograd.grad(layer(x)[0].relu().sum(), list(layer.parameters()))
    y = layer(x)[0]
    y.relu_()
    for a, b in zip(want, weft.autograd.grad(y.sum(), list(layer.parameters())), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy())


ERRORS = [
    (lambda m: m.nn.LSTM(3, 4)(m.zeros(2, 3, 4, 5)), "2D or 3D"),
    (lambda m: m.nn.LSTM(3, 4)(m.zeros(2, 3, 5)), "input_size. Expected 3, got 5"),
    (lambda m: m.nn.LSTM(3, 4)(m.zeros(0, 3, 3)), "larger than 0"),
    (
        lambda m: m.nn.LSTM(3, 4)(m.zeros(2, 3, 3), (m.zeros(1, 3, 5), m.zeros(1, 3, 4))),
        r"hidden\[0\] size \(1, 3, 4\)",
    ),
    (lambda m: m.nn.LSTM(3, 4)(m.zeros(2, 3, 3), (m.zeros(3, 4), m.zeros(3, 4))), "3-D input, hx and cx"),
    (lambda m: m.nn.RNN(3, 4)(m.zeros(2, 3), m.zeros(1, 2, 4)), "unbatched 2-D input, hx should also be 2-D"),
    (lambda m: m.nn.RNN(3, 4)(m.zeros(2, 3, 3), m.zeros(1, 2, 4)), r"Expected hidden size \(1, 3, 4\)"),
    (lambda m: m.nn.LSTM(3, 4)(m.zeros(2, 3, dtype=m.float64)), "does not match weight dtype"),
    (lambda m: m.nn.GRU(3, 4, proj_size=2), "only supported for LSTM"),
    (lambda m: m.nn.LSTM(3, 4, proj_size=4), "smaller than hidden_size"),
    (lambda m: m.nn.LSTM(3, 0), "hidden_size must be greater"),
    (lambda m: m.nn.LSTM(3, 2, 0), "num_layers must be greater"),
    (lambda m: m.nn.RNN(3, 2, nonlinearity="x"), "Unknown nonlinearity"),
    (lambda m: m.nn.LSTM(3, 2, dropout=2), "range"),
    (lambda m: m.nn.RNNCell(3, 2)(m.zeros(1, 2, 3)), "1D or 2D"),
    (lambda m: m.nn.RNNCell(3, 2)(m.zeros(2, 4)), "inconsistent input_size"),
]


@pytest.mark.parametrize("call,message", ERRORS)
def test_errors_are_torchs(call, message):
    kinds = (ValueError, RuntimeError)
    for module in (torch, weft):
        with pytest.raises(kinds, match=message):
            call(module)


def test_weights_and_their_names():
    layer = weft.nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)
    assert [len(w) for w in layer.all_weights] == [5] * 4 and layer.flatten_parameters() is None
    big = weft.nn.GRU(10, 400)
    for weight in big.parameters():  # U(−1/√H, 1/√H)
        assert 0.049 < float(weight.abs().max()) <= 0.05 and abs(float(weight.std()) - 0.05 / 3**0.5) < 2e-3


# ----------------------------------------------------------------------------------------- packing and padding

SEQUENCES = [[5, 3, 2], [2, 5, 3], [4], [1, 1, 1], [3, 1, 4, 1, 5], [2, 2]]


def both(lengths, width=(2,)):
    theirs = [torch.randn(n, *width) for n in lengths]
    return theirs, [to_weft(x) for x in theirs]


def same_packed(mine, reference):
    for a, b in zip(mine, reference, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("lengths", SEQUENCES)
@pytest.mark.parametrize("width", [(), (2,), (2, 3)])
def test_pack_pad_unpack_equal_torch(lengths, width):
    theirs, ours = both(lengths, width)
    mine, reference = rnn.pack_sequence(ours, False), torch_rnn.pack_sequence(theirs, False)
    same_packed(mine, reference)
    for batch_first, total in itertools.product((False, True), (None, 7)):
        options = {"batch_first": batch_first, "padding_value": -1.0, "total_length": total}
        for a, b in zip(
            rnn.pad_packed_sequence(mine, **options), torch_rnn.pad_packed_sequence(reference, **options), strict=True
        ):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
        for side in ("left", "right"):
            padded = rnn.pad_sequence(ours, batch_first, 0.5, side)
            want = torch_rnn.pad_sequence(theirs, batch_first, 0.5, side)
            np.testing.assert_array_equal(padded.numpy(), want.numpy())
        pad, sizes = rnn.pad_sequence(ours, batch_first), weft.tensor(lengths)
        for one, want in zip(rnn.unpad_sequence(pad, sizes, batch_first), ours, strict=True):
            np.testing.assert_array_equal(one.numpy(), want.numpy())
        packed = rnn.pack_padded_sequence(pad, sizes, batch_first, False)
        same_packed(packed, torch_rnn.pack_padded_sequence(torch.tensor(pad.numpy()), lengths, batch_first, False))
    for one, want in zip(rnn.unpack_sequence(mine), ours, strict=True):
        np.testing.assert_array_equal(one.numpy(), want.numpy())


def test_gradients_pass_packing_and_padding():
    x = weft.randn(4, 3, 2, dtype=weft.float64, requires_grad=True)
    lengths = [2, 4, 3]
    padded, _ = rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, lengths, enforce_sorted=False))
    padded.sum().backward()
    alive = np.arange(4)[:, None] < np.array(lengths)
    np.testing.assert_array_equal(x.grad.numpy(), np.repeat(alive[:, :, None], 2, 2))


def test_packed_sequence_is_a_named_tuple():
    packed = rnn.pack_padded_sequence(weft.ones(4, 3, 2), [2, 4, 3], enforce_sorted=False)
    assert packed.double().data.dtype is weft.float64 and packed.to(weft.float32) is packed
    data, sizes, order, back = packed
    assert data is packed.data and sizes.tolist() == [3, 3, 2, 1]
    assert order[back].tolist() == [0, 1, 2] and rnn.invert_permutation(order).tolist() == back.tolist()
    assert packed.long().data.dtype is weft.int64 and not packed.is_cuda and packed.cpu() is packed


PACKING_ERRORS = [
    (lambda r, m: r.pack_padded_sequence(m.ones(4, 2, 1), [2, 4]), "sorted"),
    (lambda r, m: r.pack_padded_sequence(m.ones(4, 2, 1), [2, 0]), "greater than 0"),
    (lambda r, m: r.pack_padded_sequence(m.ones(4, 2, 1), [2]), "batch_size"),
    (lambda r, m: r.pad_packed_sequence(r.pack_padded_sequence(m.ones(4, 1, 1), [4]), total_length=3), "total_length"),
    (lambda r, m: r.pad_sequence([], padding_side="right"), "empty|least one"),
]


@pytest.mark.parametrize("call,message", PACKING_ERRORS)
def test_packing_errors(call, message):
    with pytest.raises((RuntimeError, ValueError), match=message):
        call(rnn, weft)
    with pytest.raises((RuntimeError, ValueError)):
        call(torch_rnn, torch)


def test_a_length_beyond_the_input_is_refused():
    with pytest.raises(ValueError, match="exceeds the 4 time steps"):
        rnn.pack_padded_sequence(weft.ones(4, 1, 1), [5])


# ------------------------------------------------------------------------------------- the variants of N2 §5.2.3


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def peephole_by_hand(x, p):
    h = c = np.zeros((x.shape[1], H))
    for x_t in x:
        i, f, g, o = np.split(x_t @ p["weight_ih"].T + h @ p["weight_hh"].T + p["bias_ih"] + p["bias_hh"], 4, 1)
        to_i, to_f, to_o = p["weight_ch"]
        new = sigmoid(f + to_f * c) * c + sigmoid(i + to_i * c) * np.tanh(g)
        c = new
        h = sigmoid(o + to_o * c) * np.tanh(c)
        yield h


def coupled_by_hand(x, p):
    h = c = np.zeros((x.shape[1], H))
    for x_t in x:
        f, g, o = np.split(x_t @ p["weight_ih"].T + h @ p["weight_hh"].T + p["bias_ih"] + p["bias_hh"], 3, 1)
        c = sigmoid(f) * c + (1 - sigmoid(f)) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        yield h


@pytest.mark.parametrize("name,by_hand", [("PeepholeLSTM", peephole_by_hand), ("CoupledLSTM", coupled_by_hand)])
def test_variants_follow_their_formulas(name, by_hand):
    weft.manual_seed(0)
    layer, x = getattr(weft.nn, name)(D, H).double(), weft.randn(T, N, D, dtype=weft.float64)
    weights = {key.removesuffix("_l0"): value.numpy() for key, value in layer.state_dict().items()}
    y, (h, _) = layer(x)
    np.testing.assert_allclose(y.detach().numpy(), np.stack(list(by_hand(x.numpy(), weights))), 1e-9)
    np.testing.assert_array_equal(h[0].detach().numpy(), y[-1].detach().numpy())
    both_ways, (h, c) = getattr(weft.nn, name)(D, H, 2, bidirectional=True, batch_first=True)(weft.randn(N, T, D))
    assert both_ways.shape == (N, T, 2 * H) and h.shape == c.shape == (4, N, H)


def test_a_peephole_of_zero_is_an_lstm():
    plain, variant = weft.nn.LSTM(D, H, 2, bidirectional=True), weft.nn.PeepholeLSTM(D, H, 2, bidirectional=True)
    state = {k: v * 0 for k, v in variant.state_dict().items() if "weight_ch" in k}
    variant.load_state_dict(state | dict(plain.state_dict()))
    x = rnn.pack_padded_sequence(weft.randn(T, N, D), [5, 4, 2])
    np.testing.assert_allclose(variant(x)[0].data.detach().numpy(), plain(x)[0].data.detach().numpy(), 1e-4, 1e-6)


def test_coupled_cells_stay_within_one():
    layer = weft.nn.CoupledLSTM(D, H)
    with weft.no_grad():
        for weight in layer.parameters():
            weight.mul_(30)
    _, (_, cell) = layer(weft.randn(40, 8, D) * 10)
    assert float(cell.abs().max()) <= 1.0


def test_long_sequences_train():
    """The gradient of 200 steps arrives, and one optimisation step lowers the loss."""
    weft.manual_seed(0)
    layer, x = weft.nn.LSTM(2, 8), weft.randn(200, 4, 2)
    loss = lambda: layer(x)[0].square().mean()
    before = loss()
    before.backward()
    with weft.no_grad():
        for weight in layer.parameters():
            weight.sub_(weight.grad * 0.1)
    assert float(loss()) < float(before)


def test_one_step_of_a_layer_is_its_cell():
    layer, cell = weft.nn.GRU(D, H).double(), weft.nn.GRUCell(D, H).double()
    cell.load_state_dict({key.removesuffix("_l0"): value for key, value in layer.state_dict().items()})
    check_module(torch.nn.GRUCell(D, H), cell, [(N, D), (N, H)])
    layer.load_state_dict({key + "_l0": value for key, value in cell.state_dict().items()})
    x, h = weft.randn(N, D, dtype=weft.float64), weft.randn(N, H, dtype=weft.float64)
    y = layer(x.unsqueeze(0), h.unsqueeze(0))[0][0]
    np.testing.assert_allclose(y.detach().numpy(), cell(x, h).detach().numpy(), 1e-10)
