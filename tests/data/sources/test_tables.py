"""Tables: kinds, missing values and faults of CSV, Parquet and Excel files; numbers against NumPy and scikit-learn."""

from __future__ import annotations

import datetime
import gzip
import sys

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import weft
from weft.data import sources
from weft.data.sources import Table, read_table
from weft.io.errors import FileFormatError, LayoutError


@pytest.fixture
def csv(tmp_path):
    def write(content, name="t.csv", encoding="utf-8"):
        raw = content if isinstance(content, bytes) else content.encode(encoding)
        (tmp_path / name).write_bytes(raw)
        return tmp_path / name

    return write


# ------------------------------------------------------------------------------------------ kinds
COLUMNS = {
    "int": (["1", "-2", "+3", "0"], [1, -2, 3, 0]),
    "int with a gap": (["1", "", "3", "NA"], [1, None, 3, None]),
    "int of 64 bits": (["9223372036854775807", "-9223372036854775808"], [2**63 - 1, -(2**63)]),
    "float": (["1", "2.5", ".5", "1e-3"], [1.0, 2.5, 0.5, 0.001]),
    "float of whole numbers": (["1.0", "2."], [1.0, 2.0]),
    "float, infinite": (["inf", "-Infinity", "1"], [np.inf, -np.inf, 1.0]),
    "float, more than 64 bits": (["9223372036854775808", "1"], [2.0**63, 1.0]),
    "float without any value": (["", "nan", "?"], [None, None, None]),
    "bool": (["true", "False", "TRUE", "null"], [True, False, True, None]),
    "category": (["red", "blue", "red", ""], ["red", "blue", "red", None]),
    "category of codes": (["007", "008", "007"], ["007", "008", "007"]),
    "category of mixed cells": (["1", "x", "1"], ["1", "x", "1"]),
    "string": (["ab", "cd", "ef"], ["ab", "cd", "ef"]),
    "string of underscores": (["1_000", "2_000"], ["1_000", "2_000"]),
    "string of wrong dates": (["2024-13-01", "2024-02-30"], ["2024-13-01", "2024-02-30"]),
    "datetime": (["2024-05-01", "1949-01"], [datetime.datetime(2024, 5, 1), datetime.datetime(1949, 1, 1)]),
    "datetime with a time": (
        ["2024-05-01 12:30", "2024-05-01T12:30:15.5Z", ""],
        [datetime.datetime(2024, 5, 1, 12, 30), datetime.datetime(2024, 5, 1, 12, 30, 15, 500_000), None],
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_inferred_kinds(csv, name):
    cells, expected = COLUMNS[name]
    table = read_table(csv("value,other\n" + "".join(f"{cell},x\n" for cell in cells)))
    kind = name.split(" ")[0].rstrip(",")
    assert table.kinds["value"] == kind and table["value"].tolist() == expected
    assert table.missing()["value"] == expected.count(None)


def test_many_values_are_no_category(csv):
    words = [f"w{i % 65}" for i in range(200)]
    assert read_table(csv("a\n" + "\n".join(words))).kinds == {"a": "string"}
    assert read_table(csv("a\n" + "\n".join(words[:64] * 2))).kinds == {"a": "category"}


def test_kinds_by_hand(csv):
    path = csv("zip,n,when,flag\n00501,1,2020-01-01,yes\n00502,2,2020-01-02,no\n")
    given = {"zip": "int", "n": "category", "when": "string", "flag": "bool"}
    table = read_table(path, kinds=given)
    assert table.kinds == given and table["zip"].tolist() == [501, 502] and table["flag"].tolist() == [True, False]
    assert table["n"].categories == ("1", "2")
    with pytest.raises(LayoutError, match="column 'when': '2020-01-01' is no float"):
        read_table(path, kinds={"when": "float"})
    with pytest.raises(ValueError, match="kinds names 'nope'; the columns are zip, n, when, flag"):
        read_table(path, kinds={"nope": "int"})
    with pytest.raises(ValueError, match="a kind is one of int, float"):
        read_table(path, kinds={"n": "number"})


# ------------------------------------------------------------------------------------------ the form of the text
FORMS = {
    "commas": 'a,b\n1,"x, y"\n2,"say ""hi"""\n',
    "blanks after commas": 'a, b\n1, "x, y"\n2, "say ""hi"""\n',
    "semicolons": 'a;b\n1;x, y\n2;"say ""hi"""\n',
    "tabs": 'a\tb\n1\tx, y\n2\t"say ""hi"""\n',
    "bars": 'a|b\n1|x, y\n2|"say ""hi"""\n',
    "carriage returns": 'a,b\r\n1,"x, y"\r\n2,"say ""hi"""\r\n',
    "empty lines": '\na,b\n\n1,"x, y"\n\n2,"say ""hi"""\n\n',
    "no last line feed": 'a,b\n1,"x, y"\n2,"say ""hi"""',
    "all quoted": '"a","b"\n"1","x, y"\n"2","say ""hi"""\n',
}


@pytest.mark.parametrize("name", FORMS)
def test_delimiters_and_quotes(csv, name):
    table = read_table(csv(FORMS[name]))
    assert table.columns == ["a", "b"] and table["a"].tolist() == [1, 2]
    assert table["b"].tolist() == ["x, y", 'say "hi"']


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
@pytest.mark.parametrize("packed", [False, True])
def test_encodings(tmp_path, encoding, packed):
    raw = "straße,größe\nü,1\n".encode(encoding)
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(raw) if packed else raw)
    if encoding in ("latin-1", "cp1252"):
        with pytest.raises(FileFormatError, match=r"line 1: byte 0xdf is not utf-8; pass encoding=, perhaps 'latin-1'"):
            read_table(path)
        table = read_table(path, encoding=encoding)
    else:
        table = read_table(path)
    assert table.columns == ["straße", "größe"] and table["straße"].tolist() == ["ü"]


def test_header_names_and_comments(csv):
    assert read_table(csv("1,a\n2,b\n")).columns == ["column_0", "column_1"]
    assert read_table(csv("x,y\na,b\n")).columns == ["x", "y"]
    assert len(read_table(csv("x,y\na,b\n"), header=False)) == 2
    assert read_table(csv("2019,2020\n1,2\n"), header=True).columns == ["2019", "2020"]
    assert read_table(csv("1,2\n"), names=["p", "q"]).columns == ["p", "q"]
    assert read_table(csv(",a\n0,5\n1,6\n")).columns == ["column_0", "a"]  # an index as pandas writes it
    table = read_table(csv("# a remark\na,b\n1,2\n# another\n3,4\n"), comment="#")
    assert table["a"].tolist() == [1, 3]
    assert read_table(csv("a,b\n-,1\n2,-\n"), missing=["-"])["a"].tolist() == [None, 2]


def test_blanks(csv):
    table = read_table(csv("  1.5   2\n 10  3  \n"))
    assert table.shape == (2, 2) and table["column_0"].tolist() == [1.5, 10.0]


def test_line_feeds_in_quotes_and_line_numbers(csv):
    table = read_table(csv('a,b\n1,"two\nlines"\n2,x\n'))
    assert table["b"].tolist() == ["two\nlines", "x"]
    with pytest.raises(LayoutError, match=r"t\.csv, line 5: 3 cells instead of 2; is delimiter= right\?"):
        read_table(csv('a,b\n1,"two\nlines"\n2,x\n3,y,z\n'))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n3\n4\n", r"line 3: 1 cells instead of 2 \(and 1 more such lines\)"),
        ("a,b\n1,2,3\n", "line 2: 3 cells instead of 2"),
        ('a,b\n1,"open\n', "line 2: .*quotation mark"),
        ('a,b\n1,"x"y\n', "line 2"),
        ("", "is empty"),
        ("\n \n", "is empty|instead"),
        ("a,a\n1,2\n", "two columns are called 'a'"),
    ],
)
def test_faults(csv, content, message):
    header = True if content.startswith("a,a") else None
    with pytest.raises(LayoutError, match=message):
        read_table(csv(content), header=header)


def test_small_tables(csv):
    table = read_table(csv("a,b\n"))
    assert table.shape == (0, 2) and table.to_tensor().shape == (0, 2)
    assert read_table(csv("x\n7\n"))["x"].tolist() == [7]
    with pytest.raises(sources.SourceError, match="there is no file"):
        read_table("nowhere.csv")
    with pytest.raises(ValueError, match=r"save it as \.xlsx or \.csv"):
        read_table(csv("", "old.xls"))


def test_against_arrow(tmp_path):
    """A random table with gaps, quotes and line feeds, written and read by Arrow."""
    rng = np.random.default_rng(0)
    gaps = lambda values: [None if rng.random() < 0.1 else value for value in values]
    data = {
        "i": gaps(rng.integers(-(10**12), 10**12, 300).tolist()),
        "f": gaps(rng.normal(size=300).tolist()),
        "t": gaps([f'w{i % 9},"{i % 4}"\n' for i in range(300)]),
    }
    pyarrow.csv.write_csv(pa.table(data), tmp_path / "t.csv")
    table = read_table(tmp_path / "t.csv")
    assert table.kinds == {"i": "int", "f": "float", "t": "category"}
    assert table["i"].tolist() == data["i"] and table["f"].tolist() == data["f"]
    assert table["t"].tolist() == [None if cell is None else cell.strip() for cell in data["t"]]


# ------------------------------------------------------------------------------------------ Parquet and Excel
TYPED = {
    "i": [1, None, 3],
    "f": [1.5, 2.5, None],
    "b": [True, None, False],
    "s": ["x", "y", None],
    "c": ["NA", "NA", "12"],
    "d": [datetime.datetime(2024, 1, 2, 3, 4, 5), None, datetime.datetime(1950, 1, 1)],
}
TYPED_KINDS = {"i": "int", "f": "float", "b": "bool", "s": "string", "c": "category", "d": "datetime"}


def test_parquet(tmp_path):
    table = pa.table(TYPED).append_column("dict", pa.array(["p", "q", "r"]).dictionary_encode())
    table = table.append_column("day", pa.array([datetime.date(2024, 1, 2), None, None]))
    pq.write_table(table, tmp_path / "t.parquet")
    found = read_table(tmp_path / "t.parquet")
    assert found.kinds == {**TYPED_KINDS, "dict": "category", "day": "datetime"}
    assert all(found[name].tolist() == values for name, values in TYPED.items())
    assert found["dict"].tolist() == ["p", "q", "r"] and found["day"].tolist()[0] == datetime.datetime(2024, 1, 2)
    (tmp_path / "t.parquet").write_bytes((tmp_path / "t.parquet").read_bytes()[:-20])
    with pytest.raises(FileFormatError, match="no Parquet file, or a damaged one"):
        read_table(tmp_path / "t.parquet")


def test_excel(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(list(TYPED))
    for row in zip(*TYPED.values(), strict=True):
        book.active.append(row)
    book.create_sheet("more").append([1, 2.5])
    book.save(tmp_path / "t.xlsx")
    found = read_table(tmp_path / "t.xlsx")
    assert found.kinds == TYPED_KINDS
    assert all(found[name].tolist() == values for name, values in TYPED.items())
    other = read_table(tmp_path / "t.xlsx", sheet="more", names=["p", "q"])
    assert other["p"].tolist() == [1] and other["q"].tolist() == [2.5]
    assert read_table(tmp_path / "t.xlsx", sheet=1).columns == ["column_0", "column_1"]
    for sheet in ("none", 7):
        with pytest.raises(ValueError, match="no sheet"):
            read_table(tmp_path / "t.xlsx", sheet=sheet)
    (tmp_path / "t.xlsx").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(FileFormatError, match="no Excel file, or a damaged one"):
        read_table(tmp_path / "t.xlsx")


@pytest.mark.parametrize(("name", "module"), [("t.parquet", "pyarrow.parquet"), ("t.xlsx", "openpyxl")])
def test_missing_library_is_named(tmp_path, monkeypatch, name, module):
    (tmp_path / name).write_bytes(b"")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install (pyarrow|openpyxl)"):
        read_table(tmp_path / name)


# ------------------------------------------------------------------------------------------ numbers
def mixed(rows=40):
    rng = np.random.default_rng(1)
    numbers = rng.normal(5, 3, rows)
    numbers[::7] = np.nan
    return Table.from_columns(
        {
            "x": numbers,
            "n": rng.integers(0, 9, rows),
            "place": [["north", "south", "west", None][i % 4] for i in range(rows)],
            "flag": rng.random(rows) < 0.5,
            "when": np.datetime64("2024-01-01") + np.arange(rows),
            "price": rng.normal(100, 10, rows),
        },
        target="price",
    )


def test_one_hot_and_filling_as_scikit_learn():
    table = mixed()
    train, test = table.rows(slice(0, 30)), table.rows(slice(30, None))
    numbers = test.numeric(by=train)
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(
        np.array([["north"], ["south"], ["west"]])
    )
    places = np.array([[str(value)] for value in test["place"].tolist()])
    np.testing.assert_array_equal(
        numbers.select([f"place={p}" for p in ("north", "south", "west")]).to_tensor(dtype=weft.float64).numpy(),
        encoder.transform(places),
    )
    for fill in ("mean", "median"):
        imputer = SimpleImputer(strategy=fill).fit(train["x"].values[:, None])
        found = test.numeric(["x"], fill=fill, by=train)["x"].values
        np.testing.assert_allclose(found[:, None], imputer.transform(test["x"].values[:, None]), rtol=1e-15)
    assert test.numeric(["x"], fill="zero")["x"].values[test["x"].missing].tolist() == [0.0] * int(
        test["x"].missing.sum()
    )
    np.testing.assert_array_equal(numbers["when"].values, test["when"].values.astype("datetime64[s]").astype(float))
    assert table.numeric(["place"], one_hot=False, fill="zero")["place"].values.tolist()[:3] == [0.0, 1.0, 2.0]


def test_standardize_with_figures_of_the_training_part():
    table = mixed().select(["x", "n", "price"])
    train, test = table.rows(slice(0, 30)), table.rows(slice(30, None))
    scaler = StandardScaler().fit(train.numeric().to_tensor(dtype=weft.float64).numpy())
    expected = scaler.transform(test.numeric(by=train).to_tensor(dtype=weft.float64).numpy())
    np.testing.assert_allclose(
        test.standardize(by=train).to_tensor(dtype=weft.float64).numpy(), expected, rtol=1e-12, atol=1e-14
    )
    own = train.standardize().to_tensor(dtype=weft.float64).numpy()
    np.testing.assert_allclose(own.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(own.std(0), 1, atol=1e-12)
    constant = Table.from_columns({"c": [0.1] * 7}).standardize()["c"].values
    np.testing.assert_allclose(constant, 0, atol=1e-12)


def test_dataset():
    train, test = mixed().split((0.75, 0.25), seed=3)
    pairs = test.to_dataset(by=train)
    assert pairs.tensors[0].shape == (10, 7) and pairs.tensors[1].shape == (10, 1)
    assert pairs.tensors[0].dtype == pairs.tensors[1].dtype == weft.float32
    np.testing.assert_array_equal(pairs.tensors[1].numpy()[:, 0], test["price"].values.astype(np.float32))
    expected = test.drop("price").standardize(by=train.drop("price")).to_tensor().numpy()
    np.testing.assert_array_equal(pairs.tensors[0].numpy(), expected)
    classes = train.drop_missing(["place"]).to_dataset("place", standardize=False)
    assert classes.tensors[1].dtype == weft.int64 and set(classes.tensors[1].tolist()) == {0, 1, 2}
    with pytest.raises(ValueError, match="column 'place' lacks"):
        train.to_dataset("place")
    with pytest.raises(ValueError, match="name the column"):
        train.drop("price").to_dataset()


def test_a_category_that_the_training_part_lacks():
    train = Table.from_columns({"p": ["a", "b", "a", "b"]})
    test = Table.from_columns({"p": ["b", "c", "c"]})
    assert test.numeric(by=train).to_tensor().tolist() == [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


def test_split_and_rows():
    table = Table.from_columns({"i": np.arange(103)})
    parts = table.split((0.7, 0.2, 0.1), seed=5)
    assert [len(part) for part in parts] == [72, 21, 10]
    assert sorted(v for part in parts for v in part["i"].tolist()) == list(range(103))
    assert parts[0]["i"].tolist() == table.split((0.7, 0.2, 0.1), seed=5)[0]["i"].tolist() != list(range(72))
    assert table.split((0.5,), seed=None)[0]["i"].tolist() == list(range(52))
    assert table.rows([3, 1]).to_tensor("i").tolist() == [3.0, 1.0]
    assert table.rows(weft.tensor([True] + [False] * 102)).shape == (1, 1)
    for wrong in ((0.9, 0.2), (-0.1, 0.5), (0.0,)):
        with pytest.raises(ValueError, match="fractions"):
            table.split(wrong)


def test_errors_and_looks():
    table = Table.from_columns({"age": [1, 2], "name": ["x", "y"], "gap": [1.0, None]})
    with pytest.raises(ValueError, match=r"no column 'aeg'; did you mean 'age'\?"):
        table["aeg"]
    with pytest.raises(TypeError, match=r"column 'name' holds text.*kinds=\{'name': 'category'\}"):
        table.numeric()
    with pytest.raises(ValueError, match="column 'gap' lacks 1 values; fill them by numeric"):
        table.to_tensor(["gap"])
    with pytest.raises(ValueError, match="choose another fill"):
        table.numeric(["gap"], fill="error")
    with pytest.raises(ValueError, match="fill must be one of"):
        table.numeric(["gap"], fill="guess")
    with pytest.raises(ValueError, match="different lengths"):
        Table.from_columns({"a": [1], "b": [1, 2]})
    lines = str(table).splitlines()
    assert lines[0] == "Table of 2 rows" and lines[1].split() == ["age", "name", "gap"] and "None" in lines[4]
    assert table.shape == (2, 3) and "age" in table and len(list(table)) == 3
