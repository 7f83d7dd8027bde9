"""What is said and read of files that strangers wrote, in bounded time and memory: values in messages, JSON."""

from __future__ import annotations

import json
from typing import Any

from .atomic import Path, open_regular
from .errors import HeaderError, OversizeError

__all__ = ["brief", "load_json"]

LONGEST = 80  # characters of a value in a message
LARGEST_JSON = 1 << 28  # bytes: a large tokeniser has 2²⁵
DEEPEST = 100  # nested containers


def brief(value: Any) -> str:
    """A value for a message. Containers are counted, not shown: a few shared ones can be endless when written out."""
    if type(value) is int and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, (str, bytes, bytearray)):
        return repr(value) if len(value) <= LONGEST else f"{value[:LONGEST]!r}… ({len(value)} in all)"
    if isinstance(value, (list, tuple)) and len(value) <= 8 and all(map(_is_small, value)):
        return repr(list(value) if isinstance(value, list) else tuple(value))
    if value is None or isinstance(value, (bool, int, float, complex)):
        return repr(value)
    return f"a {type(value).__name__}" + (f" of {len(value)}" if hasattr(value, "__len__") else "")


def _is_small(value: Any) -> bool:
    return type(value) in (float, bool) or (type(value) is int and value.bit_length() <= 64)


def load_json(path: Path) -> Any:
    """The value in a JSON file; HeaderError for what is no JSON or nested too deep, OversizeError for too much."""
    with open_regular(path) as file:
        text = file.read(LARGEST_JSON + 1)
    if len(text) > LARGEST_JSON:
        raise OversizeError(f"{path}: a JSON file of more than {LARGEST_JSON} bytes; refused")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HeaderError(f"{path}: expected JSON ({error})") from None
    if _depth(found) > DEEPEST:
        raise HeaderError(f"{path}: expected JSON with containers at most {DEEPEST} deep, found more")
    return found


def _depth(value: Any) -> int:
    """How deep containers are nested, without recursion."""
    level, depth = [value], 0
    while level := [part for part in level if isinstance(part, (list, dict))]:
        depth += 1
        level = [inner for part in level for inner in (part.values() if isinstance(part, dict) else part)]
    return depth
