"""What `weft.graphs` offers explains itself: a first line, and an example that runs."""

from __future__ import annotations

import doctest

import pytest

import weft
from weft import graphs

FILES = {
    name for name in graphs.__all__ if name not in ("Spectrum", "Hits", "Fold", "NestedResult", "GraphPicture", "Data")
}


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_name_has_an_example_that_runs(name):
    value = getattr(graphs, name)
    assert value.__doc__ and value.__doc__.splitlines()[0].strip()
    tests = doctest.DocTestFinder(recurse=False).find(
        value, name, globs={"weft": weft, "Graph": graphs.Graph, "Batch": graphs.Batch, name: value}
    )
    assert sum(len(test.examples) for test in tests) > 0, "an example is missing"
    for test in tests:
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_results_with_names_say_what_they_are():
    assert all(getattr(graphs, name).__doc__.strip() for name in set(graphs.__all__) - FILES)
    assert set(graphs.__all__) <= set(dir(graphs))
