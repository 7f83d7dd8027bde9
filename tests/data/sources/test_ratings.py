"""Ratings in the three formats of MovieLens, read to the same matrix; damaged files; splits."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from weft.data import Ratings, read_ratings
from weft.data.sources import SourceError
from weft.errors import OptionError
from weft.io.errors import LayoutError

ROWS = [(196, 242, 3, 881250949), (186, 302, 3, 891717742), (196, 302, 5, 878887116), (22, 242, 1, 880606923)]
MATRIX = [[1, 0], [0, 3], [3, 5]]  # persons 22, 186, 196; items 242, 302


@pytest.mark.parametrize(
    ("name", "separator", "head"),
    [
        ("u.data", "\t", ""),
        ("ratings.dat", "::", ""),
        ("ratings.csv", ",", "userId,movieId,rating,timestamp\n"),
    ],
)
def test_the_three_formats_are_one_matrix(name, separator, head, tmp_path):
    text = head + "".join(separator.join(map(str, row)) + "\n" for row in ROWS)
    (tmp_path / name).write_text(text)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    for path in (tmp_path / name, tmp_path / f"{name}.gz"):
        found = read_ratings(path)
        assert found.matrix().tolist() == MATRIX and len(found) == 4
        assert found.users.tolist() == [22, 186, 196] and found.items.tolist() == [242, 302]
        assert found.time[0] == 881250949


def test_half_stars_take_two_steps(tmp_path):
    (tmp_path / "r.csv").write_text("userId,movieId,rating,timestamp\n1,1,3.5,0\n1,2,0.5,0\n")
    found = read_ratings(tmp_path / "r.csv")
    assert found.matrix(steps=2).tolist() == [[7, 1]]
    with pytest.raises(OptionError, match="steps=2"):
        found.matrix()


def test_a_split_parts_the_ratings_and_keeps_the_names():
    random = np.random.default_rng(0)
    user, item = np.divmod(np.arange(200), 20)
    found = Ratings.of(user, item, random.integers(1, 6, 200))
    train, test = found.split(0.25, seed=1)
    assert (len(train), len(test)) == (150, 50) and train.matrix().shape == test.matrix().shape == (10, 20)
    assert not ((train.matrix() > 0) & (test.matrix() > 0)).any()
    assert (train.matrix() + test.matrix() == found.matrix()).all()
    with pytest.raises(OptionError, match="between 0 and 1"):
        found.split(1.0)


def test_damaged_files_are_named_with_their_line(tmp_path):
    path = tmp_path / "u.data"
    with pytest.raises(SourceError, match="there is no file"):
        read_ratings(path)
    for text, said in (
        ("1\t2\t3\t4\n1\tx\t3\t4\n", "line 2"),
        ("\n", "no ratings"),
        ("1\t2\t3\t4\n1\t2\t4\t5\n", "twice"),
    ):
        path.write_text(text)
        with pytest.raises(LayoutError, match=said):
            read_ratings(path)
