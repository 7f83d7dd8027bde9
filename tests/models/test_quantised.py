"""GPTQ, AWQ and GGUF checkpoints: packed here bit by bit, read as the numbers that they stand for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.errors import OptionError
from weft.io import FileFormatError, load_file, save_file
from weft.models import from_pretrained
from weft.models.supervised import (
    LlamaConfig,
    LlamaForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from ..io.test_gguf import gguf, quantised

SIZES = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SIZES |= {"num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64, "pad_token_id": 0}
TOKENS = weft.tensor([[5, 6, 7, 8, 9]])


def packed(values: np.ndarray, bits: int, order: tuple[int, ...] | None = None) -> np.ndarray:
    """Integers (R, C) in words of 32 bits along the last dimension, the first in the lowest bits, one by one."""
    count = 32 // bits
    order = tuple(range(count)) if order is None else order
    words = np.zeros((values.shape[0], values.shape[1] // count), np.uint32)
    for row in range(values.shape[0]):
        for column in range(words.shape[1]):
            for place, which in enumerate(order):
                words[row, column] |= np.uint32(int(values[row, column * count + which]) << bits * place)
    return words.view(np.int32)


def layers(model: Any) -> list[str]:
    return [f"{name}.weight" for name, part in model.named_modules() if name.endswith("_proj")]


def quantise(
    folder: Path, method: str, bits: int = 4, group: int = 16, shuffled: bool = False, v2: bool = False
) -> Any:
    """A folder of random integers and scales, and the model with the weights that they are."""
    weft.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig.from_dict(SIZES)).eval()
    model.save_pretrained(folder)
    state, random = load_file(folder / "model.safetensors"), np.random.default_rng(0)
    for key in layers(model):
        outputs, inputs = state[key].shape
        name = key.removesuffix(".weight")
        q = random.integers(0, 2**bits, (inputs, outputs))
        zeros = random.integers(0, 2**bits, (inputs // group, outputs))
        scales = random.normal(0, 0.02, (inputs // group, outputs)).astype(np.float16)
        groups = np.arange(inputs) // group
        if shuffled:
            groups = random.permutation(groups)
        del state[key]
        if method == "gptq":
            stored = zeros if v2 else (zeros - 1) % 2**bits
            parts = {"qweight": packed(q.T, bits).T.copy(), "qzeros": packed(stored, bits), "scales": scales}
            parts["g_idx"] = groups.astype(np.int32)
        else:
            order = (0, 2, 4, 6, 1, 3, 5, 7)
            parts = {"qweight": packed(q, 4, order), "qzeros": packed(zeros, 4, order), "scales": scales}
        state |= {f"{name}.{part}": weft.from_numpy(value) for part, value in parts.items()}
        truth = np.zeros((outputs, inputs), np.float32)
        for i in range(inputs):
            truth[:, i] = scales[groups[i]].astype(np.float32) * (q[i] - zeros[groups[i]]).astype(np.float32)
        dict(model.named_parameters())[key].data = weft.from_numpy(truth)
    save_file(state, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": method, "bits": bits, "group_size": group}
    if v2:
        config["quantization_config"]["checkpoint_format"] = "gptq_v2"
    (folder / "config.json").write_text(json.dumps(config))
    return model


CASES: dict[str, dict[str, Any]] = {
    "gptq": {"method": "gptq"},
    "gptq of 8 bits": {"method": "gptq", "bits": 8},
    "gptq of 2 bits": {"method": "gptq", "bits": 2},
    "gptq in the order of activations": {"method": "gptq", "shuffled": True},
    "gptq, second version": {"method": "gptq", "v2": True},
    "awq": {"method": "awq"},
    "awq of one group": {"method": "awq", "group": 32},
}


@pytest.mark.parametrize("name", CASES)
def test_dequantised_weights_are_exact(name: str, tmp_path: Path) -> None:
    model = quantise(tmp_path, **CASES[name])
    found = from_pretrained(tmp_path)
    for (key, ours), truth in zip(found.named_parameters(), model.parameters(), strict=True):
        np.testing.assert_array_equal(ours.detach().numpy(), truth.detach().numpy(), err_msg=key)
    np.testing.assert_array_equal(found(TOKENS).logits.detach(), model(TOKENS).logits.detach())
    found.save_pretrained(tmp_path / "plain")  # without quantization_config, in float32
    assert "quantization_config" not in json.loads((tmp_path / "plain/config.json").read_text())
    np.testing.assert_array_equal(
        from_pretrained(tmp_path / "plain")(TOKENS).logits.detach(), found(TOKENS).logits.detach()
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"quant_method": "bitsandbytes", "bits": 4}, "'gptq'"),
        ({"quant_method": "gptq", "bits": 3}, "3 bits"),
        ({"quant_method": "awq", "bits": 8}, "8 bits"),
        ("gptq", "expected an object"),
        ({"quant_method": "awq", "group_size": 0}, "group_size"),
        ({"quant_method": "awq", "group_size": 4}, "groups"),
    ],
)
def test_what_cannot_be_read_says_why(settings: Any, words: str, tmp_path: Path) -> None:
    quantise(tmp_path, "awq")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": settings}))
    with pytest.raises((OptionError, FileFormatError), match=words):
        from_pretrained(tmp_path)


@pytest.mark.parametrize("part", ["qzeros", "scales", "g_idx"])
def test_parts_that_do_not_go_together(part: str, tmp_path: Path) -> None:
    quantise(tmp_path, "gptq")
    state, key = load_file(tmp_path / "model.safetensors"), f"model.layers.0.mlp.up_proj.{part}"
    state[key] = weft.full_like(state[key], 9) if part == "g_idx" else state[key][:, :-1]
    save_file(state, tmp_path / "model.safetensors")
    with pytest.raises(FileFormatError, match=r"layers\.0\.mlp\.up_proj"):
        from_pretrained(tmp_path)


# ------------------------------------------------------------------------------------------- GGUF


PARTS = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v"}
PARTS |= {"self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv", "self_attn.q_norm": "attn_q_norm"}
PARTS |= {"self_attn.k_norm": "attn_k_norm", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
PARTS |= {
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate_up_proj": "ffn_up",
}


def neighbours(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of halves put as pairs, as llama.cpp's converter has it: row 2 k + j of a head is row k + j · D/2 of ours."""
    found, size = np.empty_like(weight), len(weight) // heads
    for head in range(heads):
        for k in range(size // 2):
            for j in range(2):
                found[head * size + 2 * k + j] = weight[head * size + k + j * (size // 2)]
    return found


def facts_of(model: Any, kind: str) -> dict[str, Any]:
    config = model.config
    return {
        "general.architecture": kind,
        f"{kind}.block_count": config.num_hidden_layers,
        f"{kind}.embedding_length": config.hidden_size,
        f"{kind}.feed_forward_length": config.intermediate_size,
        f"{kind}.attention.head_count": config.num_attention_heads,
        f"{kind}.attention.head_count_kv": config.num_key_value_heads,
        f"{kind}.attention.key_length": config.head_dim,
        f"{kind}.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        f"{kind}.rope.freq_base": float(config.rope_theta),
        f"{kind}.context_length": config.max_position_embeddings,
        "tokenizer.ggml.eos_token_id": 2,
    }


def write_gguf(model: Any, kind: str, file: Path, facts: dict[str, Any], quantise_blocks: bool) -> None:
    """A file of a model; matrices of layers become random blocks of Q4_0, and the model is given their values."""
    heads, tensors = {"attn_q": model.config.num_attention_heads, "attn_k": model.config.num_key_value_heads}, {}
    for number, (key, parameter) in enumerate(model.named_parameters()):
        value = parameter.detach().numpy().astype(np.float32)
        whole = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
        name, kept = key.rsplit(".", 1)[0], "F32"
        part = ""
        if name in whole:
            name = whole[name]
        else:
            _, _, layer, rest = name.split(".", 3)
            part = PARTS[rest]
            name = f"blk.{layer}.{part}"
        raw = value.tobytes()
        if quantise_blocks and part and value.ndim == 2:
            kept = "Q4_0"
            raw, value = quantised("Q4_0", value.shape, number)
        if kind == "llama" and part in heads and kept == "F32":
            raw = neighbours(value, heads[part]).tobytes()
        if kept == "Q4_0":  # the blocks are those of the file: the model has them in its own order
            ours = value
            if kind == "llama" and part in heads:
                order = neighbours(np.arange(len(value))[:, None], heads[part])[:, 0]
                ours = np.empty_like(value)
                ours[order] = value
            parameter.data = weft.from_numpy(ours)
        tensors[f"{name}.weight"] = (kept, value.shape, raw)
    file.write_bytes(gguf(facts, tensors))


@pytest.mark.parametrize("blocks", [False, True], ids=["float32", "Q4_0"])
@pytest.mark.parametrize("kind", ["llama", "qwen3", "phi3"])
def test_a_model_of_llama_cpp_is_the_model(kind: str, blocks: bool, tmp_path: Path) -> None:
    weft.manual_seed(0)
    make = {
        "llama": lambda: LlamaForCausalLM(LlamaConfig.from_dict(SIZES)),
        "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config.from_dict({**SIZES, "head_dim": 8, "tie_word_embeddings": True})),
        "phi3": lambda: Phi3ForCausalLM(Phi3Config.from_dict(SIZES)),
    }
    model, file = make[kind]().eval(), tmp_path / "model.gguf"
    write_gguf(model, kind, file, facts_of(model, kind), blocks)
    found = from_pretrained(file)
    assert type(found) is type(model) and found.config.eos_token_id == 2
    for (key, ours), truth in zip(found.named_parameters(), model.parameters(), strict=True):
        np.testing.assert_array_equal(ours.detach().numpy(), truth.detach().numpy(), err_msg=key)
    np.testing.assert_allclose(found(TOKENS).logits.detach(), model(TOKENS).logits.detach(), atol=1e-5)


def test_files_of_llama_cpp_that_do_not_hold_a_model(tmp_path: Path) -> None:
    model, file = LlamaForCausalLM(LlamaConfig.from_dict(SIZES)), tmp_path / "model.gguf"
    facts = facts_of(model, "llama")
    for change, kind, words in (
        ({"general.architecture": "rwkv"}, OptionError, "'rwkv' is not supported"),
        ({"llama.block_count": 3}, FileFormatError, "missing keys"),
        ({"llama.block_count": 2**31}, FileFormatError, "num_hidden_layers"),
        ({"llama.feed_forward_length": 2**31}, FileFormatError, "intermediate_size"),
        ({"llama.attention.key_length": 64}, FileFormatError, "heads of 64"),
        ({"tokenizer.ggml.padding_token_id": 40}, FileFormatError, "pad_token_id"),
        ({"llama.attention.head_count": 0}, FileFormatError, "num_attention_heads"),
        ({"llama.attention.head_count_kv": 3}, FileFormatError, "even size"),
        ({"llama.block_count": [1]}, FileFormatError, "num_hidden_layers"),
        ({"llama.embedding_length": 2**31}, FileFormatError, "hidden_size"),
    ):
        write_gguf(model, "llama", file, {**facts, **change}, False)
        with pytest.raises(kind, match=words):
            from_pretrained(file)
    lacking = {name: value for name, value in facts.items() if not name.endswith("block_count")}
    write_gguf(model, "llama", file, lacking, False)
    with pytest.raises(FileFormatError, match=r"llama\.block_count"):
        from_pretrained(file)
