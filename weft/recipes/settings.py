"""Settings of a recipe: a dataclass whose fields know their type, range and meaning.

Values are checked when the settings are made, whether they come from Python, from `key=value` words of a command line
or from the `settings.json` of an earlier run.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, Union

from ..errors import OptionError

__all__ = ["Settings", "TrainSettings", "option", "pairs", "suggestion"]

TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def option(
    default: Any,
    help: str = "",
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
) -> Any:
    """A field of settings: its default, one line of help, and the range that values must lie in."""
    limits = {"at_least": at_least, "at_most": at_most, "above": above}
    return dataclasses.field(default=default, metadata={"help": help, **limits})


@dataclass(frozen=True)
class Field:
    """What a person may know about one setting: `weft train RECIPE --help` prints these."""

    name: str
    type: str
    default: Any
    help: str


@dataclass(kw_only=True)
class Settings:
    """What every recipe can be told; a recipe adds its own fields and changes defaults."""

    seed: int = option(0, "seed of weights, order and augmentation", at_least=0)

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for field in fields(self):
            value = converted(field.name, getattr(self, field.name), hints[field.name])
            _check_range(field.name, value, self.about(field.name))
            setattr(self, field.name, value)

    @classmethod
    def parse(cls, words: Iterable[str]) -> Self:
        """Settings from words `key=value`; keys that are not mentioned keep their defaults."""
        return cls.from_dict(pairs(words))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Settings from a mapping of names to values or to their text."""
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise OptionError(f"settings: there is no {name!r}; {suggestion(name, known)}")
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Names and values, as JSON can hold them; `from_dict` takes them back."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in dataclasses.asdict(self).items()}

    def replace(self, **changes: Any) -> Self:
        """The same settings with some values changed, checked like any others."""
        return self.from_dict({**self.to_dict(), **changes})

    @classmethod
    def describe(cls) -> list[Field]:
        """Name, type, default and help of every setting, in the order they are declared."""
        hints = typing.get_type_hints(cls)
        return [
            Field(f.name, type_name(hints[f.name]), f.default, cls.about(f.name).get("help", "")) for f in fields(cls)
        ]

    @classmethod
    def about(cls, name: str) -> Mapping[str, Any]:
        """Help and range of a setting; a recipe that only changes a default keeps those of the class above."""
        tables = (vars(c)["__dataclass_fields__"] for c in cls.__mro__ if "__dataclass_fields__" in vars(c))
        return next((t[name].metadata for t in tables if name in t and t[name].metadata), {})


@dataclass(kw_only=True)
class TrainSettings(Settings):
    """What every recipe can be told that is trained by gradients.

    Example:
        >>> from weft.recipes import TrainSettings
        >>> TrainSettings.parse(["epochs=3", "lr=1e-2"]).epochs
        3
    """

    epochs: int = option(10, "passes over the training data", at_least=0)
    batch_size: int = option(64, "examples in one step", at_least=1)
    lr: float = option(1e-3, "learning rate, the largest of its schedule", above=0)


def pairs(words: Iterable[str], takes: str = "settings: expected", example: str = "lr=0.01") -> dict[str, str]:
    """Keys and values of words `key=value`; what the error says of another word begins with `takes`."""
    found = {}
    for word in [words] if isinstance(words, str) else words:
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            raise OptionError(f"{takes} key=value, got {word!r}; for example {example}")
        found[key.strip()] = value.strip()
    return found


def suggestion(name: str, known: Iterable[str]) -> str:
    """`did you mean 'lr'?`, and the list of what is known."""
    known = list(known)
    close = difflib.get_close_matches(name.replace("-", "_"), known, n=1, cutoff=0.5) or difflib.get_close_matches(
        name, known, n=1, cutoff=0.5
    )
    return (f"did you mean {close[0]!r}? " if close else "") + f"known: {', '.join(known)}"


def type_name(hint: Any) -> str:
    """`int`, `bool`, `relu|tanh`, `int,int,…`, `int or none`, as help shows a type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return "|".join(map(str, inner))
    if origin is tuple:
        return f"{type_name(inner[0])},…"
    if origin in (Union, types.UnionType):
        return " or ".join("none" if t is type(None) else type_name(t) for t in inner)
    return hint.__name__


def converted(name: str, value: Any, hint: Any) -> Any:
    """The value as the type that the field declares; text is read as that type."""
    try:
        return _convert(value, hint)
    except (TypeError, ValueError) as error:
        given = repr(value) if isinstance(value, str) else f"{value!r} ({type(value).__name__})"
        raise OptionError(f"settings: {name} takes {type_name(hint)}, got {given}{_hint(value, hint)}") from error


def _convert(value: Any, hint: Any) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _first(value, inner)
    if origin is Literal:
        return _choose(value, inner)
    if origin is tuple:
        parts = [p for p in value.split(",") if p.strip()] if isinstance(value, str) else list(value)
        return tuple(_convert(part, inner[0]) for part in parts)
    return _READERS[hint](value)


def _choose(value: Any, choices: tuple[Any, ...]) -> Any:
    """The choice that the value, or its text, names."""
    for choice in choices:
        if str(value).strip() == str(choice):
            return choice
    raise ValueError(value)


def _first(value: Any, hints: tuple[Any, ...]) -> Any:
    """The value as the first of several types that takes it; None and the word none stand for themselves."""
    if type(None) in hints and (value is None or str(value).strip().lower() == "none"):
        return None
    for hint in hints:
        try:
            return _convert(value, hint)
        except (TypeError, ValueError, KeyError):
            continue
    raise ValueError(value)


def _int(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError(value)
    if isinstance(value, str):
        number = float(value)
        return int(value) if not number.is_integer() or number > 2**53 else int(number)  # 1e3 is an integer, 1.5 is not
    if value != int(value):
        raise ValueError(value)
    return int(value)


def _float(value: Any) -> float:
    if isinstance(value, bool) or math.isnan(number := float(value)):
        raise TypeError(value)
    return number


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in TRUE + FALSE:
        raise ValueError(value)
    return word in TRUE


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


_READERS = {int: _int, float: _float, bool: _bool, str: _str}


def _hint(value: Any, hint: Any) -> str:
    """What to add to an error about a value: the nearest choice."""
    if typing.get_origin(hint) is Literal and isinstance(value, str):
        close = difflib.get_close_matches(value, [str(c) for c in typing.get_args(hint)], n=1)
        return f"; did you mean {close[0]!r}?" if close else ""
    return (
        "; for example " + {bool: "true or false", int: "32", float: "0.01"}[hint] if hint in (bool, int, float) else ""
    )


def _check_range(name: str, value: Any, about: Mapping[str, Any]) -> None:
    """Raise where a number, or one of a tuple, lies outside the range of its field."""
    tests = (
        ("at_least", "at least", lambda number, limit: number >= limit),
        ("at_most", "at most", lambda number, limit: number <= limit),
        ("above", "above", lambda number, limit: number > limit),
    )
    for number in value if isinstance(value, tuple) else (value,):
        for key, words, holds in tests:
            limit = about.get(key)
            if limit is not None and number is not None and not holds(number, limit):
                raise OptionError(f"settings: {name} must be {words} {limit}, got {number}")
