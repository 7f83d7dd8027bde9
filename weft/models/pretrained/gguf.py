"""Language models out of GGUF files: what their facts say as a config.json, their tensors under transformers' names.

llama.cpp pairs neighbours where transformers pairs halves of a head's features (rotary position), so rows of queries and
keys of Llama lie in another order there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ...errors import OptionError
from ...io.atomic import Path
from ...io.bounded import brief
from ...io.errors import HeaderError, LayoutError
from ...io.gguf import load_gguf
from ...tensor import Tensor

__all__ = ["ARCHITECTURES", "read_gguf"]


@dataclass(frozen=True)
class Architecture:
    """A model_type, its class, and whether rows of queries and keys pair neighbours."""

    model_type: str
    name: str
    neighbours: bool = False


ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture("llama", "LlamaForCausalLM", neighbours=True),
    "qwen2": Architecture("qwen2", "Qwen2ForCausalLM"),
    "qwen3": Architecture("qwen3", "Qwen3ForCausalLM"),
    "phi3": Architecture("phi3", "Phi3ForCausalLM"),
}
# facts, after the name of the architecture, with the fields of config.json
FACTS = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "context_length": "max_position_embeddings",
    "rope.freq_base": "rope_theta",
    "vocab_size": "vocab_size",
}
NEEDED = ("block_count", "embedding_length", "feed_forward_length", "attention.head_count")
TOKENS = {"bos": "bos_token_id", "eos": "eos_token_id", "padding": "pad_token_id"}
BLOCK = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
PARTS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def read_gguf(file: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What config.json would say, and the weights under transformers' names."""
    facts, tensors = load_gguf(file)
    kind = facts.get("general.architecture")
    found = ARCHITECTURES.get(kind) if isinstance(kind, str) else None
    if found is None:
        raise OptionError(
            f"{file}: general.architecture {brief(kind)} is not supported; supported are {', '.join(ARCHITECTURES)}"
        )
    fields = _fields(file, kind, found, facts, tensors)
    factors = tensors.pop("rope_freqs.weight", None)
    if factors is not None:  # those of Llama 3's longer contexts, one for each pair
        values = factors.tolist()
        stretch = {"rope_type": "longrope", "short_factor": values, "long_factor": values, "attention_factor": 1.0}
        fields["rope_scaling"] = stretch
    names = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"} if found.neighbours else {}
    state = {}
    for name, tensor in tensors.items():
        key, part = _spelled(name, found.model_type)
        state[key] = _halves(file, name, tensor, fields[names[part]]) if part in names else tensor
    return fields, state


def _fields(
    file: Path, kind: str, found: Architecture, facts: dict[str, Any], tensors: dict[str, Tensor]
) -> dict[str, Any]:
    lacking = [f"{kind}.{name}" for name in NEEDED if f"{kind}.{name}" not in facts]
    if lacking or "token_embd.weight" not in tensors:
        raise HeaderError(
            f"{file}: expected {', '.join(lacking) or 'the tensor token_embd.weight'}, which is not there"
        )
    fields = {field: facts[f"{kind}.{name}"] for name, field in FACTS.items() if f"{kind}.{name}" in facts}
    fields.setdefault("num_key_value_heads", fields["num_attention_heads"])
    fields |= {"vocab_size": len(tensors["token_embd.weight"]), "model_type": found.model_type}
    fields |= {field: facts.get(f"tokenizer.ggml.{name}_token_id") for name, field in TOKENS.items()}
    _check(file, fields, tensors)
    fields["architectures"] = [found.name]
    fields["tie_word_embeddings"] = "output.weight" not in tensors
    return fields


def _check(file: Path, fields: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Sizes that the tensors do not have are refused before a model of them is made."""
    largest = max(size for tensor in tensors.values() for size in (1, *tensor.shape))
    most = dict.fromkeys(("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads"), largest)
    most |= {"head_dim": largest, "num_hidden_layers": len(tensors)}
    for name, bound in most.items():
        value = fields.get(name, 1)
        if type(value) is not int or not 1 <= value <= bound:
            raise HeaderError(f"{file}: {name}: expected a number from 1 to {bound}, found {brief(value)}")
    if fields["num_attention_heads"] * fields.get("head_dim", 1) > largest:
        raise HeaderError(f"{file}: heads of {fields['head_dim']} features, {fields['num_attention_heads']} of them")
    for name in TOKENS.values():
        if not (fields[name] is None or (type(fields[name]) is int and 0 <= fields[name] < fields["vocab_size"])):
            raise HeaderError(
                f"{file}: {name}: expected one of {fields['vocab_size']} tokens, found {brief(fields[name])}"
            )


def _spelled(name: str, kind: str) -> tuple[str, str]:
    """The key of transformers, and which part of a layer it is."""
    block = BLOCK.fullmatch(name)
    if block is None or block[2] not in PARTS:
        return WHOLE.get(name, name), ""
    part = "mlp.gate_up_proj" if kind == "phi3" and block[2] == "ffn_up" else PARTS[block[2]]
    return f"model.layers.{block[1]}.{part}.{block[3]}", block[2]


def _halves(file: Path, name: str, tensor: Tensor, heads: int) -> Tensor:
    """Rows x₀ x₁ x₂ x₃ … of a head put as x₀ x₂ … x₁ x₃ …"""
    if not tensor.ndim or len(tensor) % (2 * heads):
        raise LayoutError(f"{file}: {name} of {tuple(tensor.shape)} does not hold {heads} heads of even size")
    rows = tensor.reshape(heads, len(tensor) // heads // 2, 2, *tensor.shape[1:])
    return rows.transpose(1, 2).reshape(tensor.shape).contiguous()
