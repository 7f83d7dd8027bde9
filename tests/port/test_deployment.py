"""How PyTorch programs hand models on: ONNX programs, scripted modules, event files; and points that fill a cube."""

from __future__ import annotations

import importlib
import io

import numpy as np
import pytest
import torch

import weft
import weft.torch
from weft.torch.quasirandom import SobolEngine


@pytest.fixture
def ours():
    with weft.torch.installed():
        yield importlib.import_module("torch")


def test_onnx_program_of_the_tutorial(ours, tmp_path):
    model, x = weft.nn.Linear(4, 2), weft.randn(3, 4)
    program = ours.onnx.export(model, (x,), dynamo=True)
    program.save(tmp_path / "model.onnx")
    np.testing.assert_allclose(weft.onnx.load(tmp_path / "model.onnx")(x).tolist(), model(x).tolist(), rtol=1e-5)
    np.testing.assert_allclose(program(x)[0].tolist(), model(x).tolist(), rtol=1e-5)


@pytest.mark.parametrize("size", ["Dim('batch', min=1)", "Dim.AUTO", "Dim.DYNAMIC"])
def test_sizes_have_names_or_none(ours, size):
    from torch.export import Dim

    shapes = ({0: eval(size, {"Dim": Dim}), 1: Dim.STATIC},)
    program = ours.onnx.export(weft.nn.Linear(4, 2), (weft.ones(3, 4),), dynamic_shapes=shapes)
    assert program(weft.ones(7, 4))[0].shape == (7, 2)
    with pytest.raises(weft.errors.WeftError):
        program(weft.ones(3, 5))


def test_old_opset_is_written_as_the_oldest_there_is(ours):
    file = io.BytesIO()
    ours.onnx.export(weft.nn.Linear(4, 2), weft.ones(3, 4), file, opset_version=11, dynamic_axes={"input": {0: "n"}})
    assert weft.onnx.load(file.getvalue()).opset == 17
    assert "opset 11" in weft.torch.wanting.report()


def test_scripted_module_is_saved_and_read(ours, tmp_path):
    model = ours.jit.trace(weft.nn.Sequential(weft.nn.Linear(4, 2)), weft.ones(1, 4))
    model.save(tmp_path / "model.pt")
    again = ours.jit.load(tmp_path / "model.pt", map_location="cpu")
    assert again(weft.ones(1, 4)).tolist() == model(weft.ones(1, 4)).tolist()
    assert list(model.state_dict()) == ["0.weight", "0.bias"]


@pytest.mark.parametrize("dimension", [1, 3, 40])
def test_sobol_points_are_pytorchs(dimension):
    mine, theirs = SobolEngine(dimension), torch.quasirandom.SobolEngine(dimension)
    for count in (5, 11):
        np.testing.assert_array_equal(mine.draw(count).numpy(), theirs.draw(count).numpy())
    assert repr(mine.reset()) == repr(theirs.reset())
    np.testing.assert_array_equal(
        mine.fast_forward(4).draw_base2(2).numpy(), theirs.fast_forward(4).draw_base2(2).numpy()
    )
    with pytest.raises(ValueError, match="power of 2"):
        mine.draw_base2(2)


def test_scrambled_points_are_in_the_cube_and_spread():
    points = SobolEngine(2, scramble=True, seed=3).draw(64).numpy()
    assert points.min() >= 0 and points.max() < 1
    cells = np.floor(points * 8).astype(int) @ [8, 1]
    assert len(set(cells.tolist())) == 64  # one in each of 8 × 8 cells: a (0, 6, 2)-net


def test_curves_and_sounds_in_event_files_are_pytorchs(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator").EventAccumulator
    make_ndarray = importlib.import_module("tensorboard.util.tensor_util").make_ndarray
    rng = np.random.RandomState(0)
    truth, scores, sound = rng.randint(0, 2, 50), rng.rand(50), rng.rand(1, 100) * 2 - 1
    found = []
    for library, writer in (
        (torch, importlib.import_module("torch.utils.tensorboard").SummaryWriter),
        (weft, importlib.import_module("weft.train.tensorboard").SummaryWriter),
    ):
        folder = tmp_path / library.__name__
        with writer(str(folder)) as events:
            events.add_pr_curve("curve", library.from_numpy(truth), library.from_numpy(scores), 3)
            events.add_audio("sound", library.from_numpy(sound), 1, sample_rate=8000)
        read = accumulator(str(folder)).Reload()
        (curve,), (audio,) = read.Tensors("curve"), read.Audio("sound")
        found.append(
            (make_ndarray(curve.tensor_proto), audio.encoded_audio_string, audio.sample_rate, audio.length_frames)
        )
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1:] == found[1][1:]
