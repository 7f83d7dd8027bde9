"""`weft run`, `python -m weft.torch` and `weft.torch.install()`: programs that import torch, answered by Weft."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import weft
import weft.torch
from weft.torch.version import TorchVersion

PROGRAM = """
import argparse
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from torch.optim.lr_scheduler import StepLR
from helper import Net

parser = argparse.ArgumentParser()
parser.add_argument("--resume", action="store_true")
parser.add_argument("--debug", action="store_true")
args = parser.parse_args()
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = StepLR(optimizer, 1)
for x, y in DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(2, (8,))), batch_size=4):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
print(args.resume, args.debug, torch.__version__ >= "1.5.0", type(loss).__module__)
if hasattr(torch, "nonsense"):
    raise SystemExit(5)
raise SystemExit(3)
"""
HELPER = """
import torch.nn as nn
from torch.nn.modules.conv import Conv2d

class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "helper.py").write_text(HELPER)
    return tmp_path / "train.py"


@pytest.fixture(autouse=True)
def left_as_found():
    """PyTorch is what it was, whatever a test does."""
    yield
    assert not weft.torch.is_installed() and sys.modules["torch"] is torch
    for name in ("helper", "broken"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("command", [["weft", "run"], ["weft.torch"]])
def test_program_with_its_own_options_runs_as_it_is(program, command):
    words = [sys.executable, "-m", *command, str(program), "--resume", "--debug"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "True True True weft\n"), done.stderr
    assert "asked for and not there" in done.stderr and f"torch.nonsense  ({program}:21)" in done.stderr


def test_traceback_has_the_lines_of_the_program_only(tmp_path, capfd):
    from weft.torch.script import execute

    file = tmp_path / "broken.py"
    file.write_text("import torch\n\ndef step():\n    return torch.ones(2, 3) @ torch.ones(2)\n\nstep()\n")
    assert execute(str(file), ()) == 1
    shown = capfd.readouterr().err
    assert shown.count("File ") == 2 and "line 6" in shown and "line 4" in shown and "ShapeError" in shown
    assert execute(str(file), (), debug=True) == 1
    assert capfd.readouterr().err.count("File ") > 2


def test_a_graphics_card_can_be_named_and_not_used(tmp_path, capfd):
    from weft.torch.script import execute

    file = tmp_path / "cards.py"
    file.write_text(
        "import torch\nd = torch.device('cuda', 1)\nprint(d, torch.device('cuda:1') == d, torch.device(1) == d)\n"
        "x = torch.ones(2)\nnet = torch.nn.Linear(2, 2).to(d)\nprint(net(x.to('cuda:0').cuda()).shape, d)\n"
    )
    assert execute(str(file), ()) == 1
    out, err = capfd.readouterr()
    assert out == "cuda:1 True True\n" and "weft run --cpu" in err
    assert execute(str(file), (), cpu=True) == 0
    assert capfd.readouterr().out == "cpu True True\nweft.Size([2]) cpu\n".replace(
        "weft", type(weft.Size()).__module__[:4]
    )
    assert weft.device("cuda").type == "cuda"
    with pytest.raises(weft.errors.DeviceError, match="not available"):
        weft.ones(1, device="cuda")


def test_pytorch_comes_back(program):
    with weft.torch.installed():
        import torch as ours
        from torch.nn import functional

        assert ours is not torch and functional.relu is weft.nn.functional.relu
        assert ours.nn.functional is functional and ours.Tensor is weft.Tensor
        assert ours.nn.Linear(1, 1).weight.dtype is ours.float32
    import torch as theirs

    assert theirs is torch


def test_never_active_unless_asked_for():
    code = "import weft, weft.torch, sys; print([f for f in sys.meta_path if 'weft.torch' in type(f).__module__])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_is_missing_is_told_with_its_line(tmp_path):
    file = tmp_path / "asks.py"
    file.write_text(
        "import torch\ntry:\n    from torch.nn.quantized import Linear\nexcept ImportError as error:\n    text = str(error)\n"
        "hasattr(torch, 'qscheme')\nhasattr(torch, 'qscheme')\ntry:\n    from torch.nn import Nonsense\nexcept ImportError:\n    pass\n"
    )
    found = weft.torch.run(str(file))
    asked = {wanted.name: [line for _, line in wanted.places] for wanted in weft.torch.missing()}
    assert asked == {"torch.nn.quantized": [3], "torch.qscheme": [6, 7], "torch.nn.Nonsense": [9]}
    assert "Weft has no quantised integers" in found["text"] and "bfloat16" in weft.torch.report()


@pytest.mark.parametrize("other", ["1.5.0", "1.13.1+cu117", "2.9", (1, 8), "0.4.1.post2", "2.13"])
def test_versions_compare_by_numbers(other):
    ours, theirs = TorchVersion("2.13.0+weft"), torch.torch_version.TorchVersion("2.13.0")
    assert (ours >= other, ours > other, ours < other) == (theirs >= other, theirs > other, theirs < other)
    assert isinstance(ours, str) and ours.split("+")[0].split(".")[:2] == ["2", "13"]
