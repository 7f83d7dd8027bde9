"""Operations that are made of others, written out so that the parts can be fused."""

from __future__ import annotations

from .graph import Graph


def expand(graph: Graph) -> None:
    """Replace every node whose operation has `parts(*tensors, **params)` by what that function computes."""
