"""Captions and images of sequences: against PyTorch's cells, step by step, trained and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import weft
from weft.errors import OptionError
from weft.models.supervised import Captioner, SequenceToImage, coverage_penalty, greedy_search, small_encoder

F = weft.nn.functional


def captioner() -> Captioner:
    weft.manual_seed(0)
    return Captioner(small_encoder(1, (4, 6)), 6, vocabulary=11, embedding_dim=8, hidden_size=10)


def images(*shape: int) -> weft.Tensor:
    return weft.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def words(*shape: int) -> weft.Tensor:
    return weft.from_numpy(np.random.default_rng(1).integers(0, 11, shape))


def torch_captions(model: Captioner, regions: Any, tokens: Any) -> tuple[Any, Any]:
    """Show, attend and tell in PyTorch: additive attention to regions (B, P, M), then an LSTM cell, word by word."""
    w = {key: torch.from_numpy(value.numpy()) for key, value in model.state_dict().items()}
    cell = torch.nn.LSTMCell(8 + 6, 10)
    cell.load_state_dict({k.removeprefix("decoder.cell."): v for k, v in w.items() if k.startswith("decoder.cell.")})
    h, c = torch.tanh(regions.mean(1) @ w["bridge.weight"].T + w["bridge.bias"]).chunk(2, -1)
    score, logits, looked = "decoder.attention.score.", [], []
    for token in tokens.T:
        x = w["embedding.weight"][token]
        e = (
            torch.tanh(regions @ w[score + "key_weight"].T + (h @ w[score + "query_weight"].T)[:, None])
            @ w[score + "vector"]
        )
        alpha = e.softmax(-1)
        context = (alpha[..., None] * regions).sum(1)
        h, c = cell(torch.cat([x, context], -1), (h, c))
        logits.append(torch.cat([h, context, x], -1) @ w["output.weight"].T + w["output.bias"])
        looked.append(alpha)
    return torch.stack(logits, 1), torch.stack(looked, 1)


def test_captioner_equals_pytorch() -> None:
    model, x, tokens = captioner().eval(), images(3, 1, 12, 12), words(3, 5)
    regions = torch.from_numpy(model.encoder(x).detach().numpy()).flatten(2).mT
    with torch.no_grad():
        want = torch_captions(model, regions, torch.from_numpy(tokens.numpy()))
    got = model(x, tokens)
    assert tuple(got[1].shape) == (3, 5, 9)
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), theirs.numpy(), atol=1e-5)


@pytest.mark.parametrize("cuts", [[5], [1, 1, 1, 1, 1], [3, 2]])
def test_steps_equal_the_whole(cuts: list[int]) -> None:
    """The state carries everything: words read in pieces give the scores of the whole caption."""
    model, x, tokens = captioner().eval(), images(2, 1, 12, 12), words(2, 5)
    logits, weights = model(x, tokens)
    state, done = model.start(x), 0
    for count in cuts:
        scores, state = model.step(tokens[:, done : done + count], state)
        done += count
        np.testing.assert_allclose(scores.detach().numpy(), logits[:, done - 1].detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(state.weights.detach().numpy(), weights[:, -1].detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(weights.sum(-1).detach().numpy(), 1, atol=1e-6)


def test_coverage_penalty() -> None:
    """0 where every region is looked at once in all; P (1 − T/P)² where T steps look everywhere alike."""
    once = weft.eye(4)[None]
    even = weft.full((2, 3, 5), 0.2)
    assert float(coverage_penalty(once)) == 0
    assert float(coverage_penalty(even)) == pytest.approx(5 * (1 - 3 / 5) ** 2)


def trained(make: Callable[[], Any], loss: Callable[[Any], weft.Tensor], steps: int, lr: float, compiled: bool) -> Any:
    """The model and its losses after steps of Adam."""
    weft.manual_seed(0)
    model = make()
    optimizer = weft.optim.Adam(model.parameters(), lr=lr)

    def step() -> weft.Tensor:
        value = loss(model)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return value.detach()

    run = weft.compile(step) if compiled else step
    return model, [run().item() for _ in range(steps)]


def quadrants() -> tuple[weft.Tensor, weft.Tensor]:
    """Images with one bright quadrant, and their captions: start, row (2, 3), column (4, 5), end."""
    pictures = np.zeros((4, 1, 16, 16), np.float32)
    for number in range(4):
        row, column = divmod(number, 2)
        pictures[number, 0, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] = 1
    captions = [[0, 2 + number // 2, 4 + number % 2, 1] for number in range(4)]
    return weft.from_numpy(pictures), weft.tensor(captions)


def caption_loss(model: Captioner) -> weft.Tensor:
    pictures, captions = quadrants()
    logits, weights = model(pictures, captions[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), captions[:, 1:].flatten()) + 0.01 * coverage_penalty(weights)


def drawing_loss(model: SequenceToImage) -> weft.Tensor:
    pictures, captions = quadrants()
    return F.binary_cross_entropy_with_logits(model(captions), pictures)


PROBLEMS: dict[str, tuple[Callable[[], Any], Callable[[Any], weft.Tensor]]] = {
    "captions": (lambda: Captioner(small_encoder(1, (8, 16)), 16, 6, embedding_dim=8, hidden_size=16), caption_loss),
    "drawings": (
        lambda: SequenceToImage(6, 1, (16, 8), side=4, embedding_dim=8, hidden_size=16),
        drawing_loss,
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_compiled_training_equals_eager(name: str) -> None:
    make, loss = PROBLEMS[name]
    (eager, want), (compiled, got) = (trained(make, loss, 10, 0.003, choice) for choice in (False, True))
    np.testing.assert_allclose(got, want, atol=1e-4)
    assert want[-1] < want[0]
    for p, q in zip(compiled.parameters(), eager.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), atol=1e-4)


def test_captions_are_learned() -> None:
    """After training, greedy decoding names the row and the column of the bright quadrant in every image."""
    model, _ = trained(*PROBLEMS["captions"], 120, 0.01, True)
    pictures, captions = quadrants()
    model.eval()
    written = greedy_search(model.step, captions[:, :1], model.start(pictures), max_new_tokens=5, eos_token_id=1)
    np.testing.assert_array_equal(written.numpy(), captions.numpy())


def test_drawings_are_learned() -> None:
    model, _ = trained(*PROBLEMS["drawings"], 120, 0.01, True)
    pictures, captions = quadrants()
    drawn = model(captions).sigmoid().detach().numpy()
    assert drawn.shape == (4, 1, 16, 16)
    assert ((drawn > 0.5) == (pictures.numpy() > 0.5)).mean() > 0.98
    with pytest.raises(OptionError, match="widths and a side of 1 or more"):
        SequenceToImage(6, 1, ())
