"""Every result draws itself; without matplotlib the error names the extra; names of the package are there when asked."""

from __future__ import annotations

import builtins
import subprocess
import sys

import numpy as np
import pytest

import weft
from weft import inspect, nn
from weft.models.supervised import MLP

MODEL, TANH = MLP(2, [4], 2), MLP(2, [4], 2, activation="tanh")
IMAGES = weft.randn(3, 1, 8, 8)
CONV = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
ROWS = np.random.default_rng(0).normal(size=(30, 4))


def watched():
    watch = inspect.UpdateWatch(nn.Linear(2, 2))
    watch.step()
    return watch


RESULTS = {
    "parameter_counts": lambda: inspect.parameter_counts(CONV),
    "parameter_counts of nothing": lambda: inspect.parameter_counts(nn.ReLU()),
    "line_regions": lambda: inspect.line_regions(MLP(1, [5], 2)),
    "line_regions without a joint": lambda: inspect.line_regions(nn.Linear(1, 1)),
    "plane_regions": lambda: inspect.plane_regions(MODEL),
    "towers in 1-D": lambda: inspect.approximate_by_towers(lambda p: p[:, 0], [0.0], [1.0], 3, 1.0),
    "towers in 2-D": lambda: inspect.approximate_by_towers(lambda p: p[:, 0], [0.0] * 2, [1.0] * 2, 3, 1.0),
    "lines": lambda: inspect.approximate_by_lines(lambda p: p[:, 0] ** 2, 0, 1, 3, 2.0),
    "symmetries": lambda: inspect.symmetries(TANH, weft.randn(5, 2)),
    "lipschitz": lambda: inspect.lipschitz(MODEL, weft.randn(9, 2)),
    "activation_statistics": lambda: inspect.activation_statistics(MODEL, weft.randn(9, 2)),
    "gradient_flow": lambda: inspect.gradient_flow(MODEL, lambda y: y.sum(), weft.randn(9, 2)),
    "updates": watched,
    "activation_maps": lambda: inspect.activation_maps(CONV, IMAGES),
    "filters": lambda: inspect.filters(CONV[0]),
    "filters in colour": lambda: inspect.filters(nn.Conv2d(3, 2, 3)),
    "saliency": lambda: inspect.saliency(CONV, IMAGES),
    "cam": lambda: inspect.cam(CONV, IMAGES, "1", "4"),
    "grad_cam in colour": lambda: inspect.grad_cam(nn.Sequential(nn.Conv2d(3, 1, 1), *CONV), weft.rand(2, 3, 8, 8), "2"),
    "attention_maps": lambda: inspect.attention_maps(nn.TransformerEncoderLayer(4, 2, 8), weft.randn(5, 2, 4)),
    "receptive_field": lambda: inspect.receptive_field(CONV[:2], IMAGES),
    "receptive_field in 1-D": lambda: inspect.receptive_field(nn.Conv1d(1, 1, 3), (1, 1, 9)),
    "pca": lambda: inspect.pca(ROWS, 3),
    "pca of one component": lambda: inspect.pca(ROWS, 1),
    "tsne": lambda: inspect.tsne(ROWS, perplexity=5, iterations=10),
    "loss_line": lambda: inspect.loss_line(MODEL, lambda: 1.0, inspect.random_direction(MODEL), [0.0, 1.0]),
    "loss_landscape": lambda: inspect.loss_landscape(MODEL, lambda: MODEL(IMAGES[..., :2]).std() + 1, steps=[-1, 0, 1]),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_result_draws_itself(name, tmp_path):
    result = RESULTS[name]()
    path = result.save(tmp_path / "picture.png", dpi=40)
    assert path.read_bytes().startswith(b"\x89PNG")
    figure = result.figure()
    assert figure.axes and figure.canvas.manager is None  # no window belongs to it


@pytest.mark.parametrize(
    "labels", [np.arange(30) % 2, np.arange(30) % 7, np.array(["a", "b", "c"] * 10), np.arange(30)]
)
def test_labels_name_their_points(labels):
    axis = inspect.pca(ROWS).figure(labels).axes[0]
    kinds = len(np.unique(labels))
    assert len(axis.collections) == kinds
    assert (axis.get_legend() is not None) == (kinds <= 4) and len(axis.texts) == (kinds if kinds > 4 else 0)


def test_points_on_regions_and_tokens_on_attention():
    assert (
        len(inspect.plane_regions(MODEL).figure(weft.randn(5, 2), weft.tensor([0, 1, 0, 1, 1])).axes[0].collections)
        == 3
    )
    maps = inspect.attention_maps(nn.TransformerEncoderLayer(4, 2, 8), weft.randn(3, 1, 4))
    axis = maps.figure("self_attn", queries=["a", "b", "c"], keys=["long", "b", "c"]).axes[0]
    assert [t.get_text() for t in axis.get_xticklabels()] == ["long", "b", "c"]
    with pytest.raises(weft.errors.OptionError, match="gave no weights"):
        maps.figure("nowhere")


def test_three_inputs_have_no_picture():
    with pytest.raises(weft.errors.OptionError, match="1 or 2 inputs"):
        inspect.approximate_by_towers(lambda p: p[:, 0], [0.0] * 3, [1.0] * 3, 1, 1.0).figure()


def test_missing_matplotlib_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == "matplotlib":
            raise ImportError("no matplotlib")
        return real(name, *args, **kwargs)

    result = inspect.parameter_counts(CONV)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        result.figure()


def test_all_names_are_there_and_nothing_heavy_is_imported():
    program = (
        "import sys, weft.inspect as i; assert 'weft.inspect.theory.regions' not in sys.modules;"
        "assert callable(i.summary) and all(hasattr(i, n) for n in i.__all__);"
        "assert not {'matplotlib', 'sklearn', 'torch'} & set(sys.modules); print(len(i.__all__))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) == len(inspect.__all__) > 60
