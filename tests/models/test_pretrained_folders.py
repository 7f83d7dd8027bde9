"""Folders as they are found: shards, PyTorch's files, old names, heads too many or too few; and broken ones."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.errors import OptionError
from weft.io import load_file, save_file
from weft.io.errors import FileFormatError, HeaderError, MagicError, TruncatedError, UnsafeNameError, UnsafePickleError
from weft.models import from_pretrained
from weft.models.pretrained.huggingface import FAMILIES, WeightsError
from weft.models.pretrained.torchvision import build
from weft.models.supervised import (
    BartConfig,
    BartModel,
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5EncoderModel,
    T5ForConditionalGeneration,
)
from weft.models.vision.convnext import ConvNeXt, stages

from .hf_cases import BART, BERT, GPT2, LLAMA, T5, needs_transformers

TOKENS = weft.tensor([[3, 4, 5, 6], [7, 8, 9, 10]])


def bert(folder: Path, cls: type = BertForPreTraining, **changes: Any) -> Any:
    weft.manual_seed(0)
    model = cls(BertConfig(**BERT, **changes)).eval()
    model.save_pretrained(folder)
    return model


def weights(folder: Path) -> dict[str, weft.Tensor]:
    return {key: value.clone() for key, value in load_file(folder / "model.safetensors").items()}


def rewrite(folder: Path, change: Callable[[dict[str, weft.Tensor]], Any]) -> None:
    """The weights of a folder after `change`, which may return others or change them in place."""
    state = weights(folder)
    save_file(change(state) or state, folder / "model.safetensors")


def set_config(folder: Path, **fields: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **fields}))


def renamed(pattern: str, by: str) -> Callable[[dict[str, weft.Tensor]], dict[str, weft.Tensor]]:
    return lambda state: {re.sub(pattern, by, key): value for key, value in state.items()}


def without(lost: str) -> Callable[[dict[str, weft.Tensor]], dict[str, weft.Tensor]]:
    return lambda state: {key: value for key, value in state.items() if key != lost}


# ------------------------------------------------------------------------------------------- broken folders

WORD, DENSE = "bert.embeddings.word_embeddings.weight", "cls.predictions.transform.dense.weight"


SHARD = "model-00001-of-00002.safetensors"


def cut(folder: Path, name: str = "model.safetensors") -> None:
    file = folder / name
    file.write_bytes(file.read_bytes()[:-100])


def sharded(folder: Path, places: dict[str, str] | None = None, lose: str | None = None) -> None:
    state = weights(folder)
    halves = dict(list(state.items())[:20]), dict(list(state.items())[20:])
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    found = {key: name for name, half in zip(names, halves, strict=True) for key in half}
    for name, half in zip(names, halves, strict=True):
        save_file({key: value for key, value in half.items() if key != lose}, folder / name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places or found}))
    (folder / "model.safetensors").unlink()


def as_bin(folder: Path, data: bytes) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(data)


BROKEN: dict[str, tuple[Callable[[Path], Any], type[Exception], tuple[str, ...]]] = {
    "no config": (
        lambda f: (f / "config.json").unlink(),
        FileNotFoundError,
        ("expected config.json", "model.safetensors"),
    ),
    "config is no JSON": (lambda f: (f / "config.json").write_text("{"), HeaderError, ("expected JSON",)),
    "config is a list": (lambda f: (f / "config.json").write_text("[]"), HeaderError, ("JSON object",)),
    "no weights": (
        lambda f: (f / "model.safetensors").unlink(),
        FileNotFoundError,
        ("pytorch_model.bin", "found config.json"),
    ),
    "cut short": (cut, FileFormatError, ("model.safetensors",)),
    "empty file": (lambda f: (f / "model.safetensors").write_bytes(b""), TruncatedError, ("at least 10 bytes",)),
    "a pickle that runs code": (
        lambda f: as_bin(f, b"\x80\x02cos\nsystem\n(S'true'\ntR."),
        UnsafePickleError,
        (),
    ),
    "unknown type": (lambda f: set_config(f, model_type="rwkv"), OptionError, ("'rwkv'", "bert", "llama", "vit")),
    "no type": (lambda f: set_config(f, model_type=None), OptionError, ("None", "supported are")),
    "unknown architecture": (
        lambda f: set_config(f, architectures=["BertForDreams"]),
        OptionError,
        ("'BertForDreams'", "BertForMaskedLM", "architecture="),
    ),
    "quantised": (lambda f: set_config(f, quantization_config={"bits": 4}), OptionError, ("quantised",)),
    "cross-attention": (lambda f: set_config(f, add_cross_attention=True), OptionError, ("add_cross_attention",)),
    "decoder": (
        lambda f: set_config(f, model_type="mpnet", architectures=None, is_decoder=True),
        OptionError,
        ("is_decoder",),
    ),
    "unknown activation": (lambda f: set_config(f, hidden_act="wiggle"), OptionError, ("'wiggle'", "gelu")),
    "heads do not divide": (lambda f: set_config(f, num_attention_heads=3), OptionError, ("3 heads", "16")),
    "negative size": (lambda f: set_config(f, hidden_size=-4), OptionError, ("hidden_size", "-4")),
    "size of another type": (lambda f: set_config(f, hidden_size="16"), OptionError, ("hidden_size", "'16'")),
    "missing key": (lambda f: rewrite(f, without(DENSE)), WeightsError, ("missing keys (1)", DENSE)),
    "missing body key": (lambda f: rewrite(f, without(WORD)), WeightsError, ("missing keys (1)", WORD)),
    "extra key": (
        lambda f: rewrite(f, lambda s: s.update({"bert.encoder.extra": weft.ones(2)})),
        WeightsError,
        ("unexpected keys (1)", "bert.encoder.extra"),
    ),
    "wrong shape": (
        lambda f: rewrite(f, lambda s: s.update({DENSE: weft.ones(16, 15)})),
        WeightsError,
        ("mis-shaped (1)", DENSE, "(16, 15) in the file", "(16, 16) in the model"),
    ),
    "config of another size": (lambda f: set_config(f, intermediate_size=30), WeightsError, ("mis-shaped", "(30, 16)")),
    "fewer layers in the file": (lambda f: set_config(f, num_hidden_layers=3), WeightsError, ("missing", "layer.2.")),
    "more layers in the file": (lambda f: set_config(f, num_hidden_layers=1), WeightsError, ("unexpected", "layer.1.")),
    "shard is missing": (
        lambda f: (sharded(f), (f / "model-00002-of-00002.safetensors").unlink()),
        FileNotFoundError,
        ("model-00002-of-00002.safetensors", "index.json"),
    ),
    "shard lacks a key": (lambda f: sharded(f, lose=WORD), WeightsError, ("missing keys", WORD)),
    "shard outside of the folder": (
        lambda f: sharded(f, places={WORD: "../elsewhere.safetensors"}),
        UnsafeNameError,
        ("../elsewhere.safetensors",),
    ),
    "index is empty": (
        lambda f: (sharded(f), (f / "model.safetensors.index.json").write_bytes(b"")),
        HeaderError,
        ("index.json", "expected JSON"),
    ),
    "index of one key": (lambda f: sharded(f, places={WORD: SHARD}), WeightsError, ("missing keys", DENSE)),
    "shard is cut short": (
        lambda f: (sharded(f), cut(f, SHARD)),
        FileFormatError,
        (SHARD,),
    ),
    "empty file of PyTorch": (lambda f: as_bin(f, b""), TruncatedError, ("pytorch_model.bin", "empty")),
    "another magic": (lambda f: as_bin(f, b"GGUF\x03\0\0\0"), MagicError, ("pytorch_model.bin", "GGUF")),
    "patches do not divide": (
        lambda f: set_config(f, model_type="vit", architectures=None, image_size=10, patch_size=4),
        OptionError,
        ("patches of 4", "image of 10"),
    ),
    "index without a map": (
        lambda f: (sharded(f), (f / "model.safetensors.index.json").write_text("{}")),
        HeaderError,
        ("weight_map",),
    ),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    bert(folder)
    return folder


@pytest.mark.parametrize("name", BROKEN)
def test_broken_folders_say_what_is_wrong(name: str, sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
    damage, kind, told = BROKEN[name]
    damage(tmp_path)
    with pytest.raises(kind) as caught:
        from_pretrained(tmp_path)
    for words in told:
        assert words in str(caught.value)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        from_pretrained(tmp_path / "nowhere")


def test_all_that_does_not_fit_is_listed_at_once(tmp_path: Path) -> None:
    bert(tmp_path)
    rewrite(tmp_path, lambda s: (s.pop(WORD), s.update({DENSE: weft.ones(1), "surprise": weft.ones(1)})) and s)
    with pytest.raises(WeightsError) as caught:
        from_pretrained(tmp_path)
    error = caught.value
    assert (error.missing, error.unexpected, error.mis_shaped) == ([WORD], ["surprise"], [(DENSE, (1,), (16, 16))])
    with pytest.warns(UserWarning, match="surprise"):
        model = from_pretrained(tmp_path, strict=False)
    kept = weights(tmp_path)["bert.pooler.dense.weight"]
    np.testing.assert_array_equal(model.bert.pooler["dense"].weight.detach().numpy(), kept.numpy())
    assert float(model.cls["predictions"].transform["dense"].weight.std()) == pytest.approx(0.02, rel=0.5)


# ------------------------------------------------------------------------------------------- folders as they are found


def test_names_of_tensorflow_and_of_wrappers_and_stray_buffers(tmp_path: Path) -> None:
    model = bert(tmp_path)
    rewrite(tmp_path, renamed(r"LayerNorm\.weight$", "LayerNorm.gamma"))
    rewrite(tmp_path, renamed(r"LayerNorm\.bias$", "LayerNorm.beta"))
    rewrite(tmp_path, lambda s: s.update({"bert.embeddings.position_ids": weft.arange(20)}))
    rewrite(tmp_path, renamed("^", "module."))
    expected, found = model(TOKENS), from_pretrained(tmp_path)(TOKENS)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_shards_are_put_together(tmp_path: Path) -> None:
    expected = bert(tmp_path)(TOKENS)
    sharded(tmp_path)
    np.testing.assert_array_equal(from_pretrained(tmp_path)(TOKENS)[0].detach(), expected[0].detach())


@pytest.mark.parametrize("kind", [weft.float16, weft.bfloat16, weft.float64])
def test_other_types_become_float32(kind: weft.dtype, tmp_path: Path) -> None:
    bert(tmp_path)
    rewrite(tmp_path, lambda s: {key: value.to(kind) for key, value in s.items()})
    model = from_pretrained(tmp_path)
    assert {p.dtype for p in model.parameters()} == {weft.float32}
    np.testing.assert_array_equal(
        model.bert.pooler["dense"].weight.detach(), weights(tmp_path)["bert.pooler.dense.weight"]
    )
    assert from_pretrained(tmp_path, dtype=weft.float64)(TOKENS)[0].dtype is weft.float64


def test_weights_are_memory_of_their_own(tmp_path: Path) -> None:
    bert(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    model = from_pretrained(tmp_path)
    with weft.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert not model.training


def test_heads_too_many_are_left_out_and_missing_ones_start_afresh(tmp_path: Path) -> None:
    whole = bert(tmp_path)
    encoded = whole.bert(TOKENS)
    set_config(tmp_path, architectures=["BertForMaskedLM"])  # as bert-base-uncased: its file has pooler and NSP too
    masked = from_pretrained(tmp_path)
    assert type(masked) is BertForMaskedLM
    np.testing.assert_array_equal(masked(TOKENS).logits.detach(), whole(TOKENS)[0].detach())
    body = BertModel.from_pretrained(tmp_path)
    np.testing.assert_array_equal(body(TOKENS).pooler_output.detach(), encoded.pooler_output.detach())
    with pytest.warns(UserWarning, match=r"fresh weights.*classifier\.weight, classifier\.bias"):
        classifier = from_pretrained(tmp_path, architecture="BertForSequenceClassification", num_labels=5)
    assert classifier(TOKENS).logits.shape == (2, 5)
    np.testing.assert_array_equal(classifier.bert(TOKENS)[0].detach(), encoded[0].detach())
    assert 0.005 < float(classifier.classifier.weight.detach().std()) < 0.04


def test_a_body_without_pooler_has_none(tmp_path: Path) -> None:
    model = bert(tmp_path, BertForMaskedLM)
    body = from_pretrained(tmp_path, architecture=BertModel)
    assert body(TOKENS).pooler_output is None
    np.testing.assert_array_equal(body(TOKENS)[0].detach(), model.bert(TOKENS)[0].detach())


def test_a_headless_file_goes_into_a_model_with_a_tied_head(tmp_path: Path) -> None:
    model = GPT2LMHeadModel(GPT2Config(**GPT2)).eval()
    model.save_pretrained(tmp_path)
    rewrite(tmp_path, renamed(r"^transformer\.", ""))  # as the file of gpt2
    rewrite(
        tmp_path, lambda s: s.update({"h.0.attn.bias": weft.ones(1, 1, 20, 20), "h.1.attn.masked_bias": weft.ones(1)})
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = from_pretrained(tmp_path)
    assert type(found) is GPT2LMHeadModel and found.lm_head.weight is found.transformer.wte.weight
    np.testing.assert_array_equal(found(TOKENS).logits.detach(), model(TOKENS).logits.detach())


def test_two_tables_in_a_file_are_two_whatever_the_config_says(tmp_path: Path) -> None:
    model = LlamaForCausalLM(LlamaConfig(**LLAMA, tie_word_embeddings=False)).eval()
    model.save_pretrained(tmp_path)
    set_config(tmp_path, tie_word_embeddings=True)
    found = from_pretrained(tmp_path)
    assert found.lm_head.weight is not found.model.embed_tokens.weight
    np.testing.assert_array_equal(found(TOKENS).logits.detach(), model(TOKENS).logits.detach())


def test_tables_that_are_one_here_must_not_differ_in_the_file(tmp_path: Path) -> None:
    BartModel(BartConfig(**BART)).save_pretrained(tmp_path)
    rewrite(tmp_path, lambda s: s.update({"decoder.embed_tokens.weight": s["shared.weight"] + 1}))
    with pytest.raises(FileFormatError, match=r"shared\.weight, decoder\.embed_tokens\.weight are one in BartModel"):
        from_pretrained(tmp_path)


def test_the_encoder_of_t5_alone_and_old_names(tmp_path: Path) -> None:
    model = T5ForConditionalGeneration(T5Config.from_dict(T5)).eval()
    model.save_pretrained(tmp_path)
    table, stray = (
        weights(tmp_path)["shared.weight"],
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
    )
    rewrite(tmp_path, lambda s: s.update({"encoder.embed_tokens.weight": table, stray: weft.ones(8, 4)}))
    set_config(tmp_path, architectures=["T5WithLMHeadModel"])
    found = from_pretrained(tmp_path)
    np.testing.assert_array_equal(
        found(TOKENS, None, TOKENS).logits.detach(), model(TOKENS, None, TOKENS).logits.detach()
    )
    encoder = T5EncoderModel.from_pretrained(tmp_path)
    np.testing.assert_array_equal(encoder(TOKENS)[0].detach(), model.encoder(TOKENS, None)[0].detach())


def test_classes_of_another_family_and_unknown_fields_are_refused(tmp_path: Path) -> None:
    bert(tmp_path)
    with pytest.raises(OptionError, match="RobertaModel cannot hold"):
        RobertaModel.from_pretrained(tmp_path)
    RobertaModel(RobertaConfig(**BERT)).save_pretrained(tmp_path / "roberta")  # a subclass, but its positions differ
    with pytest.raises(OptionError, match="BertModel cannot hold a model of type 'roberta'"):
        BertModel.from_pretrained(tmp_path / "roberta")
    with pytest.raises(OptionError, match="no fields depth"):
        from_pretrained(tmp_path, depth=3)
    with pytest.raises(OptionError, match="expected a BertConfig"):
        BertModel(GPT2Config(**GPT2))


def test_names_of_classes_go_through_files(tmp_path: Path) -> None:
    bert(tmp_path, BertForSequenceClassification, id2label={"0": "sad", "1": "glad", "2": "mad"})
    found = from_pretrained(tmp_path)
    assert found.config.num_labels == 3 and found.config.id2label["2"] == "mad"
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["label2id"] == {"sad": 0, "glad": 1, "mad": 2}


def test_a_token_that_is_null_is_none(tmp_path: Path) -> None:
    LlamaForCausalLM(LlamaConfig(**LLAMA)).save_pretrained(tmp_path)
    set_config(tmp_path, eos_token_id=None, bos_token_id=None)
    assert from_pretrained(tmp_path).config.eos_token_id is None
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [3, 4]}')
    model = from_pretrained(tmp_path)
    assert model.config.eos_token_id == [3, 4]
    model.save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / "generation_config.json").is_file()


def test_every_family_has_its_models() -> None:
    for family in FAMILIES.values():
        assert f"{family.prefix}Model" in family.classes()


@needs_transformers
@pytest.mark.parametrize("form", ["zip", "legacy", "parallel", "compiled", "half", "shards"])
def test_files_of_pytorch_are_read(form: str, tmp_path: Path) -> None:
    import torch

    model = bert(tmp_path)
    state = {key: torch.from_numpy(value.numpy().copy()) for key, value in weights(tmp_path).items()}
    (tmp_path / "model.safetensors").unlink()
    if form == "shards":
        names = {key: f"pytorch_model-0000{1 + i % 2}-of-00002.bin" for i, key in enumerate(state)}
        for name in set(names.values()):
            torch.save({key: value for key, value in state.items() if names[key] == name}, tmp_path / name)
        (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    else:
        prefix = {"parallel": "module.", "compiled": "module._orig_mod."}.get(form, "")
        state = {prefix + key: value.half() if form == "half" else value for key, value in state.items()}
        new = form not in ("legacy", "parallel")
        torch.save(state, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=new)
    found = from_pretrained(tmp_path)(TOKENS)[0].detach()
    np.testing.assert_allclose(found, model(TOKENS)[0].detach(), atol=1e-3 if form == "half" else 0, rtol=0)


def test_older_names_of_fields(tmp_path: Path) -> None:
    model = GPT2LMHeadModel(GPT2Config(**GPT2)).eval()
    model.save_pretrained(tmp_path)
    renamed = {"n_positions": "n_ctx", "n_embd": "hidden_size", "n_layer": "num_hidden_layers"}
    fields = json.loads((tmp_path / "config.json").read_text())
    fields = {renamed.get(name, name): value for name, value in fields.items()}
    (tmp_path / "config.json").write_text(json.dumps({**fields, "torch_dtype": "float16"}))
    np.testing.assert_array_equal(from_pretrained(tmp_path)(TOKENS).logits.detach(), model(TOKENS).logits.detach())
    bert(tmp_path / "bert", BertForSequenceClassification, num_labels=5)
    set_config(tmp_path / "bert", id2label=None, label2id=None, _num_labels=5)
    assert from_pretrained(tmp_path / "bert").config.num_labels == 5


def test_a_file_without_the_head_that_config_names_is_a_body(tmp_path: Path) -> None:
    model = bert(tmp_path, BertModel)
    set_config(tmp_path, architectures=["BertForMaskedLM"])  # as all-mpnet-base-v2 has it
    with pytest.warns(UserWarning, match="no head in the file: BertModel"):
        found = from_pretrained(tmp_path)
    assert type(found) is BertModel
    np.testing.assert_array_equal(found(TOKENS)[0].detach(), model(TOKENS)[0].detach())
    with pytest.raises(WeightsError, match="missing"):
        BertForMaskedLM.from_pretrained(tmp_path)
    set_config(tmp_path, architectures=["BertForSequenceClassification"])  # no head of pre-training: a file cut short
    with pytest.raises(WeightsError, match=r"missing keys \(2\): classifier"):
        from_pretrained(tmp_path)


def test_the_number_of_classes_does_not_depend_on_the_order_of_the_file(tmp_path: Path) -> None:
    widths = stages((8, 16), (1, 1))
    model = ConvNeXt(widths, num_classes=5)
    save_file(dict(sorted(model.state_dict().items())), tmp_path / "net.safetensors")
    assert build(ConvNeXt, tmp_path / "net.safetensors", widths).classifier[2].out_features == 5


def test_a_file_of_torchvision_is_known_by_its_name(tmp_path: Path) -> None:
    with weft.nn.init.skipping():
        model = weft.models.supervised.resnet18(num_classes=3)
    save_file(model.state_dict(), tmp_path / "resnet18-0123abcd.safetensors")
    found = from_pretrained(tmp_path / "resnet18-0123abcd.safetensors").state_dict()
    assert found["fc.weight"].shape == (3, 512) and found.keys() == model.state_dict().keys()
    np.testing.assert_array_equal(found["conv1.weight"].numpy(), model.conv1.weight.detach().numpy())
    with pytest.raises(OptionError, match="resnet18"):
        (tmp_path / "resnet18-0123abcd.safetensors").rename(tmp_path / "net.safetensors")
        from_pretrained(tmp_path / "net.safetensors")
