"""Small files in the layout of the real ones, made of the digits and of formulas."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from pathlib import Path

import numpy as np
import scipy.io
from numpy.typing import NDArray

from weft.data import load_digits

PLACES = ("<1H OCEAN", "INLAND", "ISLAND", "NEAR BAY", "NEAR OCEAN")
SONG = "What say you, sir? The king is come to court,\nAnd all the lords attend him. So be it!\n"


def write_all(root: Path) -> None:
    """Everything that a recipe reads."""
    for name in ("mnist", "fashion-mnist"):
        write_idx(root / name)
    write_bits(root / "binarized-mnist")
    write_cifar(root / "cifar10" / "cifar-10-batches-bin")
    write_file(root / "tinyshakespeare" / "input.txt", (SONG * 60).encode())
    write_file(root / "tabular" / "jbrownlee" / "airline-passengers.csv", airline().encode())
    write_file(root / "tabular" / "california" / "housing.tgz", packed(housing().encode(), "housing.csv"))


def write_file(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def digits(side: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """600 digits, each pixel repeated, in a dark frame: (600, side, side)."""
    images, labels = load_digits()
    big = np.repeat(np.repeat(images[:600] * 15, 3, 1), 3, 2)  # (600, 24, 24)
    border = (side - 24) // 2
    return np.pad(big, ((0, 0), (border, border), (border, border))), labels[:600]


def write_idx(folder: Path, train: int = 500) -> None:
    """600 digits, the first of them for training."""
    images, labels = digits(28)
    for part, rows in (("train", slice(0, train)), ("t10k", slice(train, 600))):
        for kind, array in (("images-idx3", images[rows]), ("labels-idx1", labels[rows])):
            head = struct.pack(f">I{array.ndim}I", 0x0800 + array.ndim, *array.shape)
            write_file(folder / f"{part}-{kind}-ubyte.gz", gzip.compress(head + array.tobytes(), 1))


def write_bits(folder: Path) -> None:
    """Parts of 400, 100 and 100 images of bits."""
    bits = (digits(28)[0] > 100).reshape(600, -1).astype(np.uint8)
    for part, rows in (("train", slice(0, 400)), ("valid", slice(400, 500)), ("test", slice(500, 600))):
        file = io.BytesIO()
        scipy.io.savemat(file, {"X": bits[rows]})
        write_file(folder / f"binarized_mnist_{part}.mat", file.getvalue())


def write_cifar(folder: Path) -> None:
    images, labels = digits(32)
    pixels = np.repeat(images[:, None], 3, 1).reshape(len(images), -1)  # (600, 3, 32, 32) → (600, 3072)
    records = np.concatenate([labels[:, None], pixels], 1)
    for number in range(5):
        write_file(folder / f"data_batch_{number + 1}.bin", records[number * 100 : (number + 1) * 100].tobytes())
    write_file(folder / "test_batch.bin", records[500:].tobytes())


def airline() -> str:
    """144 months with growth and seasons."""
    month = np.arange(144)
    values = np.exp(4.8 + 0.01 * month + 0.2 * np.sin(2 * np.pi * month / 12))
    rows = [f'"{1949 + m // 12}-{m % 12 + 1:02}",{value:.0f}' for m, value in zip(month, values, strict=True)]
    return "\n".join(['"Month","Passengers"', *rows]) + "\n"


def housing(rows: int = 1000) -> str:
    """Districts whose price follows the income, with noise that grows with it; some lack their bedrooms."""
    rng = np.random.default_rng(0)
    income = rng.uniform(1, 8, rows)
    price = 50_000 * income + 10_000 * income * rng.standard_normal(rows)
    lines = [
        "longitude,latitude,housing_median_age,total_rooms,total_bedrooms,population,households,median_income,"
        "median_house_value,ocean_proximity"
    ]
    for i in range(rows):
        bedrooms = "" if i % 50 == 7 else f"{100 + i % 90}"
        place = PLACES[i % 5]
        lines.append(
            f"-12{i % 4}.5,3{i % 6}.2,{i % 50},{500 + i},{bedrooms},{900 + i % 70},{300 + i % 40},{income[i]:.4f},{price[i]:.0f},{place}"
        )
    return "\n".join(lines) + "\n"


def packed(content: bytes, name: str) -> bytes:
    """A .tgz with one file."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()
