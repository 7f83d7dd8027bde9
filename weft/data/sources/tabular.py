"""Well-known tables of a few hundred to some thousand rows; each function returns a `Table` that knows its target."""

from __future__ import annotations

import numpy as np

from ...errors import OptionError
from ...io.errors import LayoutError
from .fetch import Folder, find
from .files import members, text
from .read_tables import read_text
from .tables import Column, Table

__all__ = [
    "airline_passengers",
    "boston_housing",
    "breast_cancer",
    "california_housing",
    "daily_min_temperatures",
    "diabetes",
    "iris",
    "pima_diabetes",
    "sonar",
    "uci",
    "wine",
]


def iris(root: Folder = None, download: bool = False) -> Table:
    """150 irises of 3 species, 4 lengths in cm (Fisher 1936).

    Example:
        >>> iris(download=True)["species"].categories  # doctest: +SKIP
        ('setosa', 'versicolor', 'virginica')
    """
    names = "sepal_length sepal_width petal_length petal_width"
    return _classes("tabular/sklearn_iris.csv", names, "species", root, download)


def wine(root: Folder = None, download: bool = False) -> Table:
    """178 wines of 3 growers, 13 chemical measures."""
    names = """alcohol malic_acid ash alcalinity_of_ash magnesium total_phenols flavanoids nonflavanoid_phenols
        proanthocyanins color_intensity hue od280/od315_of_diluted_wines proline"""
    return _classes("tabular/sklearn_wine_data.csv", names, "class", root, download)


def breast_cancer(root: Folder = None, download: bool = False) -> Table:
    """569 tumours, malignant (0) or benign (1), 30 measures of cell nuclei (Wisconsin)."""
    measures = """radius texture perimeter area smoothness compactness concavity concave_points symmetry
        fractal_dimension""".split()
    names = [f"{which}_{measure}" for which in ("mean", "error", "worst") for measure in measures]
    return _classes("tabular/sklearn_breast_cancer.csv", " ".join(names), "diagnosis", root, download)


def _classes(path: str, names: str, target: str, root: Folder, download: bool) -> Table:
    """Files that begin with `150,4,setosa,versicolor,virginica`: rows, features, and the names of the classes."""
    place = find(path, root, download)
    first, _, body = text(place).partition("\n")
    count, width, *classes = first.strip().split(",")
    if not (count.isdigit() and width.isdigit() and classes):
        raise LayoutError(f"{place}, line 1: expected rows, features and class names, got {first.strip()[:60]!r}")
    columns = read_text(body, str(place), ",", header=False, names=[*names.split(), target])
    table = Table([_as_float(column) for column in columns[:-1]])
    if table.shape != (int(count), int(width)):
        raise LayoutError(f"{place}: {count} rows and {width} features are announced, {table.shape} are there")
    codes = columns[-1].values
    if columns[-1].kind != "int" or columns[-1].missing.any() or not 0 <= codes.min() <= codes.max() < len(classes):
        raise LayoutError(f"{place}: the last cell of a row should be a class, 0 to {len(classes) - 1}")
    label = Column(target, "category", codes, np.zeros(len(codes), bool), tuple(classes))
    return Table([*table, label], target)


def _as_float(column: Column) -> Column:
    return Column(column.name, "float", column.as_float(), column.missing)


def _numbers(path: str, names: str, root: Folder, download: bool, delimiter: str | None = None) -> Table:
    """A file of numbers without names; the last name is that of the target."""
    place = find(path, root, download)
    named = names.split()
    kinds = dict.fromkeys(named, "float")
    return Table(read_text(text(place), str(place), delimiter, False, named, kinds), named[-1])


def diabetes(root: Folder = None, download: bool = False) -> Table:
    """442 diabetes patients, 10 measures in their own units, and how far the illness is a year later (Efron 2004)."""
    features = _numbers("tabular/diabetes_data_raw.csv.gz", "age sex bmi bp s1 s2 s3 s4 s5 s6", root, download, " ")
    target = _numbers("tabular/diabetes_target.csv.gz", "progression", root, download, " ")
    if len(features) != len(target):
        raise LayoutError(f"diabetes: {len(features)} rows of measures and {len(target)} targets")
    return Table([*features, *target], "progression")


def pima_diabetes(root: Folder = None, download: bool = False) -> Table:
    """768 women, 8 measures, and whether they have diabetes (0 or 1); zeros among the measures mean missing."""
    names = "pregnancies glucose pressure skin insulin bmi pedigree age diabetes"
    table = _numbers("tabular/jbrownlee/pima-indians-diabetes.csv", names, root, download)
    return Table([*table.drop("diabetes"), _as_classes(table["diabetes"], ("no", "yes"))], "diabetes")


def _as_classes(column: Column, classes: tuple[str, ...]) -> Column:
    return Column(column.name, "category", column.values.astype(np.int64), column.missing, classes)


def sonar(root: Folder = None, download: bool = False) -> Table:
    """208 sonar echoes in 60 frequency bands, of mines (M) or rocks (R)."""
    place = find("tabular/jbrownlee/sonar.csv", root, download)
    names = [*(f"band_{i}" for i in range(60)), "object"]
    return Table(read_text(text(place), str(place), ",", False, names), "object")


def california_housing(root: Folder = None, download: bool = False) -> Table:
    """20,640 districts of California in the census of 1990; 207 lack their number of bedrooms.

    Nine features, one of them a category (`ocean_proximity`); the target is `median_house_value` in dollars.
    """
    place = find("tabular/california/housing.tgz", root, download)
    found = members(place, "housing.csv")
    if len(found) != 1:
        raise LayoutError(f"{place}: housing.csv is not in the archive")
    (raw,) = found.values()
    return Table(read_text(raw.decode(), f"{place}/housing.csv"), "median_house_value")


def boston_housing(root: Folder = None, download: bool = False) -> Table:
    """506 districts of Boston in 1970, 13 features; the target `medv` is the median value of a house in $1000.

    One feature (`b`) was made from the share of black residents on the assumption that people pay to live apart:
    use the set to compare with published figures, not as an example to follow.
    """
    return uci("bostonHousing", root, download)


UCI = {
    "bostonHousing": "crim zn indus chas nox rm age dis rad tax ptratio b lstat medv",
    "concrete": "cement slag fly_ash water superplasticizer coarse_aggregate fine_aggregate age strength",
    "energy": """relative_compactness surface_area wall_area roof_area overall_height orientation glazing_area
        glazing_area_distribution heating_load""",
    "kin8nm": "theta1 theta2 theta3 theta4 theta5 theta6 theta7 theta8 distance",
    "power-plant": "temperature vacuum pressure humidity output",
    "wine-quality-red": """fixed_acidity volatile_acidity citric_acid residual_sugar chlorides free_sulfur_dioxide
        total_sulfur_dioxide density ph sulphates alcohol quality""",
    "yacht": "buoyancy_centre prismatic length_displacement beam_draught length_beam froude resistance",
}


def uci(name: str, root: Folder = None, download: bool = False) -> Table:
    """One of the regression sets of Hernández-Lobato & Adams (2015), all columns float, the last one the target.

    name: bostonHousing (506 rows), concrete (1030), energy (768), kin8nm (8192), power-plant (9568),
        wine-quality-red (1599), yacht (308)
    """
    if name not in UCI:
        raise OptionError(f"uci: name must be one of {', '.join(UCI)}, got {name!r}")
    return _numbers(f"tabular/uci/{name}.txt", UCI[name], root, download, " ")


def airline_passengers(root: Folder = None, download: bool = False) -> Table:
    """Passengers of international flights in thousands, each month from 1949 to 1960: 144 rows (Box & Jenkins)."""
    return _series("tabular/jbrownlee/airline-passengers.csv", "Month", "Passengers", root, download)


def daily_min_temperatures(root: Folder = None, download: bool = False) -> Table:
    """The lowest temperature of each day in Melbourne in °C, 1981 to 1990: 3650 rows."""
    return _series("tabular/jbrownlee/daily-min-temperatures.csv", "Date", "Temp", root, download)


def _series(path: str, time: str, value: str, root: Folder, download: bool) -> Table:
    place = find(path, root, download)
    kinds = {time: "datetime", value: "float"}
    return Table(read_text(text(place), str(place), ",", header=True, kinds=kinds), value)
