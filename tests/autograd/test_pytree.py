"""Trees of containers against torch.utils._pytree, and the laws of flattening."""

from collections import OrderedDict, defaultdict, namedtuple

import pytest
import torch.utils._pytree as theirs

from weft.utils import pytree as ours

Point = namedtuple("Point", "x y")
TREES = [
    1,
    None,
    (),
    [],
    {},
    (1, [2, {"a": 3, "b": (4, None)}]),
    Point(1, [2, 3]),
    OrderedDict(b=1, a=2),
    {"z": 1, "a": [Point(2, 3), ()]},
    defaultdict(list, k=[1, 2]),
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_like_torch(tree):
    leaves, spec = ours.tree_flatten(tree)
    expected, _ = theirs.tree_flatten(tree)
    assert leaves == expected and spec.num_leaves == len(expected)
    again = ours.tree_unflatten(leaves, spec)
    assert again == tree and type(again) is type(tree)
    double = lambda v: v if v is None else v * 2
    assert ours.tree_map(double, tree) == theirs.tree_map(double, tree)
    assert ours.tree_structure(tree) == spec and ours.tree_leaves(tree) == leaves


def test_maps_over_several():
    assert ours.tree_map(lambda a, b: a + b, {"p": (1, 2)}, {"p": (3, 4)}) == {"p": (4, 6)}
    with pytest.raises(ValueError, match="trees differ"):
        ours.tree_map(lambda a, b: a, (1, 2), [1, 2])
    with pytest.raises(ValueError, match="leaves"):
        ours.tree_unflatten([1], ours.tree_structure((1, 2)))


def test_own_containers():
    class Pair:
        def __init__(self, first, second):
            self.first, self.second = first, second

    ours.register_pytree_node(Pair, lambda p: ([p.first, p.second], None), lambda parts, _: Pair(*parts))
    tripled = ours.tree_map(lambda v: v * 3, [Pair(1, (2,))])
    assert (tripled[0].first, tripled[0].second) == (3, (6,))


def test_prefix():
    spec = ours.tree_structure((1, [2, 3], {"a": 4}))
    assert ours.broadcast_prefix(0, spec) == [0, 0, 0, 0]
    assert ours.broadcast_prefix((0, None, {"a": 1}), spec) == [0, None, None, 1]
    assert ours.broadcast_prefix((0, None), spec) is None
    assert ours.broadcast_prefix(((0,), None, 1), spec) is None
