"""Models of `weft.models.from_pretrained` beside transformers': outputs, gradients, steps compiled, files back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft import optim
from weft.io import load_file
from weft.io.huggingface import _spellings
from weft.models import from_pretrained

from . import hf_cases
from .hf_cases import CASES, Case, inputs, save, tensors_of, to_weft, weighted

pytestmark = hf_cases.needs_transformers


def gradients_in_file(theirs: Any, folder: Path) -> dict[str, weft.Tensor]:
    """Their gradients under the names that their files have: saved as if they were weights."""
    import torch

    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(parameter.grad if parameter.grad is not None else torch.zeros_like(parameter))
    theirs.save_pretrained(folder)
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    import torch

    case = CASES[name]
    theirs = save(case, tmp_path)
    ours = from_pretrained(tmp_path)
    arrays, masks = inputs(case.inputs)
    loss, expected = weighted(
        theirs(**{key: torch.tensor(value) for key, value in arrays.items()}), masks, torch.tensor
    )
    own_loss, found = weighted(ours(**to_weft(arrays)), masks, weft.tensor)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5, rtol=1e-5)
    loss.backward()
    own_loss.backward()
    truth = gradients_in_file(theirs, tmp_path / "gradients")
    for parameter, names in _spellings(ours):
        key = [name for name in names if name in truth][-1]
        grad = np.zeros(parameter.shape, np.float32) if parameter.grad is None else parameter.grad.numpy()
        np.testing.assert_allclose(grad, truth[key].numpy(), atol=5e-5, rtol=1e-4, err_msg=key)


SMALL = {"num_hidden_layers": 1, "n_layers": 1, "n_layer": 1, "num_layers": 1}
TRAINED = (
    "bert-pre-training",
    "roberta-masked",
    "distilbert-masked",
    "gpt2",
    "llama",
    "mistral",
    "t5",
    "t5-v1.1",
    "vit",
)


@pytest.mark.parametrize("name", TRAINED)
def test_ten_compiled_steps_are_those_of_eager_code(name: str) -> None:
    case = CASES[name]
    arrays, _ = inputs(case.inputs)

    def trained(compiled: bool) -> tuple[list[float], dict[str, weft.Tensor]]:
        weft.manual_seed(0)
        model = fresh(case)
        optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

        def step(**given: weft.Tensor) -> weft.Tensor:
            loss = sum((x**2).mean() for x in tensors_of(model(**given))[:2])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run = weft.compile(step) if compiled else step
        return [run(**to_weft(arrays)).item() for _ in range(10)], model.state_dict()

    (slow, before), (fast, after) = trained(False), trained(True)
    assert slow[-1] < slow[0]
    np.testing.assert_allclose(fast, slow, rtol=1e-4, atol=1e-5)
    for key in before:
        np.testing.assert_allclose(after[key].numpy(), before[key].numpy(), atol=1e-4, err_msg=key)


def fresh(case: Case) -> Any:
    """Weft's model with one layer and initial weights."""
    cls = getattr(weft.models.supervised, case.name)
    fields = {**case.config, **{key: 1 for key in SMALL if key in case.config}}
    return cls(cls.config_class.from_dict(fields))


@pytest.mark.parametrize(
    "name", ["bert-classes", "bert-untied", "roberta-masked", "xlm-roberta", "distilbert", "gpt2", "llama", "t5", "vit"]
)
def test_saved_folders_are_read_by_transformers(name: str, tmp_path: Path) -> None:
    import torch

    case = CASES[name]
    save(case, tmp_path / "theirs")
    ours = from_pretrained(tmp_path / "theirs")
    ours.save_pretrained(tmp_path / "ours")
    library = hf_cases.load_transformers()
    theirs, report = getattr(library, case.name).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert (
        load_file(tmp_path / "ours/model.safetensors").keys() == load_file(tmp_path / "theirs/model.safetensors").keys()
    )
    arrays, masks = inputs(case.inputs)
    _, expected = weighted(theirs(**{key: torch.tensor(value) for key, value in arrays.items()}), masks, torch.tensor)
    _, found = weighted(ours(**to_weft(arrays)), masks, weft.tensor)
    np.testing.assert_allclose(found[0], expected[0], atol=2e-5)


def test_buckets_of_distances_are_those_of_t5() -> None:
    import torch

    theirs = hf_cases.load_transformers().models.t5.modeling_t5.T5Attention._relative_position_bucket
    places = np.arange(-1500, 1500)
    for both in (True, False):
        for buckets, most in ((32, 128), (8, 10), (64, 256)):
            expected = theirs(torch.tensor(places), both, buckets, most).numpy()
            found = weft.nn.relative_position_bucket(weft.tensor(places), both, buckets, most).numpy()
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("BertModel", 109_482_240),
        ("DistilBertModel", 66_362_880),
        ("GPT2LMHeadModel", 124_439_808),
        ("T5ForConditionalGeneration", 60_506_624),
    ],
)
def test_default_sizes_have_the_published_number_of_parameters(name: str, published: int) -> None:
    cls = getattr(weft.models.supervised, name)
    with weft.nn.init.skipping():
        assert sum(p.numel() for p in cls(cls.config_class()).parameters()) == published


def test_attention_maps_are_those_of_transformers(tmp_path: Path) -> None:
    import torch

    case = Case("LlamaForCausalLM", {**hf_cases.LLAMA, "attn_implementation": "eager"})
    theirs = save(case, tmp_path)
    ours = from_pretrained(tmp_path)
    tokens = inputs("tokens")[0]["input_ids"]
    theirs.set_attn_implementation("eager")
    expected = theirs(torch.tensor(tokens), output_attentions=True).attentions
    with weft.models.supervised.attention_maps() as maps:
        ours(weft.tensor(tokens))
    assert [tuple(m.shape) for m in maps] == [(3, 4, 7, 7)] * 2
    for a, b in zip(maps, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), atol=1e-5)
    ours(weft.tensor(tokens))
    assert len(maps) == 2  # nothing is kept outside the block
