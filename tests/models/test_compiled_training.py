"""Ten compiled steps of training equal ten eager ones, for every model of `weft.models.supervised`.

Models of images, of sequences and of transformers' have their rows beside their other tests; here are those of the rest,
and the check that no model is without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import weft
from tests.tables import slow_but
from weft import nn
from weft.models import supervised
from weft.models.pretrained.pretrained import Config

from . import test_captioning, test_huggingface, test_sequences_training, test_vision_training
from .hf_cases import BERT, CASES, GPT2, LLAMA, MOE, PHI3, Case, inputs, tensors_of, to_weft

F = nn.functional
Row = tuple[Callable[[], nn.Module], Callable[[Any], weft.Tensor]]  # makes a model; its loss

X = weft.from_numpy(np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32))
Y = weft.tensor([0, 1, 2] * 4)
PADDED = to_weft(inputs("tokens")[0])


def chosen(scores: weft.Tensor) -> weft.Tensor:
    """Cross entropy with class 0, 1, 2, 0, 1 … for the vectors of scores, whatever their shape (*, classes)."""
    rows = scores.flatten(0, -2)  # (*, classes) → (N, classes)
    return F.cross_entropy(rows, weft.arange(len(rows)) % min(3, rows.shape[1]))


CLASSICAL: dict[str, Row] = {
    "linear": (lambda: supervised.LinearRegression(3, 2), lambda m: F.mse_loss(m(X), X[:, :2].sin())),
    "logistic": (
        lambda: supervised.LogisticRegression(3),
        lambda m: F.binary_cross_entropy_with_logits(m(X), (Y > 0).float()),
    ),
    "softmax": (lambda: supervised.SoftmaxRegression(3, 3), lambda m: F.cross_entropy(m(X), Y)),
    "polynomial": (lambda: supervised.PolynomialRegression(3, 3), lambda m: 0.01 * F.mse_loss(m(X)[:, 0], Y.float())),
    "mlp": (
        lambda: supervised.MLP(3, [8, 6], 3, "gelu", dropout=0.1, norm="batch", init="he"),
        lambda m: F.cross_entropy(m(X), Y),
    ),
    "rectifier": (lambda: supervised.rectifier_network(3, [8], 3), lambda m: F.cross_entropy(m(X), Y)),
    "sentences": (
        lambda: supervised.SentenceEncoder(bert(), None, ("cls_token", "mean_tokens"), nn.Linear(32, 8)),
        lambda m: chosen(5 * m(**PADDED)),
    ),
    "prefix decoder": (
        lambda: supervised.GPT2LMHeadModel(supervised.GPT2Config(**{**GPT2, "n_layer": 1})),
        lambda m: chosen(m(**PADDED, prefix_lengths=weft.tensor([2, 0, 7])).logits),
    ),
}
SHARED = {**MOE, "shared_expert_intermediate_size": 20}
MORE = (
    Case("MistralForSequenceClassification", {**LLAMA, "sliding_window": 3, "num_labels": 3}),
    Case("Qwen2ForSequenceClassification", {**LLAMA, "num_labels": 3}),
    *(Case(f"{name}ForTokenClassification", {**LLAMA, "num_labels": 3}) for name in ("Mistral", "Qwen2", "Qwen3")),
    Case("Phi3ForTokenClassification", {**PHI3, "num_labels": 3}),
    Case("MixtralForTokenClassification", {**LLAMA, "num_local_experts": 3, "num_labels": 3}),
    *(
        Case(f"Qwen2MoeFor{task}", {**SHARED, "num_labels": 3})
        for task in ("SequenceClassification", "TokenClassification")
    ),
    *(
        Case(f"Qwen3MoeFor{task}", {**MOE, "num_labels": 3})
        for task in ("SequenceClassification", "TokenClassification")
    ),
)
# by its class, the first case of every model of transformers' that test_huggingface does not train
HEADS = {case.name: case for case in (*MORE, *reversed(CASES.values())) if case.name in supervised.__all__}
for name in test_huggingface.TRAINED:
    HEADS.pop(CASES[name].name, None)


TASKS = ("Classification", "Answering", "Choice", "Prediction")  # heads of a base that has its own row


def bert() -> nn.Module:
    config = supervised.BertConfig(**{**BERT, "num_hidden_layers": 1})
    return supervised.BertModel(config, add_pooling_layer=False)


def head(name: str) -> Row:
    """A model of `hf_cases` with one layer, and a loss over its first two results."""
    case = HEADS[name]
    given = to_weft(inputs(case.inputs)[0])
    return lambda: test_huggingface.fresh(case), lambda m: sum(chosen(y) for y in tensors_of(m(**given))[:2])


def trained(row: Row, compiled: bool) -> tuple[list[float], dict[str, np.ndarray]]:
    """Losses and final weights of ten steps of SGD with momentum."""
    make, loss_of = row
    weft.manual_seed(0)
    model = make().train()
    lr = 0.05 if not isinstance(model, supervised.SiglipModel) else 1e-4  # whose logits have a large scale
    optimizer = weft.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    def step() -> weft.Tensor:
        loss = loss_of(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = weft.compile(step) if compiled else step
    losses = [run().item() for _ in range(10)]
    return losses, {key: value.numpy() for key, value in model.state_dict().items()}


@pytest.mark.parametrize("name", slow_but(lambda name: not name.endswith(TASKS), [*CLASSICAL, *HEADS]))
def test_ten_compiled_steps_are_eager_steps(name: str) -> None:
    row = CLASSICAL[name] if name in CLASSICAL else head(name)
    (slow, before), (fast, after) = trained(row, False), trained(row, True)
    assert min(slow) < slow[0]
    np.testing.assert_allclose(fast, slow, atol=1e-4, rtol=1e-4)
    for key, value in before.items():
        np.testing.assert_allclose(after[key], value, atol=1e-4, rtol=1e-4, err_msg=key)


# ------------------------------------------------------------------------------------------- every model

EXEMPT = {
    "MarkovModel": "counts, without parameters",
    "Perceptron": "its rule is no gradient step: the output is a step function",
    "PerceptronHistory": "a record",
    "KMeans": "a record",
    "CodedPerceptron": "perceptrons",
    "WordVectors": "a table to look into, without parameters",
    "CNBlockConfig": "a record",
    "GoogLeNetOutputs": "a record",
    "GenerationConfig": "a record",
    "TextStreamer": "tells words while they are written",
    "TextIteratorStreamer": "tells words while they are written",
    "StopStrings": "ends a text",
}


def models_in_rows() -> Iterable[nn.Module]:
    """A model of every row, of all tables."""
    tables: tuple[dict[str, tuple], ...] = (
        CLASSICAL,
        test_vision_training.TINY,
        test_sequences_training.MODELS,
        test_captioning.PROBLEMS,
    )
    for table in tables:
        yield from (make() for make, *_ in table.values())
    yield from (test_huggingface.fresh(CASES[name]) for name in test_huggingface.TRAINED)
    yield from (test_huggingface.fresh(case) for case in HEADS.values())


def test_every_model_has_a_row() -> None:
    names = [name for name in supervised.__all__ if isinstance(getattr(supervised, name), type)]
    names = [name for name in names if not issubclass(getattr(supervised, name), (Config, supervised.ModelOutput))]
    trained_here = {type(part) for model in models_in_rows() for part in model.modules()}
    without = {name for name in names if getattr(supervised, name) not in trained_here}
    assert without == set(EXEMPT)
