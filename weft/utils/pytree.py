"""Trees of containers: take nested tuples, lists and dictionaries apart, and put them together again.

A tree is a tuple, list, dictionary, named tuple (or a registered class) of trees; everything else,
None included, is a leaf. `tree_flatten` gives the leaves in order and a `TreeSpec` that remembers
the containers; `tree_unflatten` is its inverse.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidValueError

__all__ = [
    "TreeSpec",
    "broadcast_prefix",
    "register_pytree_node",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_structure",
    "tree_unflatten",
]


@dataclass(frozen=True)
class TreeSpec:
    """The containers of a tree: `kind` (None for a leaf), what else the kind needs, and the children."""

    kind: type | None = None
    context: Any = None
    children: tuple[TreeSpec, ...] = ()

    @property
    def num_leaves(self) -> int:
        return 1 if self.kind is None else sum(child.num_leaves for child in self.children)

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        return f"{self.kind.__name__}({', '.join(map(repr, self.children))})"


LEAF = TreeSpec()
_Parts = tuple[list[Any], Any]
_REGISTERED: dict[type, tuple[Callable[[Any], _Parts], Callable[[Iterable[Any], Any], Any]]] = {}


def register_pytree_node(cls: type, flatten: Callable[[Any], _Parts], unflatten: Callable) -> None:
    """Make instances of `cls` containers.

    `flatten(x)` gives (children, context), `unflatten(children, context)` gives x back.
    """
    _REGISTERED[cls] = (flatten, unflatten)


def _flatten_default(tree: defaultdict) -> _Parts:
    return list(tree.values()), (tree.default_factory, tuple(tree))


def _unflatten_default(children: Iterable[Any], context: Any) -> defaultdict:
    factory, keys = context
    return defaultdict(factory, zip(keys, children, strict=True))


register_pytree_node(tuple, lambda t: (list(t), None), lambda children, _: tuple(children))
register_pytree_node(list, lambda t: (list(t), None), lambda children, _: list(children))
for _mapping in (dict, OrderedDict):
    register_pytree_node(
        _mapping,
        lambda t: (list(t.values()), tuple(t)),
        lambda children, keys, _mapping=_mapping: _mapping(zip(keys, children, strict=True)),
    )
register_pytree_node(defaultdict, _flatten_default, _unflatten_default)


def _is_named_tuple(tree: Any) -> bool:
    return isinstance(tree, tuple) and hasattr(type(tree), "_fields")


def _parts(tree: Any) -> _Parts | None:
    """The children and the context of a container; None for a leaf."""
    rules = _REGISTERED.get(type(tree))
    if rules is not None:
        return rules[0](tree)
    return (list(tree), None) if _is_named_tuple(tree) else None


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree in order, and its containers."""
    parts = None if is_leaf is not None and is_leaf(tree) else _parts(tree)
    if parts is None:
        return [tree], LEAF
    leaves: list[Any] = []
    specs = []
    for child in parts[0]:
        below, spec = tree_flatten(child, is_leaf)
        leaves.extend(below)
        specs.append(spec)
    return leaves, TreeSpec(type(tree), parts[1], tuple(specs))


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree with these containers and these leaves."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise InvalidValueError(
            f"tree_unflatten: {treespec} has {treespec.num_leaves} leaves, but {len(leaves)} were given"
        )
    return _rebuilt(iter(leaves), treespec)


def _rebuilt(leaves: Any, spec: TreeSpec) -> Any:
    if spec.kind is None:
        return next(leaves)
    children = [_rebuilt(leaves, child) for child in spec.children]
    rules = _REGISTERED.get(spec.kind)
    return rules[1](children, spec.context) if rules is not None else spec.kind(*children)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any) -> TreeSpec:
    """The containers of a tree."""
    return tree_flatten(tree)[1]


def tree_map(function: Callable, tree: Any, *rests: Any) -> Any:
    """The tree with `function(leaf, *leaves of the rests)` in the place of each leaf."""
    leaves, spec = tree_flatten(tree)
    columns = [leaves]
    for rest in rests:
        below, other = tree_flatten(rest)
        if other != spec:
            raise InvalidValueError(f"tree_map: trees differ, {spec} and {other}")
        columns.append(below)
    return tree_unflatten([function(*row) for row in zip(*columns, strict=True)], spec)


def broadcast_prefix(prefix: Any, spec: TreeSpec) -> list[Any] | None:
    """One value for each leaf of `spec` from a tree that may stop early; None if they do not fit."""
    if spec.kind is None:
        return [prefix] if _parts(prefix) is None else None
    parts = _parts(prefix)
    if parts is None:
        return [prefix] * spec.num_leaves
    if type(prefix) is not spec.kind or len(parts[0]) != len(spec.children) or parts[1] != spec.context:
        return None
    found: list[Any] = []
    for child, child_spec in zip(parts[0], spec.children, strict=True):
        below = broadcast_prefix(child, child_spec)
        if below is None:
            return None
        found.extend(below)
    return found
