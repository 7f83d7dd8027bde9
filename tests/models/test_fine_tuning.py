"""A folder fine-tuned by LoRA: only the named weights change, texts become likelier, transformers reads the result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weft.errors import OptionError
from weft.io import load_file, load_metadata
from weft.models import from_pretrained
from weft.models.pretrained.fine_tuning import fine_tune, token_blocks

from . import hf_cases


class Letters:
    """A tokeniser with a number for each of a few letters."""

    def encode(self, text: str) -> list[int]:
        return [3 + "abcdefgh ".index(letter) for letter in text]


TEXTS = ["abcdefgh " * 6, "hgfedcba " * 6] * 4
OPTIONS = {"tokenizer": Letters(), "block_size": 12, "batch_size": 8, "lr": 1e-2, "progress": False}


def test_blocks_hold_all_texts_in_a_row() -> None:
    found = token_blocks(Letters(), ["abc", "de"], 3, end=2)
    assert found.tolist() == [[3, 4, 5], [2, 6, 7]]  # what is left over, the last end, goes
    with pytest.raises(OptionError, match="3 tokens, less than a block of 8"):
        token_blocks(Letters(), ["abc"], 8, None)


@hf_cases.needs_transformers
def test_a_folder_learns_and_stays_a_folder(tmp_path: Path) -> None:
    import torch

    hf_cases.save(hf_cases.CASES["llama-tied"], tmp_path / "base")
    before = load_file(tmp_path / "base/model.safetensors")
    tokens = token_blocks(Letters(), TEXTS, 12, 2)
    loss = from_pretrained(tmp_path / "base")(tokens, labels=tokens).loss.item()
    model = fine_tune(
        tmp_path / "base", TEXTS, tmp_path / "new", validation=TEXTS[:2], rank=2, epochs=6, run_folder=False, **OPTIONS
    )
    assert model(tokens, labels=tokens).loss.item() < 0.8 * loss
    after = load_file(tmp_path / "new/model.safetensors")
    changed = {key for key in before if not np.array_equal(before[key].numpy(), after[key].numpy())}
    assert changed == {key for key in before if key.endswith(("q_proj.weight", "v_proj.weight"))}
    for key in changed:  # by a matrix of rank 2
        assert np.linalg.matrix_rank(after[key].numpy() - before[key].numpy(), tol=1e-4) <= 2
    assert len(load_metadata(tmp_path / "new/adapter.safetensors")["layers"].split(",")) == 4
    theirs = hf_cases.load_transformers().LlamaForCausalLM.from_pretrained(tmp_path / "new")
    expected = theirs(torch.tensor(tokens.numpy())).logits.detach().numpy()
    np.testing.assert_allclose(model(tokens).logits.detach().numpy(), expected, atol=1e-4)
    with pytest.raises(OptionError, match="no name matches"):
        fine_tune(tmp_path / "base", TEXTS, patterns="*nothing*", **OPTIONS)
