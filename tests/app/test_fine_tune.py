"""`weft fine-tune`: a small folder that transformers wrote learns from a file of texts, and transformers reads the result."""

from __future__ import annotations

import json

import numpy as np
import pytest

from weft.models import from_pretrained

from ..models import hf_cases
from .shell import in_pipe


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    transformers = hf_cases.load_transformers()
    tokenizers = pytest.importorskip("tokenizers")
    place = tmp_path_factory.mktemp("tuned")
    words = ["<s>", "</s>", *"abcdefgh"]
    made = tokenizers.Tokenizer(tokenizers.models.BPE({word: i for i, word in enumerate(words)}, [], unk_token="<s>"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>").save_pretrained(
        place / "base"
    )
    config = transformers.LlamaConfig(
        vocab_size=10,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        bos_token_id=0,
        eos_token_id=1,
    )
    transformers.set_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(place / "base")
    (place / "texts.txt").write_text("\n\n".join(["abcdefgh" * 4, "hgfedcba" * 4] * 15))
    (place / "texts.jsonl").write_text("\n".join(json.dumps({"body": "abcd" * 8}) for _ in range(4)))
    return place


@hf_cases.needs_transformers
def test_a_folder_learns_from_a_file(folder):
    import torch

    options = ("--epochs", "6", "--lr", "0.02", "--block-size", "16", "--rank", "4")
    done = in_pipe("fine-tune", "base", "texts.txt", "-o", "new", *options, "--json", cwd=folder)
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert (told["texts"], told["held_out"]) == (27, 3) and told["loss_after"] < told["loss_before"] - 0.05
    model = from_pretrained(folder / "new")
    theirs = hf_cases.load_transformers().LlamaForCausalLM.from_pretrained(folder / "new")
    tokens = np.array([[2, 3, 4, 5, 6]])
    expected = theirs(torch.from_numpy(tokens)).logits.detach().numpy()
    from weft import from_numpy

    np.testing.assert_allclose(model(from_numpy(tokens)).logits.detach().numpy(), expected, atol=1e-4)
    assert (folder / "new" / "adapter.safetensors").is_file()


@hf_cases.needs_transformers
def test_files_of_texts(folder):
    done = in_pipe(
        *("fine-tune", "base", "texts.jsonl", "-o", "other", "--field", "body", "--block-size", "8"), cwd=folder
    )
    assert done.code == 0 and "4, 0 held out" in done.out, done.err
    for words, said in (
        (("texts.jsonl",), "no texts in a column 'text'"),
        (("nothing.txt",), "there is no nothing.txt"),
        (("base",), "base"),
    ):
        wrong = in_pipe("fine-tune", "base", *words, "-o", "x", cwd=folder)
        assert wrong.code in (1, 2) and said in wrong.err
