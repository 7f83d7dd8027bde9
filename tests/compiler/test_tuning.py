"""`weft tune`: tilings that are chosen give the bits of the usual ones; files that are damaged or foreign change nothing."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import weft
from weft.app import cli
from weft.kernels.llvm.target import Target
from weft.kernels.matmul import trying
from weft.kernels.matmul.product import Product, Tiling
from weft.kernels.matmul.trying import candidates, layouts
from weft.kernels.matmul.tuning import Choice, chosen, cut, name
from weft.runtime import tuned

from .kernel_runs import TARGETS
from .test_matmul import matrix, plain, run, strides

HERE = Target.host().identity


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("WEFT_TUNING", raising=False)
    tuned._read.clear()
    tuned._told.clear()
    yield
    tuned._read.clear()


@pytest.fixture
def hurried(monkeypatch):
    """Measurements that take no time, and find whatever chance brings."""
    tiles = dict.fromkeys((16, 32), ((4, 2), (6, 2)))
    settings = {"RUN": 1e-6, "TURNS": 1, "MORE_TURNS": 1, "GAIN": 0.0, "LEAST": 0, "TILES": tiles}
    for setting, value in settings.items():
        monkeypatch.setattr(trying, setting, value)


# ---------------------------------------------------------------- bits


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("dtype", "m", "n", "k", "layout"),
    [
        (np.float32, 70, 150, 90, "CC"),
        (np.float32, 64, 100, 40, "CF"),
        (np.float32, 129, 65, 33, "FC"),
        (np.float64, 40, 70, 600, "FF"),
        (np.float32, 24, 48, 1600, "FC"),  # parts along k, sums that wait
    ],
)
def test_every_tiling_gives_the_same_bits(target, dtype, m, n, k, layout):
    """On 1, 2 and 3 threads; some of the candidates of each product, the same ones every time."""
    rng, machine = np.random.default_rng(m), Target.named(target)
    a, b = matrix(rng, (), m, k, dtype, layout[0]), matrix(rng, (), k, n, dtype, layout[1])
    c = np.zeros((m, n), dtype)
    kind = {4: "f32", 8: "f64"}[c.itemsize]
    given = kind, (), m, n, k, strides(a), strides(b)
    p = Product(*given, plain(kind, c))
    usual = min(p, p.swapped(), key=Product.cost)
    run(usual, [a, b, c], 1, machine)
    truth, tried = c.copy(), 0
    possible = [x for x in candidates(p, machine) if cut(_tiling(p, x, machine)) == cut(Tiling.of(usual, machine))]
    for number in rng.permutation(len(possible))[:2]:
        form = _formed(p, possible[number])
        for threads in (1, 2, 3):
            c[...] = np.nan
            run(form, [a, b, c], threads, machine)
            np.testing.assert_array_equal(c, truth, err_msg=f"{possible[number]} {threads}")
        tried += 1
    assert tried or not possible


def _formed(p: Product, choice: Choice) -> Product:
    form = p.swapped() if choice.swapped else p
    return Product(form.kind, form.batch, form.m, form.n, form.k, form.a, form.b, form.body, form.words, choice)


def _tiling(p: Product, choice: Choice, target: Target) -> Tiling:
    return Tiling.of(_formed(p, choice), target)


def test_a_plan_takes_the_tiling_that_was_kept_and_computes_the_same():
    x, w = weft.randn(60, 90), weft.randn(70, 90)
    before = weft.compile(lambda x, w: (x @ w.t()).relu())(x, w)
    (p,) = (p for p in trying.planned() if (p.m, p.n, p.k) == (60, 70, 90))
    choice = next(iter(candidates(p, Target.host())))
    tuned.keep(HERE, {name(p): choice.written()})
    assert chosen(p) == choice
    step = weft.compile(lambda x, w: (x @ w.t()).relu())
    assert (step(x, w) == before).all()
    kernels = [slot.step.kernel for slot in step.explain(x, w).plan.slots]
    assert choice in [getattr(kernel, "choice", None) for kernel in kernels]


def test_what_would_add_in_another_order_is_not_taken(monkeypatch):
    """Whatever a file says, sums are cut as they always are."""
    p = layouts(64, 512, 784)[0]
    usual = min(p, p.swapped(), key=Product.cost)
    choice = Choice(4, 2, 1, True)
    monkeypatch.setattr(Choice, "of", lambda self, p, usual, target: Tiling(usual.lanes, 4, 2, 1, True, 7, 4))
    assert p.tuned(usual, choice) is usual


# ---------------------------------------------------------------- files


def test_entries_are_kept_by_target_and_forgotten():
    assert tuned.found(HERE) == {}
    path = tuned.keep(HERE, {"a": 1, "b": 2})
    tuned.keep("another", {"a": 3})
    assert tuned.found(HERE) == {"a": 1, "b": 2} and tuned.found("another") == {"a": 3}
    tuned.keep(HERE, {"b": None, "c": 4})
    assert tuned.found(HERE) == {"a": 1, "c": 4}
    assert tuned.forget(HERE) == 2 and not path.exists()
    assert tuned.found(HERE) == {} and tuned.forget(HERE) == 0
    assert tuned.found("another") == {"a": 3}


def test_the_environment_forces_a_file_or_none(tmp_path, monkeypatch):
    tuned.keep(HERE, {"a": 1})
    monkeypatch.setenv("WEFT_TUNING", "0")
    assert tuned.found(HERE) == {} and tuned.place(HERE) is None and tuned.keep(HERE, {"a": 2}) is None
    monkeypatch.setenv("WEFT_TUNING", str(tmp_path / "fixed.json"))
    with pytest.warns(RuntimeWarning, match="is not there"):
        assert tuned.found(HERE) == {}
    tuned.keep(HERE, {"a": 5})
    assert tuned.found(HERE) == {"a": 5}
    monkeypatch.delenv("WEFT_TUNING")
    assert tuned.found(HERE) == {"a": 1}


GOOD = {"format": tuned.FORMAT, "target": HERE, "entries": {"a": 1}}
BROKEN = {
    "no JSON": ("{", "cannot be read"),
    "not text": (b"\xff\xfe\x00", "cannot be read"),
    "a list": ("[1, 2]", "no file of the form"),
    "another form": (json.dumps(GOOD | {"format": "weft tuning 99"}), "no file of the form"),
    "entries that are none": (json.dumps(GOOD | {"entries": 3}), "no file of the form"),
    "another processor": (json.dumps(GOOD | {"target": "pdp-11"}), "another processor.*pdp-11"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_and_foreign_files_are_left_alone_with_a_note(what):
    content, said = BROKEN[what]
    path = tuned.keep(HERE, {"a": 1})
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    tuned._read.clear()
    with pytest.warns(RuntimeWarning, match=said):
        assert tuned.found(HERE) == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        assert tuned.found(HERE) == {}
        tuned.keep(HERE, {"b": 2})  # and written anew
    assert tuned.found(HERE) == {"b": 2}


FINE = Choice(6, 2, 1, True).written()


@pytest.mark.parametrize(
    "entry",
    [
        None,
        3,
        [],
        {},
        FINE | {"rows": 0},
        FINE | {"rows": 65},
        FINE | {"vectors": 2.0},
        FINE | {"block": -1},
        FINE | {"packed": 1},
        FINE | {"swapped": "no"},
        FINE | {"rows": True},
    ],
)
def test_entries_that_cannot_be_are_no_choice(entry):
    assert Choice.read(entry) is None
    assert Choice.read(FINE) == Choice(6, 2, 1, True)


def test_tiles_without_room_in_the_registers_are_not_taken():
    for target in map(Target.named, ("x86-64-v2", "x86-64-v3", "x86-64-v4")):
        for p in layouts(64, 512, 784):
            tiling = Choice(12, 8, 1, False).of(p, Tiling.of(p, target), target)
            assert tiling == Tiling.of(p, target)


# ---------------------------------------------------------------- measuring


def test_what_is_measured_is_kept(hurried):
    products = layouts(20, 24, 40)
    trials = trying.try_all(products)
    kept = {name(x.product): x.choice for x in trials if x.choice}
    assert {key: Choice.read(entry) for key, entry in tuned.found(HERE).items()} == kept
    assert [x.product for x in trials] == products
    assert all(x.before > 0 and x.after > 0 and x.gain > 0 for x in trials) and any(x.tried for x in trials)


def test_products_of_bfloat16_numbers_are_left_as_they_are(monkeypatch):
    if not Target.host().bfloat:
        pytest.skip("products are float32 here")
    x, w = weft.randn(61, 90), weft.randn(70, 90)
    monkeypatch.setattr(trying, "PLANNED", {})
    monkeypatch.setattr("weft.kernels.matmul.product.PLANNED", trying.PLANNED)

    @weft.compile
    def step(x, w):
        with weft.amp.autocast("cpu", weft.bfloat16):
            narrow = x @ w.t()
        return narrow.float(), x.sin() @ w.t()

    step(x, w)
    assert any(p.narrow for p, _ in trying.PLANNED.values())
    assert [p.narrow for p in trying.planned()] == [False]


def test_no_gain_no_choice(hurried, monkeypatch):
    """And what was kept before is taken out."""
    p = layouts(20, 24, 40)[0]
    tuned.keep(HERE, {name(p): FINE, "other": FINE})
    monkeypatch.setattr(trying, "GAIN", 1e9)
    (trial,) = trying.try_all([p])
    assert trial.choice is None and trial.gain == 1.0
    assert tuned.found(HERE) == {"other": FINE}


def test_the_command_prints_a_table_and_forgets(hurried, capsys):
    def said(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            cli.main(["tune", *words])
        assert ended.value.code == 0
        return capsys.readouterr().out

    document = json.loads(said("--shapes", "16x24x40", "--json"))
    assert [row["product"] for row in document["products"]] == ["16×24×40 A Bᵀ", "16×40×24 A B", "24×40×16 Aᵀ B"]
    assert document["file"] == str(tuned.place(HERE)) and document["target"] == HERE
    text = said("--shapes", "16x24x40")
    assert "before µs" in text and "16×24×40 A Bᵀ" in text and "have a tiling of their own now" in text
    assert "removed" in said("--forget") and not tuned.place(HERE).exists()


@pytest.mark.slow
def test_the_products_of_a_recipe_are_measured(hurried, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.main(["tune", "digits-mlp", "--json"])
    assert ended.value.code == 0
    rows = json.loads(capsys.readouterr().out)["products"]
    assert len(rows) >= 6 and all(row["gain"] > 0 for row in rows)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []  # no run is left behind


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "takes a recipe or --shapes"),
        (("digits-mlp", "--shapes", "1x2x3"), "takes a recipe or --shapes"),
        (("--shapes", "64x512"), "got '64x512'"),
        (("--shapes", "8x8x8,ax2x3"), "got 'ax2x3'"),
    ],
)
def test_commands_that_say_nothing_clear(words, said, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["tune", *words])
    assert ended.value.code == 2 and said in capsys.readouterr().err
