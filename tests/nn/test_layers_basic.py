"""Linear, embedding, convolution, pooling, padding and spatial layers against PyTorch."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

import weft
from weft import nn

from .modules_harness import Case, case, check_cases, check_module, sample, to_numpy, to_weft

integers = torch.tensor


def spatial_cases() -> dict[str, list[Case]]:
    """Convolutions, pooling and padding in one, two and three dimensions."""
    table: dict[str, list[Case]] = {}
    for n in (1, 2, 3):
        sizes = ((11,), (7, 8), (5, 4, 6))[n - 1]
        x, single, none = (2, 4, *sizes), (4, *sizes), (0, 4, *sizes)
        kernel = (3, 2, 1)[:n]
        table[f"Conv{n}d"] = [
            case(x, args=(4, 6, 3)),
            case(x, args=(4, 6, kernel), stride=2, padding=1, bias=False),
            case(x, args=(4, 6, 2), dilation=2, groups=2),
            case(x, args=(4, 8, 3), padding="same", groups=4),
            case(x, args=(4, 3, 2), padding="same", padding_mode="reflect"),
            case(x, args=(4, 3, 3), padding="valid", padding_mode="replicate"),
            case(x, args=(4, 3, kernel), padding=1, padding_mode="circular", stride=2),
            case(x, args=(4, 3, 3), padding=(1, 0, 2)[:n], padding_mode="replicate"),
            case(single, args=(4, 6, 3), padding=2),
            case(none, args=(4, 6, 3)),
        ]
        table[f"ConvTranspose{n}d"] = [
            case(x, args=(4, 6, 3)),
            case(x, args=(4, 6, kernel), stride=2, bias=False),
            case(x, args=(4, 6, 3), stride=2, padding=1, output_padding=1),
            case(x, args=(4, 6, 2), dilation=2, groups=2),
            case(x, args=(4, 6, 3), stride=3, call={"output_size": [3 * s + 1 for s in sizes]}),
            case(single, args=(4, 6, 3), padding=1),
            case(none, args=(4, 6, 3)),
        ]
        table[f"MaxPool{n}d"] = [
            case(x, args=(2,)),
            case(x, args=(3, 2, 1)),
            case(x, args=(2,), dilation=2, stride=1),
            case(x, args=(3,), ceil_mode=True, stride=2),
            case(x, args=(2,), return_indices=True),
            case(single, args=(kernel,)),
            case(none, args=(2,)),
        ]
        table[f"AvgPool{n}d"] = [
            case(x, args=(2,)),
            case(x, args=(3, 2, 1)),
            case(x, args=(3, 2, 1), count_include_pad=False),
            case(x, args=(3,), ceil_mode=True, stride=2),
            case(x, args=(kernel,)) if n == 1 else case(x, args=(kernel,), divisor_override=3),
            case(single, args=(2,)),
            case(none, args=(2,)),
        ]
        table[f"LPPool{n}d"] = [
            case(x, args=(2, 2)),
            case(x, args=(2.0, 3, 2)),
            case(torch.rand(x), args=(3, 2)),
            case(torch.rand(x), args=(1, 3), ceil_mode=True),
            case(x, args=(4, kernel if n > 1 else 2)),
            case(single, args=(2, 2)),
        ]
        for kind in ("Avg", "Max"):
            table[f"AdaptiveAvgPool{n}d".replace("Avg", kind)] = [
                case(x, args=(1,)),
                case(x, args=(3,)),
                case(x, args=((4, 3, 2)[:n],)) if n > 1 else case(x, args=(5,)),
                case(x, args=((None, 3, 2)[-n:],)) if n > 1 else case(x, args=(11,)),
                case(single, args=(2,)),
                case((0, 4, *sizes), args=(2,)),
            ]
        table[f"AdaptiveMaxPool{n}d"].append(case(x, args=(3,), return_indices=True))
        for kind in ("Reflection", "Replication", "Circular", "Zero", "Constant"):
            value = (1.5,) if kind == "Constant" else ()
            sides = (2, 1, 0, 2, 1, 1)[: 2 * n]
            table[f"{kind}Pad{n}d"] = [
                case(x, args=(1, *value)),
                case(x, args=(2, *value)),
                case(x, args=(sides, *value)),
                case(single, args=(1, *value)),
                case(single, args=(sides, *value)),
                case((1, 1, *sizes), args=(3, *value)),
            ]
    return table


def flat_cases() -> dict[str, list[Case]]:
    """Layers without spatial dimensions, and those of images only."""
    rows = integers([[1, 0, 4], [3, 3, 2]])
    ends = integers([0, 2, 5])
    flat = integers([1, 0, 4, 3, 3])
    bags = torch.tensor([0, 0, 2, 2])
    return {
        "Identity": [case(s) for s in [(2,), (2, 3), (0, 3), (1, 2, 3), (), (2, 1, 1, 3)]],
        "Linear": [
            case((2, 3), args=(3, 4)),
            case((3,), args=(3, 4)),
            case((2, 5, 3), args=(3, 4)),
            case((0, 3), args=(3, 4)),
            case((2, 3), args=(3, 4), bias=False),
            case((2, 1, 2, 3), args=(3, 1)),
        ],
        "Bilinear": [
            case((2, 3), (2, 4), args=(3, 4, 5)),
            case((3,), (4,), args=(3, 4, 5)),
            case((2, 6, 3), (2, 6, 4), args=(3, 4, 5)),
            case((2, 3), (2, 4), args=(3, 4, 5), bias=False),
            case((0, 3), (0, 4), args=(3, 4, 5)),
            case((2, 1), (2, 1), args=(1, 1, 1)),
        ],
        "Flatten": [
            case((2, 3, 4)),
            case((2, 3, 4), args=(0,)),
            case((2, 3, 4, 5), args=(1, 2)),
            case((2, 3, 4, 5), start_dim=-3, end_dim=-2),
            case((0, 3, 4)),
            case((2, 3), start_dim=0, end_dim=0),
        ],
        "Unflatten": [
            case((2, 12), args=(1, (3, 4))),
            case((12,), args=(0, (3, 4))),
            case((2, 12, 5), args=(-2, (2, 3, 2))),
            case((2, 12), args=(1, [3, -1])),
            case((0, 12), args=(1, (3, 4))),
            case((2, 3, 4), args=(2, (4, 1))),
        ],
        "Embedding": [
            case(rows, args=(5, 3)),
            case(rows, args=(5, 3), padding_idx=3),
            case(rows, args=(5, 3), padding_idx=-2),
            case(rows, args=(5, 3), max_norm=0.5),
            case(rows, args=(5, 3), max_norm=1.0, norm_type=1.0),
            case(rows, args=(5, 3), scale_grad_by_freq=True),
            case(integers(2), args=(5, 3)),
            case(rows.int()[:0], args=(5, 3)),
        ],
        "EmbeddingBag": [
            case(rows, args=(5, 3)),
            case(rows, args=(5, 3), mode="sum", padding_idx=3),
            case(rows, args=(5, 3), mode="max"),
            case(flat, bags, args=(5, 3)),
            case(flat, ends, args=(5, 3), mode="sum", include_last_offset=True),
            case(flat, bags, (5,), args=(5, 3), mode="sum"),
            case(rows, args=(5, 3), max_norm=0.7, norm_type=2.0),
            case(integers([[1, 0, 2], [3, 4, 4]]), args=(5, 3), scale_grad_by_freq=True),
            case(rows[:0], args=(5, 3)),
        ],
        "Upsample": [
            case((2, 3, 5), scale_factor=2),
            case((2, 3, 4, 5), size=(7, 3)),
            case((2, 3, 4, 5), scale_factor=(2.0, 1.5), mode="bilinear"),
            case((2, 3, 4, 5), size=9, mode="bicubic", align_corners=True),
            case((2, 3, 4), scale_factor=2.5, mode="linear", recompute_scale_factor=True),
            case((1, 2, 3, 2, 4), scale_factor=2, mode="trilinear", align_corners=True),
            case((2, 3, 6, 6), size=(3, 2), mode="area"),
            case((0, 3, 4, 5), scale_factor=2),
        ],
        "UpsamplingNearest2d": [
            case((2, 3, 4, 5), scale_factor=f) for f in (1, 2, 3, 1.5, (2, 3))
        ] + [case((1, 2, 3, 3), size=(5, 7))],
        "UpsamplingBilinear2d": [
            case((2, 3, 4, 5), scale_factor=f) for f in (1, 2, 3, 1.5, (2, 3))
        ] + [case((1, 2, 3, 3), size=(5, 7))],
        "PixelShuffle": [
            case(s, args=(r,))
            for s, r in [((2, 4, 3, 5), 2), ((4, 3, 5), 2), ((9, 2, 2), 3), ((1, 2, 8, 1, 1), 2), ((2, 3, 4, 4), 1)]
        ] + [case((1, 2, 4, 1, 1), args=(2,))],
        "PixelUnshuffle": [
            case(s, args=(r,))
            for s, r in [((2, 1, 4, 6), 2), ((1, 4, 6), 2), ((2, 6, 3), 3), ((1, 2, 8, 2, 2), 2), ((2, 3, 4, 4), 1)]
        ] + [case((2, 1, 2, 4, 4), args=(4,))],
        "ChannelShuffle": [
            case(s, args=(g,))
            for s, g in [((2, 6, 3, 5), 2), ((2, 6, 3, 5), 3), ((2, 6, 5), 6), ((1, 4, 2, 2, 2), 2), ((2, 6, 1, 1), 1)]
        ] + [case((0, 6, 3, 3), args=(2,))],
        "Unfold": [
            case((2, 3, 6, 7), args=(2,)),
            case((2, 3, 6, 7), args=((2, 3),), stride=2),
            case((2, 3, 6, 7), args=(3,), padding=1),
            case((2, 3, 6, 7), args=(2,), dilation=2),
            case((3, 6, 7), args=((3, 1),), padding=(1, 0), stride=(1, 2)),
            case((0, 3, 6, 7), args=(2,)),
        ],
        "Fold": [
            case((2, 12, 30), args=((6, 7), 2)),
            case((2, 18, 9), args=((6, 7), (2, 3)), stride=2),
            case((2, 27, 42), args=((6, 7), 3), padding=1),
            case((2, 12, 20), args=((6, 7), 2), dilation=2),
            case((12, 30), args=((6, 7), 2)),
            case((2, 4, 9), args=(4, 2)),
        ],
    }  # fmt: skip


TABLE = {**flat_cases(), **spatial_cases()}


@pytest.mark.parametrize("name", TABLE)
def test_equals_torch(name: str, record_property) -> None:
    assert len(TABLE[name]) >= 6
    check_cases(name, TABLE[name], record_property)


@pytest.mark.parametrize("name", ["Linear", "Conv2d", "ConvTranspose2d", "Embedding", "MaxPool2d", "AvgPool2d"])
def test_equals_torch_in_single_precision(name: str, record_property) -> None:
    check_cases(name, TABLE[name], record_property, dtype=torch.float32)


LAZY = {
    "LazyLinear": [case((2, 3), args=(4,)), case((2, 5, 3), args=(4,), bias=False), case((3,), args=(1,))],
    **{
        f"LazyConv{n}d": [
            case((2, 4, *(6,) * n), args=(6, 3)),
            case((2, 4, *(6,) * n), args=(6, 2), stride=2, padding=1, groups=2, bias=False),
            case((4, *(6,) * n), args=(3, 3), padding=1, padding_mode="circular"),
        ]
        for n in (1, 2, 3)
    },
    **{
        f"LazyConvTranspose{n}d": [
            case((2, 4, *(4,) * n), args=(6, 3)),
            case((2, 4, *(4,) * n), args=(6, 2), stride=2, groups=2, bias=False),
            case((4, *(4,) * n), args=(3, 3), stride=2, padding=1, output_padding=1),
        ]
        for n in (1, 2, 3)
    },
}


@pytest.mark.parametrize("name", LAZY)
def test_lazy_modules(name: str, record_property) -> None:
    """Before the first call, after it, and when weights are loaded before it."""
    for one in LAZY[name]:
        theirs, ours, loaded = (getattr(lib.nn, name)(*one.args, **one.kwargs) for lib in (torch, weft, weft))
        assert repr(ours) == repr(theirs)
        assert list(ours.state_dict()) == list(theirs.state_dict())
        assert all(isinstance(p, nn.UninitializedParameter) for p in ours.state_dict().values())
        twin = copy.deepcopy(ours)
        x = sample(one.inputs[0], torch.float32, False)
        theirs(x)
        for module in (ours, twin):
            module(to_weft(x))
            assert type(module) is module.__class__ is getattr(nn, name.removeprefix("Lazy"))
            check_module(theirs, module, one.inputs)
        check_module(theirs, loaded, one.inputs, compare_repr=False)
        assert repr(loaded) == repr(theirs)
    record_property("cases", 3 * len(LAZY[name]))


def test_lazy_module_of_ones_own() -> None:
    class Scale(weft.nn.LazyModuleMixin, nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.UninitializedParameter()

        def initialize_parameters(self, x: weft.Tensor) -> None:
            if self.has_uninitialized_params():
                self.scale.materialize((x.shape[-1],))
                nn.init.constant_(self.scale, 2.0)

        def forward(self, x: weft.Tensor) -> weft.Tensor:
            return self.scale * x

    scale = Scale()
    assert scale.has_uninitialized_params()
    assert scale(weft.ones(2, 3)).tolist() == [[2.0] * 3] * 2
    assert not scale.has_uninitialized_params() and scale.scale.shape == (3,)
    with pytest.raises(NotImplementedError):
        type("Bare", (weft.nn.LazyModuleMixin, nn.Module), {"cls_to_become": nn.Module})()(weft.ones(1))


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_pooling_and_unpooling(n: int, record_property) -> None:
    sizes = (7, 8, 6)[:n]
    samples = torch.rand(2, 3, n, dtype=torch.float64)
    options = [{"output_size": 3}, {"output_ratio": 0.5}, {"output_size": (3, 4, 2)[:n]}, {"output_ratio": (0.4,) * n}]
    for number, option in enumerate([*options, {**options[0], "return_indices": True}, {"output_size": 4}]):
        theirs, ours = (
            getattr(lib.nn, f"FractionalMaxPool{n}d")(2 if number else 3, _random_samples=u, **option)
            for lib, u in ((torch, samples), (weft, to_weft(samples)))
        )
        check_module(theirs, ours, ((2, 3, *sizes),))
    record_property("cases", 6)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling(n: int, record_property) -> None:
    sizes = (8, 6, 4)[:n]
    options = [((2,), {}), ((3, 2), {}), ((3, 2, 1), {}), ((2, 2), {"output_size": sizes})]
    for args, call in options:
        for lead in ((2, 3), (3,)):
            pool = getattr(torch.nn, f"MaxPool{n}d")(*args, return_indices=True)
            pooled, index = pool(torch.randn(*lead, *sizes))
            size = call or {"output_size": torch.Size((*lead, *sizes))}
            theirs, ours = (getattr(lib.nn, f"MaxUnpool{n}d")(*args) for lib in (torch, weft))
            check_module(theirs, ours, (pooled, index, [*size["output_size"]][-n:]))
    record_property("cases", 2 * len(options))


ERRORS = [
    ("Conv2d", (3, 4, 3), {"groups": 2}, "in_channels must be divisible by groups"),
    ("Conv2d", (4, 3, 3), {"groups": 2}, "out_channels must be divisible by groups"),
    ("Conv2d", (4, 3, 3), {"groups": 0}, "groups must be a positive integer"),
    ("Conv2d", (4, 3, 3), {"padding": "some"}, "Invalid padding string"),
    ("Conv2d", (4, 3, 3), {"padding": "same", "stride": 2}, "not supported for strided"),
    ("Conv2d", (4, 3, 3), {"padding_mode": "odd"}, "padding_mode must be one of"),
    ("ConvTranspose1d", (4, 3, 3), {"padding_mode": "reflect"}, 'Only "zeros" padding mode'),
    ("Bilinear", (0, 3, 3), {}, "in1_features must be > 0"),
    ("Unflatten", (1, 3), {}, "must be a tuple of ints"),
    ("Unflatten", (1, (3, "a")), {}, "found element of type"),
    ("Embedding", (3, 3, 5), {}, "Padding_idx must be within"),
    ("FractionalMaxPool2d", (2,), {}, "requires specifying either"),
    ("FractionalMaxPool2d", (2, 3, 0.5), {}, "only one of output_size"),
    ("FractionalMaxPool3d", (2,), {"output_ratio": 1.5}, "between 0 and 1"),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "message"), ERRORS)
def test_constructor_errors_are_those_of_torch(name: str, args: tuple, kwargs: dict, message: str) -> None:
    with pytest.raises(Exception, match=message) as theirs:
        getattr(torch.nn, name)(*args, **kwargs)
    with pytest.raises(theirs.type, match=message):
        getattr(nn, name)(*args, **kwargs)


def test_call_errors_are_those_of_torch() -> None:
    calls = [
        (lambda lib: lib.nn.CircularPad1d(1)(lib.zeros(1)), "expected 2D or 3D input"),
        (lambda lib: lib.nn.LazyConv2d(2, 2)(lib.zeros(1)), "Expected 3D .unbatched. or 4D .batched. input to"),
        (lambda lib: lib.nn.ConvTranspose2d(2, 2, 3)(lib.zeros(1, 2, 4, 4), [1]), "must have 2 or 4 elements"),
        (lambda lib: lib.nn.ConvTranspose2d(2, 2, 3)(lib.zeros(1, 2, 4, 4), [1, 3]), "valid sizes range from"),
        (lambda lib: lib.nn.Embedding.from_pretrained(lib.zeros(1)), "expected to be 2-dimensional"),
    ]
    for call, message in calls:
        with pytest.raises(Exception, match=message) as theirs:
            call(torch)
        with pytest.raises(theirs.type, match=message):
            call(weft)


def test_from_pretrained_shares_memory_and_freezes() -> None:
    rows = weft.arange(6.0).reshape(3, 2)
    for kind in (nn.Embedding, nn.EmbeddingBag):
        frozen, trained = kind.from_pretrained(rows), kind.from_pretrained(rows, freeze=False)
        assert not frozen.weight.requires_grad and trained.weight.requires_grad
        assert frozen.weight.data_ptr() == rows.data_ptr()
    assert nn.Embedding.from_pretrained(rows)(weft.tensor([2])).tolist() == [[4.0, 5.0]]


def test_padding_row_starts_at_zero_and_stays() -> None:
    table = nn.Embedding(4, 3, padding_idx=1)
    assert table.weight[1].tolist() == [0.0] * 3
    table(weft.tensor([0, 1, 1])).sum().backward()
    assert table.weight.grad.sum(1).tolist() == [3.0, 0.0, 0.0, 0.0]


def table_with_gradient(lib, kind: str, options: dict, calls: list) -> torch.Tensor | weft.Tensor:
    """The weight of a sparse table after the gradients of y² for these calls have come in."""
    table = getattr(lib.nn, kind)(6, 3, sparse=True, **options)
    table.load_state_dict({"weight": lib.arange(18.0).reshape(6, 3) / 9})
    for numbers in calls:
        table(*(lib.tensor(n) for n in numbers)).square().sum().backward()
    return table.weight


@pytest.mark.parametrize(
    ("kind", "options", "calls"),
    [
        ("Embedding", {}, [([[0, 2, 2], [5, 0, 1]],)]),
        ("Embedding", {"padding_idx": 2}, [([[0, 2, 2], [5, 0, 1]],)]),
        ("Embedding", {}, [([0, 4],), ([4, 1],)]),  # gradients add up
        ("Embedding", {"max_norm": 1.0}, [([3, 3, 5],)]),
        ("EmbeddingBag", {}, [([0, 2, 2, 5], [0, 2])]),
        ("EmbeddingBag", {"mode": "sum", "padding_idx": 2}, [([[0, 2], [1, 5]],)]),
    ],
)
def test_sparse_gradients_equal_torch(kind: str, options: dict, calls: list) -> None:
    theirs, ours = (table_with_gradient(lib, kind, options, calls) for lib in (torch, weft))
    assert ours.grad.is_sparse and ours.grad.shape == theirs.grad.shape
    want, got = theirs.grad.coalesce(), ours.grad.coalesce()
    assert got.indices().tolist() == want.indices().tolist()
    np.testing.assert_allclose(got.values().numpy(), want.values().numpy(), rtol=1e-6)
    np.testing.assert_allclose(ours.grad.to_dense().numpy(), theirs.grad.to_dense().numpy(), rtol=1e-6)


def test_sparse_and_dense_gradients_mix() -> None:
    """A table that is looked up and also used as a matrix (tied weights) has a dense gradient."""
    for lib in (torch, weft):
        table = lib.nn.Embedding(4, 2, sparse=True)
        table.load_state_dict({"weight": lib.ones(4, 2)})
        table(lib.tensor([1])).sum().backward()
        (table(lib.tensor([1])).sum() + table.weight.sum()).backward()
        table(lib.tensor([3])).sum().backward()
        assert not table.weight.grad.is_sparse
        assert table.weight.grad[:, 0].tolist() == [1.0, 3.0, 1.0, 2.0]


@pytest.mark.parametrize("name", ["SGD", "SparseAdam", "Adagrad"])
def test_optimisers_take_sparse_gradients(name: str) -> None:
    after = []
    for lib in (torch, weft):
        table = lib.nn.Embedding(6, 3, sparse=True)
        table.load_state_dict({"weight": lib.arange(18.0).reshape(6, 3) / 9})
        optimizer = getattr(lib.optim, name)(table.parameters(), lr=0.1)
        for step in range(5):
            optimizer.zero_grad()
            table(lib.tensor([0, 3, 3, step])).square().sum().backward()
            optimizer.step()
        after.append(to_numpy(table.weight))
    np.testing.assert_allclose(after[1], after[0], rtol=1e-5)


# ------------------------------------------------------------------------------------------- initial values

BOUNDS = [  # layer, bound of the uniform distribution of weight and bias
    (lambda lib: lib.nn.Linear(400, 300), 1 / 20),
    (lambda lib: lib.nn.Bilinear(100, 30, 40), 1 / 10),
    (lambda lib: lib.nn.Conv1d(40, 300, 10), 1 / 20),
    (lambda lib: lib.nn.Conv2d(32, 200, 5, groups=2), 1 / 20),
    (lambda lib: lib.nn.Conv3d(10, 90, 3), 1 / math.sqrt(270)),
    (lambda lib: lib.nn.ConvTranspose1d(100, 40, 10), 1 / 20),
    (lambda lib: lib.nn.ConvTranspose2d(80, 25, 4), 1 / 20),
    (lambda lib: lib.nn.ConvTranspose3d(30, 10, 3), 1 / math.sqrt(270)),
]


@pytest.mark.parametrize(("make", "bound"), BOUNDS)
def test_initial_weights_are_uniform_with_torch_bounds(make, bound: float) -> None:
    weft.manual_seed(1)
    torch.manual_seed(1)
    for layer in (make(torch), make(weft)):
        for value in (to_numpy(layer.weight), to_numpy(layer.bias)):
            assert 0.9 * bound < np.abs(value).max() <= bound
            assert abs(value.mean()) < 6 * bound / math.sqrt(3 * value.size)
            assert abs(value.std() * math.sqrt(3) / bound - 1) < 6 / math.sqrt(value.size)


def test_initial_embeddings_are_normal() -> None:
    weft.manual_seed(2)
    for table in (nn.Embedding(300, 100), nn.EmbeddingBag(300, 100)):
        value = to_numpy(table.weight)
        assert abs(value.mean()) < 0.02 and abs(value.std() - 1) < 0.02
        assert abs((value**4).mean() - 3) < 0.2
