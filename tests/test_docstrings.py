"""Layers, losses, optimisers, schedules, distributions explain every argument in PyTorch's names; their examples run."""

from __future__ import annotations

import dataclasses
import doctest
import functools
import inspect
import re

import pytest
import torch
import torch.optim.swa_utils

import weft
from weft import distributions, nn, optim
from weft.optim import lr_scheduler, swa_utils
from weft.runtime.arguments import arguments_of, explain_arguments, explains

SPACES = {
    "nn": nn,
    "optim": optim,
    "optim.lr_scheduler": lr_scheduler,
    "optim.swa_utils": swa_utils,
    "distributions": distributions,
    "distributions.heads": distributions.heads,
}
ABSTRACT = {"DistributionHead", "ExponentialFamily", "LazyModuleMixin", "RNNBase", "RNNCellBase", "Score"}
GLOBALS = {"weft": weft, "nn": nn, "optim": optim, "F": nn.functional, "lr_scheduler": lr_scheduler}


def public_classes() -> dict[str, type]:
    found = {}
    for space, module in SPACES.items():
        for name in dir(module):
            value = getattr(module, name)
            own = inspect.isclass(value) and value.__module__.startswith(module.__name__.rsplit(".lr_", 1)[0])
            if own and not name.startswith("_") and value not in found.values() and name != "BatchNorm":
                found[f"{space}.{name}"] = value
    return found


CLASSES = public_classes()


def needs_example(name: str) -> bool:
    """Classes that users make something of: not those they inherit from, nor results with named fields."""
    result = issubclass(CLASSES[name], tuple) or dataclasses.is_dataclass(CLASSES[name])
    return not result and name.rpartition(".")[2] not in ABSTRACT


def test_there_are_many():
    assert len(CLASSES) > 240
    assert {"nn.Conv2d", "nn.CrossEntropyLoss", "optim.Adam", "optim.lr_scheduler.StepLR", "optim.swa_utils.SWALR"} <= {
        *CLASSES
    }


@pytest.mark.parametrize("name", CLASSES)
def test_every_argument_is_explained(name):
    cls = CLASSES[name]
    doc = cls.__doc__
    assert doc and doc.splitlines()[0].strip(), "the first line says what it is"
    assert [argument for argument in arguments_of(cls) if not explains(doc, argument)] == []


@pytest.mark.parametrize("name", CLASSES)
def test_explanations_explain(name):
    """An entry says more than the name again, and is of an argument that there is."""
    cls = CLASSES[name]
    arguments = arguments_of(cls)
    for names, text in re.findall(r"^ +([a-zA-Z_]\w*(?:, \w+)*): (\S.*)$", cls.__doc__, re.MULTILINE):
        if names in ("Shape", "Shapes") or "..." in text or not set(names.split(", ")) & set(arguments):
            continue
        assert set(names.split(", ")) <= set(arguments), names
        words = {word.lower() for word in re.findall(r"\w+", text)} - {"the", "a", "of", "argument", "parameter"}
        assert words - set(names.replace(",", " ").replace("_", " ").split()), f"{names}: {text}"


def of_pytorch(name: str) -> type | None:
    """PyTorch's class of this name."""
    return functools.reduce(lambda place, part: getattr(place, part, None), name.split("."), torch)


SHARED = [name for name in CLASSES if of_pytorch(name) is not None]


@pytest.mark.parametrize("name", SHARED)
def test_names_are_pytorchs(name):
    theirs = of_pytorch(name)
    if issubclass(theirs, torch.Tensor):  # made by __new__
        return
    wanted = [
        p.name
        for p in inspect.signature(theirs.__init__).parameters.values()
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if wanted[1:] and "args" not in inspect.signature(theirs.__init__).parameters:  # what takes *args tells no names
        assert arguments_of(CLASSES[name])[: len(wanted) - 1] == wanted[1:]


def complaints(name: str, docstring: str, names: dict[str, object]) -> str:
    """What doctest has to say of the examples of a docstring."""
    examples = doctest.DocTestParser().get_doctest(docstring, names, name, None, 0)
    assert examples.examples, "no example"
    told: list[str] = []
    doctest.DocTestRunner(verbose=False).run(examples, out=told.append)
    return "".join(told)


@pytest.mark.parametrize("name", list(filter(needs_example, CLASSES)))
def test_examples_run(name):
    cls = CLASSES[name]
    weft.manual_seed(0)
    assert not complaints(name, cls.__doc__, {**vars(inspect.getmodule(cls)), **GLOBALS})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(filter(needs_example, SHARED)))
def test_examples_show_what_pytorch_computes(name):
    theirs = {"torch": torch, "nn": torch.nn, "optim": torch.optim, "lr_scheduler": torch.optim.lr_scheduler}
    torch.manual_seed(0)
    assert not complaints(name, CLASSES[name].__doc__.replace("weft.", "torch."), theirs)


# -------------------------------------------------------------------------------------- arguments of base classes


def test_entries_of_bases_come_in_the_order_of_the_constructor():
    class Base:
        """Of all.

        size: how large
          it is
        left, right: two sides
        """

        def __init__(self, size, left, right):
            pass

    class Child(Base):
        """Of one. Shape: (*) → (*)

        own: mine

        >>> 1 + 1
        2
        """

        def __init__(self, right, own, size, dtype=None):
            pass

    class Told(Child):
        """Tells `size`.

        right: otherwise
        """

    explain_arguments([Told, Child, Base], {"device, dtype": "the type"})
    lines = [line.strip() for line in Child.__doc__.splitlines()]
    assert lines == [
        *(
            "Of one. Shape: (*) → (*)",
            "",
            "right: two sides",
            "own: mine",
            "size: how large",
            "it is",
            "dtype: the type",
        ),
        *("", ">>> 1 + 1", "2", ""),
    ]
    assert inspect.getdoc(Told) == "Tells `size`.\n\nright: otherwise\nown: mine\ndtype: the type"
    assert Base.__doc__.startswith("Of all.")


def test_steps_that_are_not_recorded_are_refused():
    with pytest.raises(ValueError, match=r"SGD: differentiable=True is not supported"):
        optim.SGD([weft.zeros(1, requires_grad=True)], differentiable=True)
