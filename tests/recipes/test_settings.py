"""Settings: typed values from Python, words and files, and errors that name what was meant."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

import pytest

from weft import recipes
from weft.errors import OptionError
from weft.recipes import Goal, Settings, TrainSettings, option


@dataclass(kw_only=True)
class Sample(TrainSettings):
    """One field of every type."""

    epochs: int = 7
    name: str = option("a", "a word")
    flag: bool = option(False, "a switch")
    hidden: tuple[int, ...] = option((8, 8), "widths", at_least=1)
    kind: Literal["relu", "tanh"] = option("relu", "a choice")
    limit: int | None = option(None, "a limit", at_least=1)
    share: float = option(0.5, "a share", at_least=0, at_most=1)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("epochs=3", 3),
        ("epochs=1e3", 1000),
        ("epochs=0", 0),
        ("lr=1e-2", 0.01),
        ("lr = 3", 3.0),
        ("name=a=b", "a=b"),
        ("name=", ""),
        ("flag=yes", True),
        ("flag=False", False),
        ("hidden=64", (64,)),
        ("hidden=64, 32", (64, 32)),
        ("hidden=", ()),
        ("kind=tanh", "tanh"),
        ("limit=none", None),
        ("limit=5", 5),
    ],
)
def test_words_become_values(word, value):
    found = getattr(Sample.parse([word]), word.partition("=")[0].strip())
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("epoch=3", r"there is no 'epoch'; did you mean 'epochs'\? known: seed, epochs"),
        ("learning_rate=3", "there is no 'learning_rate'"),
        ("epochs", "expected key=value, got 'epochs'"),
        ("=3", "expected key=value"),
        ("epochs=many", "epochs takes int, got 'many'; for example 32"),
        ("epochs=1.5", "epochs takes int, got '1.5'"),
        ("epochs=nan", "epochs takes int"),
        ("epochs=inf", "epochs takes int"),
        ("epochs=-1", "epochs must be at least 0, got -1"),
        ("lr=nan", "lr takes float"),
        ("lr=0", "lr must be above 0"),
        ("share=1.5", "share must be at most 1"),
        ("flag=perhaps", "flag takes bool, got 'perhaps'; for example true or false"),
        ("hidden=64,x", "hidden takes int,…, got '64,x'"),
        ("hidden=64,0", "hidden must be at least 1, got 0"),
        ("kind=rely", r"kind takes relu\|tanh, got 'rely'; did you mean 'relu'\?"),
        ("limit=0", "limit must be at least 1"),
        ("limit=x", "limit takes int or none"),
    ],
)
def test_wrong_words_are_explained(word, message):
    with pytest.raises(OptionError, match=message):
        Sample.parse([word])


@pytest.mark.parametrize("wrong", [{"epochs": True}, {"epochs": 2.5}, {"epochs": None}, {"name": 3}, {"hidden": 5}])
def test_wrong_values_of_python_are_explained(wrong):
    (name,) = wrong
    with pytest.raises(OptionError, match=f"{name} takes"):
        Sample(**wrong)


def test_values_survive_json():
    settings = Sample(hidden=(3, 4), limit=9, lr=0.5)
    assert Sample.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings
    assert settings.replace(epochs=2) == Sample(hidden=(3, 4), limit=9, lr=0.5, epochs=2)


def test_a_changed_default_keeps_help_and_range():
    field = next(f for f in Sample.describe() if f.name == "epochs")
    assert (field.type, field.default, field.help) == ("int", 7, "passes over the training data")
    assert [f.name for f in Settings.describe()] == ["seed"]


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_describes_itself(name):
    recipe = recipes.get(name)
    assert recipe.name == name
    assert recipe.title and str(recipe.goal)
    assert all(field.help for field in recipe.Settings.describe())
    defaults = recipe.settings()
    assert recipe.settings({f.name: str(v) for f, v in _as_text(recipe, defaults)}) == defaults
    assert recipe.settings(json.loads(json.dumps(defaults.to_dict()))) == defaults


def _as_text(recipe, settings):
    for field in recipe.Settings.describe():
        value = getattr(settings, field.name)
        yield field, ",".join(map(str, value)) if isinstance(value, tuple) else value


def test_the_recipes_that_ship():
    expected = """airline-forecast bias-variance cifar10-cnn digits-logistic digits-mlp double-descent fashion-cnn
        housing-regression mnist-cnn mnist-linear mnist-mlp moons-mlp perceptron-2d polynomial-fit shakespeare-char"""
    assert set(expected.split()) <= set(recipes.names())
    assert recipes.names() == sorted(recipes.names())


@pytest.mark.parametrize(
    ("name", "meant"), [("digit-mlp", "digits-mlp"), ("mnist_cn", "mnist-cnn"), ("DIGITS-MLP", None), ("base", None)]
)
def test_an_unknown_recipe_is_explained(name, meant):
    with pytest.raises(
        OptionError, match=rf"there is no recipe {name!r}.*" + (f"did you mean {meant!r}" if meant else "")
    ):
        recipes.get(name)


@pytest.mark.parametrize(
    ("goal", "value", "reached"),
    [
        (Goal("a", at_least=0.5), 0.5, True),
        (Goal("a", at_least=0.5), 0.49, False),
        (Goal("a", at_most=0.5), 0.49, True),
        (Goal("a", at_most=0.5), 0.51, False),
        (Goal("a", at_most=0.5), float("nan"), False),
        (Goal("b", at_most=0.5), 0.0, False),
    ],
)
def test_goals(goal, value, reached):
    assert goal.reached({"a": value}) is reached


def test_a_goal_has_one_direction():
    with pytest.raises(OptionError, match="one of at_least and at_most"):
        Goal("a")
