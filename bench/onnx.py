"""ONNX models loaded and compiled by Weft beside ONNX Runtime, on the same number of threads, in turns.

python bench/onnx.py [--rounds 9] [--threads 1]

Every model is exported once, with its batch fixed, and run by both from the same file. A round times one contestant after the
other; what is printed is the median over the rounds of the time of a call (wall clock of one thread that is otherwise idle, and
processor time beside it), and the ratio of the medians: below 1.0 Weft is quicker.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
import weft.onnx
from weft import nn
from weft.models import supervised as models


class Recurrent(nn.Module):
    """Two LSTM layers over 64 steps, and scores of the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(64, 128, num_layers=2, batch_first=True), nn.Linear(128, 10)

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def bert_small() -> nn.Module:
    config = models.BertConfig(
        vocab_size=8000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024
    )
    return models.BertModel(config, add_pooling_layer=False)


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], weft.Tensor]]] = {
    "ResNet-18 (1, 3, 224, 224)": (models.resnet18, lambda: weft.randn(1, 3, 224, 224)),
    "ViT-tiny (1, 3, 224, 224)": (models.vit_ti_16, lambda: weft.randn(1, 3, 224, 224)),
    "BERT-small (1, 128)": (bert_small, lambda: weft.randint(0, 8000, (1, 128))),
    "LSTM (8, 64, 64)": (Recurrent, lambda: weft.randn(8, 64, 64)),
}


def timed(call: Callable[[], Any], least: float = 0.2) -> tuple[float, float]:
    """Seconds of a call: wall clock and processor."""
    count = 0
    wall, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < least or not count:
        call()
        count += 1
    return (time.perf_counter() - wall) / count, (time.process_time() - cpu) / count


def contest(name: str, rounds: int, threads: int) -> None:
    import onnxruntime

    make, example = CASES[name]
    weft.manual_seed(0)
    model, x = make().eval(), example()
    content = weft.onnx.export(model, (x,))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    given = {session.get_inputs()[0].name: x.numpy()}
    loaded = weft.compile(weft.onnx.load(content, frozen=True))
    calls = {"weft": lambda: loaded(x), "onnxruntime": lambda: session.run(None, given)}
    with weft.no_grad():
        ours, theirs = loaded(x), session.run(None, given)[0]
        first = ours if isinstance(ours, weft.Tensor) else ours[0]
        np.testing.assert_allclose(first.numpy(), theirs, rtol=1e-3, atol=1e-3)
        for call in calls.values():
            timed(call, 0.5)
        times: dict[str, list[tuple[float, float]]] = {word: [] for word in calls}
        for _ in range(rounds):
            for word, call in calls.items():
                times[word].append(timed(call))
    wall = {word: statistics.median(t[0] for t in found) for word, found in times.items()}
    cpu = {word: statistics.median(t[1] for t in found) for word, found in times.items()}
    print(
        f"{name:28} weft {cpu['weft'] * 1e3:8.2f} ms  onnxruntime {cpu['onnxruntime'] * 1e3:8.2f} ms  "
        f"ratio {cpu['weft'] / cpu['onnxruntime']:.2f}  (wall {wall['weft'] / wall['onnxruntime']:.2f})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    arguments = parser.parse_args()
    weft.set_num_threads(arguments.threads)
    print(f"{arguments.threads} thread(s), processor time of a call, medians of {arguments.rounds} rounds in turns")
    for name in CASES:
        if arguments.only in name:
            contest(name, arguments.rounds, arguments.threads)


if __name__ == "__main__":
    main()
