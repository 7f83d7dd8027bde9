"""The well-known tables against scikit-learn's copies and published figures."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from sklearn import datasets

from weft.data import sources
from weft.io.errors import LayoutError

SIZES = {"bostonHousing": (506, 14), "concrete": (1030, 9), "energy": (768, 9), "kin8nm": (8192, 9)} | {
    "power-plant": (9568, 5),
    "wine-quality-red": (1599, 12),
    "yacht": (308, 7),
}


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer"])
def test_real_classes_as_scikit_learn(real, name):
    table, expected = getattr(sources, name)(real), getattr(datasets, f"load_{name}")()
    values = np.stack([column.values for column in table.drop(table.target)], 1)
    np.testing.assert_array_equal(values, expected.data)
    np.testing.assert_array_equal(table[table.target].values, expected.target)
    assert list(table[table.target].categories) == list(expected.target_names)


def test_real_diabetes_as_scikit_learn(real):
    table, expected = sources.diabetes(real), datasets.load_diabetes(scaled=False)
    np.testing.assert_array_equal(np.stack([c.values for c in table.drop("progression")], 1), expected.data)
    np.testing.assert_array_equal(table["progression"].values, expected.target)
    assert table.columns[:-1] == expected.feature_names


@pytest.mark.parametrize("name", SIZES)
def test_real_regression_sets(real, name):
    table = sources.uci(name, real)
    assert table.shape == SIZES[name] and set(table.kinds.values()) == {"float"} and not any(table.missing().values())
    assert table.target == table.columns[-1]


def test_real_housing(real):
    boston = sources.boston_housing(real)
    assert boston["medv"].values.mean() == pytest.approx(22.532806, abs=1e-6)  # as in every textbook
    california = sources.california_housing(real)
    assert california.shape == (20640, 10) and california.missing()["total_bedrooms"] == 207
    counts = np.bincount(california["ocean_proximity"].values)
    assert dict(zip(california["ocean_proximity"].categories, counts.tolist(), strict=True)) == {
        "<1H OCEAN": 9136,
        "INLAND": 6551,
        "ISLAND": 5,
        "NEAR BAY": 2290,
        "NEAR OCEAN": 2658,
    }
    assert california["median_house_value"].values.mean() == pytest.approx(206855.816909, abs=1e-6)
    assert california.to_dataset().tensors[0].shape == (20640, 13)


def test_real_series_and_others(real):
    airline = sources.airline_passengers(real)
    assert airline["Passengers"].values[[0, -1]].tolist() == [112, 432] and len(airline) == 144
    assert airline["Month"].values[-1] == np.datetime64("1960-12-01")
    days = sources.daily_min_temperatures(real)
    assert len(days) == 3650 and days["Temp"].values.mean() == pytest.approx(11.177753, abs=1e-6)
    pima = sources.pima_diabetes(real)
    assert pima.shape == (768, 9) and pima["diabetes"].values.sum() == 268
    sonar = sources.sonar(real)
    assert sonar.shape == (208, 61) and np.bincount(sonar["object"].values).tolist() == [111, 97]


@pytest.mark.filterwarnings("ignore::weft.data.sources.SourceWarning")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("2,4,a,b\n1,2,3,4,0\n5,6,7,8,1\n", None),
        ("3,4,a,b\n1,2,3,4,0\n5,6,7,8,1\n", "3 rows and 4 features are announced"),
        ("2,4,a,b\n1,2,3,4,0\n5,6,7,8,2\n", "0 to 1"),
        ("2,4,a,b\n1,2,3,4,0\n5,6,7,8\n", "4 cells instead of 5"),
        ("a,b,c\n1,2,3\n", "expected rows, features and class names"),
    ],
)
def test_form_of_the_class_files(tmp_path, content, message):
    (tmp_path / "sklearn_iris.csv.gz").write_bytes(gzip.compress(content.encode()))
    if message is None:
        table = sources.iris(tmp_path)
        assert table["species"].tolist() == ["a", "b"] and table.target == "species"
    else:
        with pytest.raises(LayoutError, match=message):
            sources.iris(tmp_path)


def test_names_and_absent_files(tmp_path):
    with pytest.raises(ValueError, match="one of bostonHousing, concrete"):
        sources.uci("naval")
    with pytest.raises(sources.SourceError, match=r"tabular/uci/yacht\.txt.*download=True"):
        sources.uci("yacht", tmp_path)
