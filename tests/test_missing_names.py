"""Names that are not there: what may be meant, where they are, and why Weft lacks what PyTorch has."""

from __future__ import annotations

import functools
import importlib
import inspect
import pickle
import pkgutil
import pydoc
import re
import subprocess
import sys
import traceback
import types
import typing

import pytest
import torch
import torch.nn.attention
import torch.utils.data

import weft
from weft.errors import MissingNameError
from weft.runtime.missing import GAPS, explained


@pytest.mark.parametrize(
    ("place", "name", "meant"),
    [
        ("", "tnesor", "tensor"),
        ("", "Tesnor", "Tensor"),
        ("", "lognspace", "logspace"),
        ("", "from_nunpy", "from_numpy"),
        ("", "no_grads", "no_grad"),
        ("nn", "Linaer", "Linear"),
        ("nn", "Conv2D", "Conv2d"),
        ("nn.functional", "cros_entropy", "cross_entropy"),
        ("nn.init", "xavier_nrmal_", "xavier_normal_"),
        ("nn.utils", "clip_grad_norms_", "clip_grad_norm_"),
        ("optim", "AdanW", "AdamW"),
        ("optim.lr_scheduler", "StepLr", "StepLR"),
        ("linalg", "sovle", "solve"),
        ("fft", "rftt", "rfft"),
        ("special", "erfinf", "erfinv"),
        ("distributions", "Norml", "Normal"),
        ("data", "DataLaoder", "DataLoader"),
        ("autograd", "gradchek", "gradcheck"),
        ("func", "vmpa", "vmap"),
        ("train", "Traner", "Trainer"),
        ("metrics", "acuracy", "accuracy"),
        ("masked", "sofmax", "softmax"),
        ("compiler", "cache_infos", "cache_info"),
        ("testing", "assert_closed", "assert_close"),
    ],
)
def test_a_slip_is_told_apart(place, name, meant):
    module = functools.reduce(getattr, filter(None, place.split(".")), weft)
    with pytest.raises(AttributeError, match=rf"module '{module.__name__}' has no attribute '{name}'.*`{meant}`"):
        getattr(module, name)


@pytest.mark.parametrize(
    ("place", "name", "home"),
    [
        ("", "Linear", "weft.nn.Linear"),
        ("", "Adam", "weft.optim.Adam"),
        ("", "MNIST", "weft.data.MNIST"),
        ("", "cross_entropy", "weft.nn.functional.cross_entropy"),
        ("nn", "softmax", "weft.softmax"),
        ("nn", "StepLR", "weft.optim.lr_scheduler.StepLR"),
        ("nn.functional", "Conv2d", "weft.nn.Conv2d"),
        ("", "Trainer", "weft.train.Trainer"),
    ],
)
def test_names_of_another_package_are_found(place, name, home):
    module = functools.reduce(getattr, filter(None, place.split(".")), weft)
    with pytest.raises(AttributeError, match=rf"; it is {re.escape(home)}$"):
        getattr(module, name)


# ------------------------------------------------------------------------------- what PyTorch has and Weft has not

SPACES = (
    *("", "nn", "nn.functional", "nn.init", "nn.utils", "optim", "optim.lr_scheduler", "linalg", "fft", "special"),
    *("distributions", "utils.data", "cuda", "sparse", "func", "masked", "testing", "utils"),
)
LEAKED = {  # what their modules import, and what is of use to PyTorch's own code alone
    *("torch", "windows", "functional", "types", "maskedtensor", "has_torch_function", "has_torch_function_unary"),
    *("has_torch_function_variadic", "handle_torch_function", "boolean_dispatch", "assert_int_or_pair", "common_args"),
    *("factory_common_args", "multi_dim_common", "common_notes", "USE_GLOBAL_DEPS", "USE_RTLD_GLOBAL_WITH_LIBTORCH"),
    *(
        "BroadcastingList1",
        "BroadcastingList2",
        "BroadcastingList3",
        "GRID_SAMPLE_INTERPOLATION_MODES",
        "TYPE_CHECKING",
    ),
    *("GRID_SAMPLE_PADDING_MODES", "reproducibility_notes", "sparse_support_notes", "tf32_notes", "classproperty"),
    *("EPOCH_DEPRECATION_WARNING", "FatalError", "DType", "DimOrDims", "annotations", "get_device", "is_neg"),
    *("profiler_allow_cudagraph_cupti_lazy_reinit_cuda12", "PARAM_LIST", "inf"),
}


def public(module: types.ModuleType) -> list[str]:
    """What a module of PyTorch offers: not private, not of Python's library, not imported from another package."""
    names = []
    for name in dir(module):
        value = getattr(module, name)
        home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None) or ""
        foreign = (inspect.ismodule(value) or inspect.isclass(value) or callable(value)) and home.partition(".")[0] in (
            *(
                "typing",
                "typing_extensions",
                "collections",
                "functools",
                "builtins",
                "contextlib",
                "abc",
                "enum",
                "copy",
            ),
            *(
                "math",
                "os",
                "sys",
                "warnings",
                "weakref",
                "dataclasses",
                "importlib",
                "numpy",
                "ctypes",
                "glob",
                "_bisect",
            ),
            *("threading", "platform", "textwrap", "inspect", "_functools", "torch_c", "__future__"),
        )
        typed = isinstance(value, (typing.TypeVar, typing.ParamSpec)) or typing.get_origin(value) is not None
        if not name.startswith("_") and not foreign and not typed and name not in LEAKED:
            names.append(name)
    return names


@pytest.mark.parametrize("space", SPACES)
def test_what_pytorch_has_is_there_or_explained(space):
    theirs = importlib.import_module(f"torch.{space}" if space else "torch")
    ours = functools.reduce(getattr, filter(None, space.split(".")), weft)
    parts = () if space else [part.name for part in pkgutil.iter_modules(torch.__path__) if part.name[0] != "_"]
    missing = [name for name in {*public(theirs), *parts} - LEAKED if not hasattr(ours, name)]
    if space:  # how PyTorch cuts its packages into files is its own affair
        missing = [name for name in missing if not inspect.ismodule(getattr(theirs, name))]
    silent = [
        name for name in missing if not re.search(r": .*; instead: .*`|; it is weft\.", explained(ours.__name__, name))
    ]
    assert not silent


@pytest.mark.parametrize("gap", GAPS, ids=lambda gap: gap.names.split()[0])
def test_alternatives_exist(gap):
    advised = re.findall(r"`weft\.([\w.]+)`", gap.advice)
    assert advised
    for name in advised:
        found = weft
        for part in name.split("."):
            if isinstance(found, types.ModuleType) and not hasattr(found, part):
                found = importlib.import_module(f"{found.__name__}.{part}")
            else:
                found = getattr(found, part)


def test_no_row_is_for_a_name_that_is_there():
    rows = [name for gap in GAPS for name in gap.names.split() if "*" not in name]
    there = []
    for name in rows:
        try:
            functools.reduce(getattr, name.split("."), weft)
            there.append(name)
        except AttributeError:
            pass
    assert not there


# ----------------------------------------------------------------------------------------------- the error itself


def test_the_error_says_it_once_and_travels():
    with pytest.raises(MissingNameError) as caught:
        weft.tnesor  # noqa: B018
    assert traceback.format_exception(caught.value)[-1].count("tensor") == 1
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and isinstance(again, AttributeError)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("from weft import tnesor", "did you mean `tensor`"),
        ("from weft.nn import Linear, Conv2D", "did you mean `Conv2d`"),
        ("from weft import jit", "`weft.compile`"),
        ("from weft.optim import StepLR", r"it is weft\.optim\.lr_scheduler\.StepLR"),
        ("from weft.linalg import sovle", "did you mean `solve`"),
    ],
)
def test_imports_say_it_too(line, words):
    with pytest.raises(ImportError, match=words) as caught:
        exec(line, {})
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_imports_of_what_is_there_work():
    exec(
        "from weft import nn, conv2d, tensor, linalg\nfrom weft.data import loader, MNIST\nfrom weft.nn.beyond import local",
        {},
    )
    with pytest.raises(ModuleNotFoundError):
        exec("import weft.no_such_module", {})


def test_asking_costs_nothing():
    """`hasattr` neither imports packages nor compares names."""
    program = (
        "import sys, weft; hasattr(weft, 'nothing_of_this_name'); "
        "print([name for name in ('difflib', 'weft.runtime.missing', 'weft.nn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_attributes_of_tensors_stay_quick():
    """A `__getattr__` of Tensor would slow down every attribute of every tensor (12 % of a tiny addition)."""
    assert not hasattr(weft.Tensor, "__getattr__")


# ---------------------------------------------------------------------------------------------------- dir and help


@pytest.mark.parametrize("module", ["weft", "weft.nn", "weft.optim", "weft.data", "weft.linalg", "weft.distributions"])
def test_dir_lists_what_is_public(module):
    names = dir(importlib.import_module(module))
    assert names == sorted(names) and "annotations" not in names
    assert not [name for name in names if name.startswith("_") and not name.startswith("__")]
    assert all(hasattr(importlib.import_module(module), name) for name in names)


def test_help_of_the_package_shows_the_way():
    text = pydoc.plain(pydoc.render_doc(weft))
    start = text[: text.index("PACKAGE CONTENTS")]
    for word in (
        "weft.nn",
        "weft.optim",
        "weft.data",
        "weft.train",
        "weft.compile",
        "weft.distributions",
        "weft.inspect",
    ):
        assert word in start
    assert len(start.splitlines()) <= 40
    for name in ("add", "softmax", "zeros", "nn.Linear", "optim.Adam", "data.MNIST", "linalg.inv"):
        found = functools.reduce(getattr, name.split("."), weft)
        lines = pydoc.plain(pydoc.render_doc(found)).splitlines()
        assert len([line for line in lines if line.strip(" |")]) >= 3, name
