"""Every module and function of the tables in `tests/nn`, compiled: outputs, gradients and state equal eager code's.

All cases of one module, or many calls of functions, run in one compiled function, forward and backward.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import tests.nn.test_layers_activation as activation
import tests.nn.test_layers_basic as basic
import tests.nn.test_layers_dropout as dropout
import tests.nn.test_layers_loss as loss
import tests.nn.test_layers_norm as norm
import tests.nn.test_layers_recurrent as recurrent
import tests.nn.test_layers_transformer as transformer
import weft
from tests.nn.functional_samples import SAMPLES
from tests.nn.modules_harness import Case, case, leaves, map_tree, sample, to_weft
from tests.nn.test_functional_spatial import CALLS as SPATIAL
from tests.ops.harness import draw
from tests.ops.harness import to_weft as array_to_weft

from .comparing import difference
from .graphs import weighting


def recurrent_cases() -> Iterator[tuple[str, Case]]:
    """Layers with every option, with initial states, and cells."""
    for name in recurrent.LAYERS:
        for one in recurrent.layer_cases(name):
            yield name, one
        yield name, case((5, 2, 3), args=(3, 4), num_layers=2, dropout=0.5)
    for name, options in recurrent.CELLS.items():
        for option, batch in itertools.product(options, [(2,), (), (0,)]):
            state = torch.linspace(-1, 1, 8).reshape(2, 4)
            state = [torch.zeros(*batch, 4) + s for s in state]
            states = (tuple(state),) if name == "LSTMCell" else (state[0],)
            yield name, case((*batch, 3), args=(3, 4), **option)
            yield name, case((*batch, 3), *states, args=(3, 4), **option)


def transformer_cases() -> Iterator[tuple[str, Case]]:
    t = transformer
    for options, call in itertools.product(t.ATTENTION, t.CALLS.values()):
        shapes = [(t.L, t.N, t.E), (t.S, t.N, options.get("kdim", t.E)), (t.S, t.N, options.get("vdim", t.E))]
        yield "MultiheadAttention", case(*t.shaped(options, *shapes), args=(t.E, 2), call=call, **options)
    for options in t.LAYERS:
        for call in t.ENCODER_CALLS:
            args = (t.E, 2, 12, 0.1)
            yield "TransformerEncoderLayer", case(*t.shaped(options, (t.S, t.N, t.E)), args=args, call=call, **options)
        for call in t.DECODER_CALLS:
            shapes = t.shaped(options, (t.L, t.N, t.E), (t.S, t.N, t.E))
            yield "TransformerDecoderLayer", case(*shapes, args=(t.E, 2, 12, 0.0), call=call, **options)
        sizes = {"nhead": 2, "num_encoder_layers": 2, "num_decoder_layers": 1, "dim_feedforward": 12, "dropout": 0.0}
        call = {"tgt_mask": t.AHEAD(t.L), "src_key_padding_mask": t.PADDING, "memory_key_padding_mask": t.PADDING}
        shapes = t.shaped(options, (t.S, t.N, t.E), (t.L, t.N, t.E))
        yield "Transformer", case(*shapes, args=(t.E,), call=call, **sizes, **options)


def all_cases() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    activation.CASES.update({name: list(cases) for name, cases in activation.CASES.items()})  # some are generators
    for table in (basic.TABLE, activation.CASES, loss.CASES, norm.RUNNING, norm.OTHERS):
        for name, cases in table.items():
            found.setdefault(name, []).extend(cases)
    found |= {name: [case(shape, p=0.4) for shape in shapes] for name, shapes in dropout.CASES.items()}
    found["RReLU"] = list(activation.over_shapes((), (0.2, 0.4)))
    for name, one in (*recurrent_cases(), *transformer_cases()):
        found.setdefault(name, []).append(one)
    return found


CASES = all_cases()


def prepared(name: str, dtype: torch.dtype, train: bool) -> tuple[list[Any], list[Any]]:
    """The modules of all cases with their keyword inputs, and the inputs of the calls; the same at every call."""
    modules, inputs = [], []
    for number, one in enumerate(CASES[name]):
        torch.manual_seed(number)
        weft.manual_seed(number)
        module = getattr(weft.nn, name)(*map_tree(to_weft, one.args), **map_tree(to_weft, dict(one.kwargs)))
        modules.append((module.to(to_weft(dtype)).train(train), map_tree(to_weft, sampled(one.call, dtype))))
        inputs.append([map_tree(to_weft, sample(value, dtype, True)) for value in one.inputs])
    return modules, inputs


def sampled(call: Any, dtype: torch.dtype) -> dict[str, Any]:
    return {key: sample(value, dtype, False) for key, value in call.items()}


def run_all(modules: list[Any]) -> Callable[[list[Any]], list[Any]]:
    """Outputs of all modules, and gradients of a weighted sum of each one's outputs."""

    def run(inputs: list[Any]) -> list[Any]:
        results = []
        for (module, call), args in zip(modules, inputs, strict=True):
            outputs = leaves(module(*args, **call))
            wanted = [x for x in (*leaves(args), *module.parameters()) if x.requires_grad]
            made = [y for y in outputs if y.requires_grad]
            slopes: Any = ()
            if made and wanted:
                slopes = weft.autograd.grad(made, wanted, list(map(weighting, made)), allow_unused=True)
            results.append((outputs, slopes))
        return results

    return run


def outcome(name: str, dtype: torch.dtype, train: bool, wrap: Callable[[Any], Any]) -> tuple[Any, ...]:
    modules, inputs = prepared(name, dtype, train)
    weft.manual_seed(1)
    run = wrap(run_all(modules))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = [[run(inputs), [list(m.state_dict().values()) for m, _ in modules]] for _ in range(2)]
    return calls, list(weft.get_rng_state().numpy())


# In double precision one module of each kind: the operations themselves are compared in every type in test_equality.py.
DOUBLE = (
    *("Linear", "Conv1d", "ConvTranspose2d", "MaxPool2d", "BatchNorm1d", "LayerNorm", "GELU", "Dropout"),
    *("CrossEntropyLoss", "MSELoss", "GRUCell", "RNN"),
)
FORMS = [
    pytest.param(name, dtype, id=f"{name}-{str(dtype).removeprefix('torch.')}", marks=marks)
    for dtype in (torch.float32, torch.float64)
    for name in CASES
    for marks in [(pytest.mark.slow,) if dtype is torch.float64 and name not in DOUBLE else ()]
]


@pytest.mark.parametrize(("name", "dtype"), FORMS)
def test_modules_compiled_are_eager(name: str, dtype: torch.dtype, record_property: Any) -> None:
    cases = 0
    for train in (True, False) if name in norm.RUNNING else (True,):
        expected = outcome(name, dtype, train, lambda function: function)
        found = outcome(name, dtype, train, weft.compile)
        for place, (want, got) in enumerate(zip(expected[0], found[0], strict=True)):
            for number, (a, b) in enumerate(zip(want[0], got[0], strict=True)):
                assert not (reason := difference(a, b)), f"call {place}, {CASES[name][number]}: {reason}"
            assert not (reason := difference(want[1], got[1])), f"state after call {place}: {reason}"
        assert expected[1] == found[1], "the random stream is at another place"
        cases += len(CASES[name])
    record_property("cases", cases)


# ---------------------------------------------------------------------------------------------- functions

FUNCTIONS = [*((name, call) for name, samples in SAMPLES.items() for call in samples), *SPATIAL]
PARTS = 10


def called(some: list[Any]) -> Callable[[list[Any]], list[Any]]:
    """Results and gradients of several functions."""

    def run(packs: list[Any]) -> list[Any]:
        found = []
        for (name, _), (args, kwargs) in zip(some, packs, strict=True):
            results = leaves([getattr(weft.nn.functional, name)(*args, **kwargs)])
            wanted = [x for x in leaves([args, kwargs]) if x.requires_grad]
            made = [y for y in results if y.requires_grad]
            if made and wanted:
                slopes = weft.autograd.grad(made, wanted, list(map(weighting, made)), allow_unused=True)
                results = [*results, *(g for g in slopes if g is not None)]
            found.append(results)
        return found

    return run


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("part", range(PARTS))
def test_functions_compiled_are_eager(part: int, dtype: str, record_property: Any) -> None:
    some, packs = FUNCTIONS[part::PARTS], []
    some = [(name, call) for name, call in some if not (name == "one_hot" and len(call.args) == 1)]  # size by value
    for _, call in some:
        args, kwargs = draw(call, dtype, "contiguous")
        packs.append(([array_to_weft(a, True) for a in args], {k: array_to_weft(v, True) for k, v in kwargs.items()}))
    weft.manual_seed(0)
    expected = called(some)(packs)
    weft.manual_seed(0)
    found = weft.compile(called(some))(packs)
    for (name, call), x, y in zip(some, expected, found, strict=True):
        assert not (reason := difference(x, y)), f"{name} {call}: {reason}"
    record_property("operations", sorted({name for name, _ in some}))
    record_property("cases", len(some))
