"""`torch.utils._pytree` beyond what `weft.utils.pytree` has: leaves with the way to them, and changes in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...utils.pytree import _REGISTERED, TreeSpec, tree_flatten, tree_leaves, tree_map, tree_unflatten
from ...utils.pytree import register_pytree_node as _register

__all__ = [
    "GetAttrKey",
    "MappingKey",
    "SequenceKey",
    "is_namedtuple",
    "keystr",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten_with_path",
    "tree_iter",
    "tree_leaves_with_path",
    "tree_map_",
    "tree_map_only",
    "tree_map_with_path",
]


def register_pytree_node(cls: type, flatten_fn: Callable, unflatten_fn: Callable, **options: Any) -> None:
    """Make instances of `cls` containers; names for files and ways to leaves are for PyTorch's own use."""
    _register(cls, flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node
LeafSpec, PyTree, SUPPORTED_NODES = TreeSpec, Any, _REGISTERED
_homes = (tree_flatten, tree_unflatten)


def tree_any(predicate: Any, tree: Any) -> bool:
    """Whether `predicate` holds for a leaf."""
    return any(map(predicate, tree_leaves(tree)))


def tree_all(predicate: Any, tree: Any) -> bool:
    """Whether `predicate` holds for every leaf."""
    return all(map(predicate, tree_leaves(tree)))


def tree_any_only(kind: Any, predicate: Any, tree: Any) -> bool:
    """Whether `predicate` holds for a leaf of a class."""
    return any(predicate(leaf) for leaf in tree_leaves(tree) if isinstance(leaf, kind))


def tree_all_only(kind: Any, predicate: Any, tree: Any) -> bool:
    """Whether `predicate` holds for every leaf of a class."""
    return all(predicate(leaf) for leaf in tree_leaves(tree) if isinstance(leaf, kind))


def tree_map_only(kind: Any, function: Any, tree: Any) -> Any:
    """`function` of the leaves of a class, the others as they are."""
    return tree_map(lambda leaf: function(leaf) if isinstance(leaf, kind) else leaf, tree)


def tree_map_(function: Callable, tree: Any, *rests: Any) -> Any:
    """Call a function for its effect on every leaf; the tree itself comes back."""
    tree_map(function, tree, *rests)
    return tree


def tree_iter(tree: Any) -> Iterator[Any]:
    """The leaves, one after the other."""
    return iter(tree_leaves(tree))


def is_namedtuple(obj: Any) -> bool:
    """Whether it is a named tuple."""
    return isinstance(obj, tuple) and hasattr(obj, "_fields")


class MappingKey(NamedTuple):
    """An entry of a dictionary, on the way to a leaf."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


class SequenceKey(NamedTuple):
    """A place in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx}]"


class GetAttrKey(NamedTuple):
    """A field of a named tuple."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


def keystr(kp: Sequence[Any]) -> str:
    """A way as text: "['layers'][0].weight"."""
    return "".join(map(str, kp))


def _get_node_type(tree: Any) -> Any:
    """The class by which a container is taken apart."""
    return type(tree)


def _dict_flatten_with_keys(tree: Mapping[Any, Any]) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """[(key, value), …] of a dictionary, and its keys, as `register_pytree_node(flatten_with_keys_fn=…)` wants them."""
    return [(MappingKey(key), value) for key, value in tree.items()], list(tree)


def _dict_flatten(tree: Mapping[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(tree.values()), list(tree)


def _dict_unflatten(values: Any, context: Any) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _list_flatten(tree: Sequence[Any]) -> tuple[list[Any], None]:
    return list(tree), None


def _list_unflatten(values: Any, context: Any) -> list[Any]:
    return list(values)


def _list_flatten_with_keys(tree: Sequence[Any]) -> tuple[list[tuple[Any, Any]], None]:
    return [(SequenceKey(place), value) for place, value in enumerate(tree)], None


def _namedtuple_flatten_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], type]:
    return [(GetAttrKey(name), getattr(tree, name)) for name in tree._fields], type(tree)


def _tuple_unflatten(values: Any, context: Any) -> tuple[Any, ...]:
    return tuple(values)


def _namedtuple_flatten(tree: Any) -> tuple[list[Any], type]:
    return list(tree), type(tree)


def _namedtuple_unflatten(values: Any, context: Any) -> Any:
    return context(*values)


_tuple_flatten, _tuple_flatten_with_keys = _list_flatten, _list_flatten_with_keys


def tree_leaves_with_path(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[tuple[tuple[Any, ...], Any]]:
    """Every leaf of dictionaries, lists and tuples with the way to it."""
    if is_leaf is not None and is_leaf(tree):
        return [((), tree)]
    if isinstance(tree, Mapping):
        parts = [(MappingKey(key), value) for key, value in tree.items()]
    elif is_namedtuple(tree):
        parts = [(GetAttrKey(name), getattr(tree, name)) for name in tree._fields]
    elif isinstance(tree, (list, tuple)):
        parts = [(SequenceKey(k), value) for k, value in enumerate(tree)]
    else:
        return [((), tree)]
    return [((key, *way), leaf) for key, value in parts for way, leaf in tree_leaves_with_path(value, is_leaf)]


def tree_flatten_with_path(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves with the ways to them, and the form of the tree."""
    return tree_leaves_with_path(tree, is_leaf), tree_flatten(tree)[1]


def tree_map_with_path(function: Callable, tree: Any, *rests: Any) -> Any:
    """`function(way, leaf, …)` of every leaf."""
    ways = iter([way for way, _ in tree_leaves_with_path(tree)])
    return tree_map(lambda *leaves: function(next(ways), *leaves), tree, *rests)
