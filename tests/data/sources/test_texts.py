"""Text sets from small files in the genuine formats, and the published counts of the real ones."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from weft.data import DataLoader, sources
from weft.io.errors import FileFormatError, LayoutError

pytestmark = pytest.mark.filterwarnings("ignore::weft.data.sources.SourceWarning")


def put(path, content, encoding="utf-8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = content.encode(encoding)
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("\n\n", ["", ""]),
        ("a\u2028b\x0cc\n", ["a\u2028b\x0cc"]),  # separators of pages and paragraphs are text
        ("\ufeffä\nb", ["ä", "b"]),
    ],
)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_text_file(tmp_path, content, lines, ending):
    made = sources.TextFile(put(tmp_path / f"t.txt{ending}", content))
    assert list(made) == made.lines == lines and len(made) == len(lines)
    assert made.text == content.removeprefix("\ufeff") and made.alphabet == sorted(set(made.text))


def test_text_file_faults(tmp_path):
    with pytest.raises(sources.SourceError, match="there is no file"):
        sources.TextFile(tmp_path / "none.txt")
    path = put(tmp_path / "t.txt", "grün", "latin-1")
    with pytest.raises(FileFormatError, match=r"line 1: byte 0xfc is not utf-8.*latin-1"):
        sources.TextFile(path)
    assert sources.TextFile(path, encoding="latin-1")[0] == "grün"


def test_shakespeare_and_names(tmp_path):
    put(tmp_path / "input.txt", "0123456789" * 10)
    train, rest = sources.TinyShakespeare(tmp_path, "train"), sources.TinyShakespeare(tmp_path, "val")
    assert len(train.text) == 90 and train.text + rest.text == sources.TinyShakespeare(tmp_path).text
    put(tmp_path / "names.txt", "emma\nolivia\n")
    assert list(sources.Names(tmp_path)) == ["emma", "olivia"]
    with pytest.raises(ValueError, match="split must be one of train, val, all"):
        sources.TinyShakespeare(tmp_path, "test")


def test_wikitext(tmp_path):
    put(tmp_path / "wikitext-2" / "train.txt.gz", " \n = A <unk> = \n")
    assert sources.WikiText2(tmp_path).tokens == ["<eos>", "=", "A", "<unk>", "=", "<eos>"]


def test_sst2(tmp_path):
    put(tmp_path / "sst2" / "dev.tsv.gz", 'sentence\tlabel\nit "works" \t1\na\ttab\t0\n')
    made = sources.SST2(tmp_path, "dev", transform=str.upper)
    assert made.sentences == ['it "works"', "a\ttab"] and made.targets.tolist() == [1, 0]
    assert made[0] == ('IT "WORKS"', 1) and made.classes[1] == "positive"
    sentences, labels = next(iter(DataLoader(made, batch_size=2)))
    assert list(sentences) == ['IT "WORKS"', "A\tTAB"] and labels.tolist() == [1, 0]
    for content, message in [
        ("x\n", "line 1"),
        ("sentence\tlabel\ngood\n", "line 2"),
        ("sentence\tlabel\na\t2\n", "line 2"),
    ]:
        put(tmp_path / "sst2" / "dev.tsv.gz", content)
        with pytest.raises(LayoutError, match=message):
            sources.SST2(tmp_path, "dev")


def test_trec(tmp_path):
    put(tmp_path / "train_5500.label", "NUM:dist How far ?\nHUM:ind Who ?\nNUM:count How many ?\n", "latin-1")
    put(tmp_path / "TREC_10.label", "NUM:dist D\xe9j\xe0 ?\n", "latin-1")
    assert sources.TREC(tmp_path).targets.tolist() == [5, 3, 5]
    fine = sources.TREC(tmp_path, "test", fine=True)
    assert fine.classes == ("HUM:ind", "NUM:count", "NUM:dist") and fine[0] == ("Déjà ?", 2)
    put(tmp_path / "TREC_10.label", "WHAT:x y\n")
    with pytest.raises(LayoutError, match="unknown class 'WHAT'"):
        sources.TREC(tmp_path, "test")
    put(tmp_path / "TREC_10.label", "NUM:dist a ?\nno class\n")
    with pytest.raises(LayoutError, match="line 2"):
        sources.TREC(tmp_path, "test")


def test_parallel(tmp_path):
    paths = [
        put(tmp_path / "multi30k" / f"val.{name}.gz", content) for name, content in [("en", "a\nb\n"), ("de", "ä\nö")]
    ]
    assert list(sources.ParallelText(*paths)) == [("a", "ä"), ("b", "ö")]
    made = sources.Multi30k(tmp_path, "val", languages=("de", "en"))
    assert made[1] == ("ö", "b") and len(made) == 2 and made.languages == ("de", "en")
    put(paths[1], "ä\n")
    with pytest.raises(LayoutError, match=r"different numbers of lines \(val.en.gz: 2, val.de.gz: 1\)"):
        sources.ParallelText(*paths)
    with pytest.raises(ValueError, match="'en', 'de' and 'fr'"):
        sources.Multi30k(tmp_path, languages=("en", "es"))
    with pytest.raises(ValueError, match="at least one file"):
        sources.ParallelText()


def test_real_texts(real):
    shakespeare = sources.TinyShakespeare(real)
    assert len(shakespeare.text) == 1_115_394 and len(shakespeare.alphabet) == 65 and len(shakespeare) == 40_000
    assert len(sources.TinyShakespeare(real, "train").text) == 1_003_854  # nanoGPT's split
    names = sources.Names(real)
    assert len(names) == 32_033 and names[0] == "emma" and set(names.alphabet) == set("\nabcdefghijklmnopqrstuvwxyz")
    assert len(sources.WikiText2(real, "valid").tokens) == 217_646  # table 1 of Merity et al.
    assert len(sources.WikiText2(real, "test").tokens) == 245_569


def test_real_sentences(real):
    dev = sources.SST2(real, "test")
    assert len(dev) == 872 and np.bincount(dev.targets.numpy()).tolist() == [428, 444]  # GLUE's development set
    train, test = sources.TREC(real), sources.TREC(real, "test")
    assert len(train) == 5452 and len(test) == 500 and len(sources.TREC(real, fine=True).classes) == 50
    assert np.bincount(train.targets.numpy()).tolist() == [86, 1162, 1250, 1223, 835, 896]  # Li & Roth
    assert np.bincount(test.targets.numpy()).tolist() == [9, 138, 94, 65, 81, 113]


def test_real_multi30k(real):
    sizes = {"train": 29_000, "val": 1014, "test": 1000}
    for split, size in sizes.items():
        assert len(sources.Multi30k(real, split, ("en", "de", "fr"))) == size
    assert sources.Multi30k(real)[0][1] == "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche."
