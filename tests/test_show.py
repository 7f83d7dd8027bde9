"""Printed tensors against PyTorch's own `repr`, with `torch.` read as `weft.`.

A table of arrays × dtypes × options, the suffixes, random arrays from Hypothesis,
and the options themselves.
"""

import math

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from weft import show

VIEWABLE = {  # dtypes NumPy lacks: the same bits under ml_dtypes' name
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
}


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach()
    if tensor.dtype in VIEWABLE:
        bits, dtype = VIEWABLE[tensor.dtype]
        return tensor.contiguous().view(bits).numpy().view(dtype)
    return tensor.numpy()


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def weft_text(tensor: torch.Tensor, **keywords) -> str:
    return show.tensor_repr(
        to_numpy(tensor),
        dtype_name=name_of(tensor.dtype),
        default_dtype_name=name_of(torch.get_default_dtype()),
        requires_grad=tensor.requires_grad,
        grad_fn_name=type(tensor.grad_fn).__name__ if tensor.grad_fn is not None else None,
        **keywords,
    )


def assert_same(tensor: torch.Tensor, **options) -> None:
    with torch._tensor_str.printoptions(**options), show.printoptions(**options):
        expected = repr(tensor).replace("torch.", "weft.")
        assert weft_text(tensor) == expected


def ramp(*shape: int, scale: float = 0.37) -> torch.Tensor:
    count = math.prod(shape)
    return (torch.arange(count, dtype=torch.float64).reshape(shape) - count / 3) * scale


INFINITE, MISSING = math.inf, math.nan
FLOATS = {
    "scalar": torch.tensor(3.14159265),
    "whole scalar": torch.tensor(-7.0),
    "zero scalar": torch.tensor(0.0),
    "minus zero": torch.tensor([-0.0, 0.0]),
    "minus zero in company": torch.tensor([-0.0, 0.25]),
    "nan scalar": torch.tensor(MISSING),
    "infinite scalar": torch.tensor(-INFINITE),
    "tiny scalar": torch.tensor(3e-5),
    "whole": torch.tensor([1.0, 2.0, -30.0]),
    "fractions": torch.tensor([0.1, -22.5, 3.0]),
    "one element": torch.tensor([0.5]),
    "ones in three axes": torch.ones(1, 1, 1),
    "zeros": torch.zeros(3, 2),
    "only special": torch.tensor([0.0, MISSING, INFINITE, -INFINITE]),
    "whole with special": torch.tensor([1.0, MISSING, INFINITE, -INFINITE, 0.0]),
    "wide whole with special": torch.tensor([12345.0, MISSING, -INFINITE]),
    "fractions with special": torch.tensor([[1.5, MISSING], [INFINITE, -INFINITE]]),
    "scientific with special": torch.tensor([1.5e-3, 9.0, MISSING, INFINITE, -INFINITE, 0.0, -0.0]),
    "ratio 1000": torch.tensor([0.0078125, 7.8125]),
    "ratio above 1000": torch.tensor([0.0078125, 7.828125]),
    "large": torch.tensor([1.0e4, 5.0e4]),
    "1e-4": torch.tensor([1.0e-4, 2.0e-4]),
    "below 1e-4": torch.tensor([0.9e-4, 2.0e-4]),
    "whole with wide range": torch.tensor([1.0, 2048.0]),
    "negative scientific": torch.tensor([-1.0e-5, 2.0]),
    "rounds up": torch.tensor([0.99996, 9.99996, 99.99996]),
    "half way": torch.tensor([0.00005, 0.00015, 0.12345, 0.12355]),
    "row wraps": ramp(40),
    "wide row wraps": ramp(30, scale=113.7),
    "matrix": ramp(3, 4),
    "column": ramp(12, 1),
    "wrapping matrix": ramp(3, 15),
    "three axes": ramp(2, 3, 4),
    "four axes": ramp(2, 2, 2, 3),
    "five axes": ramp(1, 2, 1, 2, 2),
    "edges of a vector": ramp(1001),
    "exactly the threshold": ramp(10, 10, 10),
    "edges of a matrix": ramp(40, 50),
    "edges of long rows": ramp(2, 600),
    "edges of long columns": ramp(600, 2),
    "edges of three axes": ramp(11, 12, 13),
    "edges of one axis": ramp(5, 6, 7, 8),
    "edges hide the range": torch.cat([ramp(5), torch.full((2000,), 1e9, dtype=torch.float64), ramp(5)]),
    "transposed": ramp(4, 3).T,
    "every other": ramp(9)[::2],
    "broadcast": torch.tensor([1.5]).expand(3, 4),
    "empty": torch.zeros(0),
    "empty rows": torch.zeros(0, 3),
    "empty columns": torch.zeros(2, 0, 4),
}
LARGE = {  # beyond what half precision holds
    "1e8": torch.tensor([1.0e8]),
    "above 1e8": torch.tensor([1.00000008e8, 9.9e7]),
    "large whole": torch.tensor([1.0e5, 9.9e7]),
    "huge": torch.tensor([1.0e30, -1.0e-30]),
    "denormal": torch.tensor([1.0e-44]),
}
DOUBLE = {
    "extreme": torch.tensor([1e300, 1e-300], dtype=torch.float64),
    "overflowing ratio": torch.tensor([1.7e308, 5e-324], dtype=torch.float64),
    "exact": torch.tensor([1.000000000000001, 2.0], dtype=torch.float64),
}
FLOAT_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=name_of)
@pytest.mark.parametrize("name", FLOATS)
def test_floats(name, dtype):
    assert_same(FLOATS[name].to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=name_of)
@pytest.mark.parametrize("name", LARGE)
def test_large_floats(name, dtype):
    assert_same(LARGE[name].to(dtype))


@pytest.mark.parametrize("name", DOUBLE)
def test_doubles(name):
    assert_same(DOUBLE[name])


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=name_of)
@pytest.mark.parametrize("name", ["fractions", "whole", "matrix", "scalar", "wrapping matrix", "zeros"])
def test_eight_bit_floats(name, dtype):
    assert_same(FLOATS[name].clamp(-200, 200).to(dtype))


INTEGER_DTYPES = (
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    torch.bool,
)
INTEGERS = {
    "scalar": torch.tensor(5),
    "row": torch.arange(10),
    "uneven": torch.tensor([0, 1, 100]),
    "wrapping": torch.arange(100),
    "cube": torch.arange(24).reshape(2, 3, 4),
    "edges": torch.arange(2000) % 100,
    "edges of a matrix": torch.arange(3000).reshape(50, 60) % 100,
    "empty": torch.zeros(0, dtype=torch.int64),
    "empty rows": torch.zeros(0, 5, dtype=torch.int64),
}


@pytest.mark.parametrize("dtype", INTEGER_DTYPES, ids=name_of)
@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name, dtype):
    assert_same(INTEGERS[name].to(dtype))


@pytest.mark.parametrize("dtype", INTEGER_DTYPES[:-1], ids=name_of)
def test_integer_limits(dtype):
    limits = torch.iinfo(dtype)
    assert_same(torch.tensor([limits.min, 0, limits.max], dtype=dtype))


@pytest.mark.parametrize(
    "values", [[True], [False, True], [[True, True]], [[True], [False]]], ids=["one", "two", "row", "column"]
)
def test_booleans(values):
    assert_same(torch.tensor(values))


COMPLEX = {
    "scalar": torch.tensor(1.5 - 2j),
    "whole": torch.tensor([1 + 2j, -3 - 40j, 0j]),
    "mixed parts": torch.tensor([0.5 + 1j, 100.25 - 3j]),
    "real scientific": torch.tensor([1e-6 + 1j, 2 - 2j]),
    "imaginary scientific": torch.tensor([1 + 1e-6j, 2 - 2j]),
    "special": torch.tensor([complex(MISSING, INFINITE), complex(-INFINITE, MISSING), 1.5 - 0.5j]),
    "minus zero": torch.tensor([complex(-0.0, -0.0), complex(0.0, 0.0), 0.5 + 0.5j]),
    "wrapping": torch.complex(ramp(20), -ramp(20, scale=1.3)),
    "matrix": torch.complex(ramp(3, 4), ramp(3, 4, scale=7)),
    "edges": torch.complex(ramp(30, 40), ramp(30, 40, scale=-1)),
    "empty": torch.zeros(0, 2, dtype=torch.complex64),
}


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=name_of)
@pytest.mark.parametrize("name", COMPLEX)
def test_complex(name, dtype):
    assert_same(COMPLEX[name].to(dtype))


OPTIONS = [
    *({"precision": digits} for digits in (0, 1, 2, 8)),
    *({"linewidth": width} for width in (0, 1, 20, 40, 79, 120, 1000)),
    *({"threshold": count} for count in (0, 1, 5, 12, math.inf)),
    *({"threshold": 3, "edgeitems": count} for count in (0, 1, 2, 5)),
    {"edgeitems": 0},
    {"edgeitems": 1, "threshold": 0, "linewidth": 25},
    {"sci_mode": True},
    {"sci_mode": False},
    {"sci_mode": True, "precision": 1},
    {"sci_mode": False, "precision": 0},
    *({"profile": profile} for profile in ("default", "short", "full")),
    {"profile": "short", "precision": 5, "threshold": 4},
]
OPTION_CASES = {
    **{f"float {name}": FLOATS[name] for name in ("scalar", "whole", "zeros", "wrapping matrix", "four axes")},
    **{f"float {name}": FLOATS[name] for name in ("scientific with special", "edges of long rows", "empty rows")},
    "whole scientific": torch.tensor([1.0, 2048.0, 0.0, MISSING]),
    "bfloat16": ramp(5, 7).bfloat16(),
    "integers": INTEGERS["cube"],
    "booleans": torch.arange(30).reshape(5, 6) % 4 == 0,
    "complex": COMPLEX["matrix"],
    "complex scalar": COMPLEX["scalar"],
}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", OPTION_CASES)
def test_options(name, options):
    assert_same(OPTION_CASES[name], **options)


@pytest.mark.parametrize("default", FLOAT_DTYPES, ids=name_of)
@pytest.mark.parametrize("dtype", [*FLOAT_DTYPES, torch.complex64, torch.complex128, torch.int32], ids=name_of)
@pytest.mark.parametrize("shape", [(2,), (0,), (0, 3)], ids=str)
def test_dtype_is_said_unless_it_is_the_default(default, dtype, shape):
    torch.set_default_dtype(default)
    try:
        assert_same(torch.ones(shape, dtype=dtype))
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("length", range(1, 40))
def test_suffixes_wrap_where_the_line_is_full(length):
    leaf = torch.full((length,), 0.5, dtype=torch.float64, requires_grad=True)
    assert_same(leaf)
    assert_same(leaf + 1)
    assert_same((leaf * 2).sum())
    assert_same(torch.stack([leaf, leaf]).mT, linewidth=50)


def test_gradient_suffixes_by_hand():
    text = show.tensor_repr(
        np.float32([[1, 2], [3, 4]]),
        dtype_name="float32",
        default_dtype_name="float32",
        requires_grad=True,
        grad_fn_name="AddBackward0",
    )
    assert text == "tensor([[1., 2.],\n        [3., 4.]], grad_fn=<AddBackward0>)"


def test_device_extra_and_prefix():
    text = show.tensor_repr(
        np.float32([[0.5], [1]]),
        dtype_name="float32",
        default_dtype_name="float64",
        requires_grad=True,
        prefix="Weights(",
        extra={"layout": "weft.strided"},
        device="cuda:0",
    )
    assert text == (
        "Weights([[0.5000],\n         [1.0000]], device='cuda:0', dtype=weft.float32, layout=weft.strided,\n"
        "        requires_grad=True)"
    )


def test_subclass_prefix_sets_the_indentation():
    class Longer(torch.Tensor):
        pass

    values = ramp(3, 15).float()
    assert weft_text(values, prefix="Longer(") == repr(values.as_subclass(Longer))


shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7)
options = st.fixed_dictionaries(
    {},
    optional={
        "precision": st.integers(0, 9),
        "threshold": st.integers(0, 200),
        "edgeitems": st.integers(0, 4),
        "linewidth": st.integers(0, 130),
        "sci_mode": st.sampled_from([None, True, False]),
        "profile": st.sampled_from(["default", "short", "full"]),
    },
)
element_types = st.sampled_from(
    [np.float32, np.float64, np.float16, np.complex64, np.complex128, np.int64, np.int8, np.uint8, np.bool_]
)


@settings(max_examples=400, deadline=None)
@given(hnp.arrays(element_types, shapes), options)
def test_any_array(array, chosen):
    assert_same(torch.from_numpy(array), **chosen)


@settings(max_examples=200, deadline=None)
@given(hnp.arrays(np.float64, shapes, elements=st.floats(-2e3, 2e3).map(lambda x: round(x, 2))), options)
def test_any_array_of_ordinary_numbers(array, chosen):
    assert_same(torch.from_numpy(array), **chosen)
    assert_same(torch.from_numpy(array).bfloat16(), **chosen)


@pytest.fixture
def fresh_options():
    yield
    show.set_printoptions(profile="default")
    torch.set_printoptions(profile="default")


CALLS = [
    {"precision": 7},
    {"profile": "short"},
    {"linewidth": 33},
    {"sci_mode": True},
    {"edgeitems": 1},
    {"profile": "full", "edgeitems": 9},
    {},
    {"profile": "default", "sci_mode": False},
]


def test_set_and_get_follow_pytorch(fresh_options):
    assert show.get_printoptions() == torch._tensor_str.get_printoptions()
    for call in CALLS:
        show.set_printoptions(**call)
        torch.set_printoptions(**call)
        assert show.get_printoptions() == torch._tensor_str.get_printoptions(), call


def test_context_restores_after_an_error():
    before = show.get_printoptions()
    with pytest.raises(KeyError), show.printoptions(precision=1, sci_mode=True):
        assert show.get_printoptions()["precision"] == 1
        raise KeyError
    assert show.get_printoptions() == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"profile": "tiny"}, "profile 'tiny' is unknown.*default.*short.*full"),
        ({"precision": -1}, "precision must be a number ≥ 0, got -1"),
        ({"precision": 2.5}, "precision must be a number ≥ 0, got 2.5"),
        ({"edgeitems": "three"}, "edgeitems .* got 'three'"),
        ({"threshold": math.nan}, "threshold .* got nan"),
        ({"linewidth": -80}, "linewidth .* got -80"),
    ],
    ids=str,
)
def test_bad_options_change_nothing(call, message):
    before = show.get_printoptions()
    with pytest.raises(ValueError, match=message):
        show.set_printoptions(**call)
    assert show.get_printoptions() == before
