"""Small models of transformers with random weights, saved in folders: what Weft's are compared with."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft

SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # no dropout
BERT = {**SIZES, **STILL, "max_position_embeddings": 20}
ROBERTA = {**BERT, "max_position_embeddings": 24}
DISTIL = {"vocab_size": 40, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "max_position_embeddings": 20}
DISTIL |= {"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0, "qa_dropout": 0.0}
GPT2 = {"vocab_size": 40, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 20, "bos_token_id": 1}
GPT2 |= {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "eos_token_id": 2, "pad_token_id": 0}
LLAMA = {**SIZES, "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 16, "rope_theta": 10000.0}
LONG = {"rope_type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [2.0, 3.5], "rope_theta": 10000.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 10000.0}
T5 = {"vocab_size": 40, "d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}
T5 |= {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 10, "decoder_start_token_id": 0}
ELECTRA = {**BERT, "embedding_size": 8}
ALBERT = {**ELECTRA, "classifier_dropout_prob": 0.0}
MPNET = {**ROBERTA, "relative_attention_num_buckets": 32}
OPT = {**{name: value for name, value in SIZES.items() if name != "intermediate_size"}, "ffn_dim": 24}
OPT |= {"max_position_embeddings": 20, "dropout": 0.0, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
NEOX = {**SIZES, "hidden_size": 32, "max_position_embeddings": 64, "pad_token_id": 0}
BART = {"vocab_size": 40, "d_model": 16, "max_position_embeddings": 20, "dropout": 0.0, "decoder_start_token_id": 2}
BART |= {f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in (("layers", 2), ("ffn_dim", 24))}
BART |= {"encoder_attention_heads": 4, "decoder_attention_heads": 2, "pad_token_id": 1, "eos_token_id": 2}
MARIAN = {**BART, "decoder_start_token_id": 1, "scale_embedding": True, "activation_function": "swish"}
PHI = {**SIZES, "hidden_size": 32, "max_position_embeddings": 64, "pad_token_id": 0}
NEO = {"vocab_size": 40, "hidden_size": 16, "num_layers": 3, "num_heads": 4, "max_position_embeddings": 20}
NEO |= {"attention_types": [[["global", "local"], 1], [["local"], 1]], "window_size": 3, "pad_token_id": 0}
VIT = {
    **{name: value for name, value in SIZES.items() if name != "vocab_size"},
    **STILL,
    "image_size": 8,
    "patch_size": 4,
}
PHI3 = {**LLAMA, "bos_token_id": 1, "eos_token_id": 2}
PHI3_LONG = {**PHI3, "max_position_embeddings": 128, "original_max_position_embeddings": 5}
MOE = {**LLAMA, "num_experts": 4, "moe_intermediate_size": 12, "num_experts_per_tok": 2}
MAMBA = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4, "eos_token_id": 2}
WHISPER = {"vocab_size": 40, "d_model": 16, "num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 20}
WHISPER |= {
    f"{part}_{name}": size
    for part in ("encoder", "decoder")
    for name, size in (("layers", 2), ("ffn_dim", 24), ("attention_heads", 4))
}
WHISPER |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
WHISPER |= {"begin_suppress_tokens": [5]}
TOWER = {**SIZES, "max_position_embeddings": 20}
PICTURE = {**{name: value for name, value in SIZES.items() if name != "vocab_size"}, "image_size": 8, "patch_size": 4}
CLIP = {"text_config": {**TOWER, "eos_token_id": 39}, "vision_config": PICTURE, "projection_dim": 12}
SIGLIP = {"text_config": TOWER, "vision_config": PICTURE}
SWIN = {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [2, 1], "num_heads": [2, 4], "window_size": 4}
CONVNEXT = {"hidden_sizes": [8, 12], "depths": [1, 2], "num_stages": 2, "num_labels": 3}
RESNET = {"embedding_size": 8, "hidden_sizes": [16, 24], "depths": [2, 1], "num_labels": 3}


@dataclass(frozen=True)
class Case:
    """A class of transformers, the fields of its config, and what it takes."""

    name: str
    config: dict[str, Any] = field(default_factory=dict)
    inputs: str = "tokens"

    @property
    def config_name(self) -> str:
        kinds = r"(Model|LMHeadModel|EncoderModel|MTModel|ModelWithProjection|For[A-Z]\w+)$"
        prefix = re.match(f"(.+?){kinds}", self.name)[1]
        return f"{prefix}Config"


CASES: dict[str, Case] = {
    "bert": Case("BertModel", BERT, "pairs"),
    "bert-pre-training": Case("BertForPreTraining", BERT, "pairs"),
    "bert-masked": Case("BertForMaskedLM", {**BERT, "hidden_act": "gelu_new"}),
    "bert-untied": Case("BertForMaskedLM", {**BERT, "tie_word_embeddings": False}),
    "bert-decoder": Case("BertLMHeadModel", {**BERT, "is_decoder": True}),
    "bert-next": Case("BertForNextSentencePrediction", BERT, "pairs"),
    "bert-classes": Case("BertForSequenceClassification", {**BERT, "num_labels": 3}, "pairs"),
    "bert-tokens": Case("BertForTokenClassification", {**BERT, "num_labels": 5}),
    "bert-answers": Case("BertForQuestionAnswering", BERT, "pairs"),
    "roberta": Case("RobertaModel", ROBERTA),
    "roberta-masked": Case("RobertaForMaskedLM", ROBERTA),
    "roberta-classes": Case("RobertaForSequenceClassification", {**ROBERTA, "num_labels": 3}),
    "roberta-tokens": Case("RobertaForTokenClassification", ROBERTA),
    "roberta-answers": Case("RobertaForQuestionAnswering", ROBERTA),
    "xlm-roberta": Case("XLMRobertaForMaskedLM", ROBERTA),
    "camembert": Case("CamembertForMaskedLM", ROBERTA),
    "distilbert": Case("DistilBertModel", DISTIL),
    "distilbert-masked": Case("DistilBertForMaskedLM", DISTIL),
    "distilbert-classes": Case("DistilBertForSequenceClassification", {**DISTIL, "num_labels": 3}),
    "distilbert-tokens": Case("DistilBertForTokenClassification", DISTIL),
    "distilbert-answers": Case("DistilBertForQuestionAnswering", DISTIL),
    "electra": Case("ElectraModel", ELECTRA, "pairs"),
    "electra-wide": Case("ElectraModel", {**ELECTRA, "embedding_size": 16}),
    "electra-discriminator": Case("ElectraForPreTraining", ELECTRA, "pairs"),
    "electra-generator": Case("ElectraForMaskedLM", ELECTRA),
    "electra-classes": Case("ElectraForSequenceClassification", {**ELECTRA, "num_labels": 3}),
    "electra-tokens": Case("ElectraForTokenClassification", ELECTRA),
    "electra-answers": Case("ElectraForQuestionAnswering", ELECTRA),
    "albert": Case("AlbertModel", ALBERT, "pairs"),
    "albert-groups": Case("AlbertModel", {**ALBERT, "num_hidden_layers": 5, "num_hidden_groups": 2}),
    "albert-pre-training": Case("AlbertForPreTraining", ALBERT, "pairs"),
    "albert-masked": Case("AlbertForMaskedLM", {**ALBERT, "inner_group_num": 2}),
    "albert-classes": Case("AlbertForSequenceClassification", {**ALBERT, "num_labels": 3}),
    "albert-tokens": Case("AlbertForTokenClassification", ALBERT),
    "albert-answers": Case("AlbertForQuestionAnswering", ALBERT),
    "mpnet": Case("MPNetModel", MPNET),
    "mpnet-masked": Case("MPNetForMaskedLM", MPNET),
    "mpnet-classes": Case("MPNetForSequenceClassification", {**MPNET, "num_labels": 3}),
    "mpnet-tokens": Case("MPNetForTokenClassification", MPNET),
    "mpnet-answers": Case("MPNetForQuestionAnswering", MPNET),
    "gpt2": Case("GPT2LMHeadModel", GPT2),
    "gpt2-body": Case("GPT2Model", {**GPT2, "n_inner": 20}),
    "gpt2-by-layer": Case("GPT2LMHeadModel", {**GPT2, "scale_attn_by_inverse_layer_idx": True}),
    "gpt2-classes": Case("GPT2ForSequenceClassification", {**GPT2, "num_labels": 3}),
    "gpt2-tokens": Case("GPT2ForTokenClassification", {**GPT2, "num_labels": 3}),
    "gpt_neo": Case("GPTNeoForCausalLM", NEO),
    "gpt_neo-body": Case("GPTNeoModel", {**NEO, "intermediate_size": 20, "activation_function": "relu"}),
    "gpt_neo-classes": Case("GPTNeoForSequenceClassification", {**NEO, "num_labels": 3}),
    "gpt_neox": Case("GPTNeoXForCausalLM", NEOX),
    "gpt_neox-body": Case("GPTNeoXModel", {**NEOX, "use_parallel_residual": False, "attention_bias": False}),
    "gpt_neox-classes": Case("GPTNeoXForSequenceClassification", {**NEOX, "num_labels": 3}),
    "opt": Case("OPTForCausalLM", OPT),
    "opt-350m": Case("OPTForCausalLM", {**OPT, "do_layer_norm_before": False, "word_embed_proj_dim": 8}),
    "opt-plain": Case("OPTModel", {**OPT, "enable_bias": False, "layer_norm_elementwise_affine": False}),
    "opt-classes": Case("OPTForSequenceClassification", {**OPT, "num_labels": 3}),
    "llama": Case("LlamaForCausalLM", {**LLAMA, "rope_parameters": LLAMA3}),
    "llama-body": Case("LlamaModel", {**LLAMA, "head_dim": 6}),
    "llama-tied": Case(
        "LlamaForCausalLM", {**LLAMA, "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}
    ),
    "llama-linear": Case("LlamaForCausalLM", {**LLAMA, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
    "llama-dynamic": Case(
        "LlamaModel", {**LLAMA, "max_position_embeddings": 4, "rope_scaling": {"rope_type": "dynamic", "factor": 3.0}}
    ),
    "llama-yarn": Case("LlamaForCausalLM", {**LLAMA, "rope_parameters": YARN}),
    "llama-longrope": Case(
        "LlamaForCausalLM", {**LLAMA, "rope_parameters": {**LONG, "original_max_position_embeddings": 5}}
    ),
    "llama-longrope-short": Case(
        "LlamaForCausalLM",
        {**LLAMA, "rope_parameters": {**LONG, "original_max_position_embeddings": 10, "factor": 4.0}},
    ),
    "llama-tokens": Case("LlamaForTokenClassification", {**LLAMA, "num_labels": 3}),
    "llama-classes": Case("LlamaForSequenceClassification", {**LLAMA, "num_labels": 3}),
    "mistral": Case("MistralForCausalLM", {**LLAMA, "sliding_window": 3}),
    "qwen2": Case("Qwen2ForCausalLM", LLAMA),
    "qwen3": Case("Qwen3ForCausalLM", {**LLAMA, "head_dim": 6, "tie_word_embeddings": True}),
    "qwen3-classes": Case("Qwen3ForSequenceClassification", {**LLAMA, "head_dim": 6, "num_labels": 3}),
    "gemma": Case("GemmaForCausalLM", {**LLAMA, "head_dim": 6}),
    "gemma-body": Case("GemmaModel", {**LLAMA, "head_dim": 6, "hidden_act": "gelu", "attention_bias": True}),
    "gemma-classes": Case("GemmaForSequenceClassification", {**LLAMA, "head_dim": 6, "num_labels": 3}),
    "gemma-tokens": Case("GemmaForTokenClassification", {**LLAMA, "head_dim": 6, "num_labels": 3}),
    "phi": Case("PhiForCausalLM", PHI),
    "phi-body": Case("PhiModel", {**PHI, "num_key_value_heads": 2, "qk_layernorm": True}),
    "phi-scaled": Case(
        "PhiForSequenceClassification",
        {**PHI, "rope_parameters": {"rope_type": "linear", "factor": 4.0, "partial_rotary_factor": 0.25}},
    ),
    "phi-tokens": Case("PhiForTokenClassification", {**PHI, "num_labels": 3}),
    "phi3": Case("Phi3ForCausalLM", PHI3),
    "phi3-partial": Case(
        "Phi3ForSequenceClassification", {**PHI3, "partial_rotary_factor": 0.5, "num_labels": 3, "sliding_window": 3}
    ),
    "phi3-long": Case("Phi3ForCausalLM", {**PHI3_LONG, "rope_parameters": LONG}),
    "mixtral": Case("MixtralForCausalLM", {**LLAMA, "num_local_experts": 4}),
    "mixtral-classes": Case("MixtralForSequenceClassification", {**LLAMA, "num_local_experts": 3, "num_labels": 3}),
    "qwen2_moe": Case("Qwen2MoeForCausalLM", {**MOE, "shared_expert_intermediate_size": 20}),
    "qwen3_moe": Case(
        "Qwen3MoeForCausalLM",
        {**MOE, "num_hidden_layers": 3, "mlp_only_layers": [0], "norm_topk_prob": True, "head_dim": 6},
    ),
    "mamba": Case("MambaForCausalLM", MAMBA, "left padded"),
    "mamba-body": Case("MambaModel", {**MAMBA, "use_bias": True, "use_conv_bias": False}, "left padded"),
    "whisper": Case("WhisperForConditionalGeneration", WHISPER, "sounds"),
    "whisper-body": Case("WhisperModel", {**WHISPER, "decoder_layers": 1, "scale_embedding": True}, "sounds"),
    "bart": Case("BartForConditionalGeneration", BART, "source and target"),
    "bart-body": Case("BartModel", {**BART, "scale_embedding": True, "decoder_layers": 1}, "source and target"),
    "bart-classes": Case("BartForSequenceClassification", {**BART, "num_labels": 4}, "ends"),
    "marian": Case("MarianMTModel", MARIAN, "source and target"),
    "marian-body": Case("MarianModel", MARIAN, "source and target"),
    "mt5": Case("MT5ForConditionalGeneration", {**T5, "feed_forward_proj": "gated-gelu"}, "source and target"),
    "t5": Case("T5ForConditionalGeneration", T5, "source and target"),
    "t5-v1.1": Case(
        "T5ForConditionalGeneration",
        {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        "source and target",
    ),
    "t5-body": Case("T5Model", {**T5, "num_decoder_layers": 1}, "source and target"),
    "t5-encoder": Case("T5EncoderModel", T5),
    "vit": Case("ViTForImageClassification", {**VIT, "num_labels": 3}, "images"),
    "deit": Case("DeiTForImageClassification", {**VIT, "num_labels": 3}, "images"),
    "deit-body": Case("DeiTModel", VIT, "images"),
    "deit-teacher": Case("DeiTForImageClassificationWithTeacher", {**VIT, "num_labels": 3}, "images"),
    "clip": Case("CLIPModel", CLIP, "texts and images"),
    "clip-text": Case("CLIPTextModel", {**TOWER, "eos_token_id": 2}),
    "clip-text-vectors": Case("CLIPTextModelWithProjection", {**TOWER, "eos_token_id": 39, "projection_dim": 12}),
    "clip-image": Case("CLIPVisionModel", PICTURE, "images"),
    "clip-image-vectors": Case("CLIPVisionModelWithProjection", {**PICTURE, "projection_dim": 12}, "images"),
    "clip-classes": Case("CLIPForImageClassification", {**CLIP, "num_labels": 3}, "images"),
    "siglip": Case("SiglipModel", SIGLIP, "texts and images"),
    "siglip-text": Case("SiglipTextModel", TOWER),
    "siglip-image": Case("SiglipVisionModel", PICTURE, "images"),
    "siglip-classes": Case("SiglipForImageClassification", {**SIGLIP, "num_labels": 3}, "images"),
    "swin": Case("SwinForImageClassification", {**SWIN, "num_labels": 3}, "large images"),
    "swin-body": Case("SwinModel", {**SWIN, "use_absolute_embeddings": True, "image_size": 32}, "large images"),
    "convnext": Case("ConvNextForImageClassification", CONVNEXT, "large images"),
    "convnext-body": Case("ConvNextModel", {**CONVNEXT, "layer_scale_init_value": 0.0}, "large images"),
    "resnet": Case("ResNetForImageClassification", RESNET, "large images"),
    "resnet-basic": Case(
        "ResNetModel",
        {**RESNET, "layer_type": "basic", "depths": [1, 2], "hidden_sizes": [8, 12], "downsample_in_first_stage": True},
        "large images",
    ),
    "vit-body": Case("ViTModel", {**VIT, "qkv_bias": False}, "images"),
}


needs_transformers = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("torch", "transformers")), reason="needs transformers"
)


def load_transformers() -> Any:
    """The library, quiet. It must not see torchvision, whose native part need not match the installed PyTorch."""
    hidden = "torchvision" not in sys.modules
    if hidden:
        sys.modules["torchvision"] = None
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        library = importlib.import_module("transformers")
        library.utils.is_torchvision_available()
        importlib.import_module("transformers.modeling_utils")
    finally:
        if hidden:
            del sys.modules["torchvision"]
    library.logging.set_verbosity_error()
    library.utils.logging.disable_progress_bar()
    return library


def make(case: Case, seed: int = 0, spread: float = 0.2) -> Any:
    """The model of transformers, in evaluation mode, its weights far from their small initial values."""
    import torch

    library = load_transformers()
    torch.manual_seed(seed)
    model = getattr(library, case.name)(getattr(library, case.config_name)(**case.config)).eval()
    with torch.no_grad():
        for parameter in (p for p in model.parameters() if p.requires_grad):
            parameter += spread * torch.randn_like(parameter)
        for name, buffer in model.named_buffers():
            if "running_" in name:  # of batch normalisation
                buffer += torch.rand_like(buffer)
    return model


def save(case: Case, folder: Path, seed: int = 0) -> Any:
    model = make(case, seed)
    model.save_pretrained(folder)
    return model


def inputs(kind: str, seed: int = 1) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray | None]]:
    """Named arrays for a model, and which results count by their number of places: padding does not."""
    random = np.random.default_rng(seed)
    if kind in ("images", "large images"):
        shape = (2, 3, 8, 8) if kind == "images" else (4, 3, 32, 32)
        return {"pixel_values": random.standard_normal(shape).astype(np.float32)}, {}
    if kind == "sounds":
        sounds = random.standard_normal((3, 8, 20)).astype(np.float32)
        return {"input_features": sounds, "decoder_input_ids": random.integers(3, 40, (3, 5))}, {}
    tokens, mask = random.integers(3, 40, (3, 7)), np.ones((3, 7), np.int64)
    if kind == "left padded":
        tokens[1, :2], mask[1, :2] = 0, 0
        return {"input_ids": tokens, "attention_mask": mask}, {7: mask}
    tokens[1, 5:], mask[1, 5:] = 0, 0
    found = {"input_ids": tokens, "attention_mask": mask}
    if kind == "ends":
        tokens[:, 4] = 2
    if kind == "texts and images":
        tokens[:, 4], images = 39, random.standard_normal((2, 3, 8, 8)).astype(np.float32)
        return {**found, "pixel_values": images}, {}
    if kind == "pairs":
        found["token_type_ids"] = np.repeat([[0, 0, 0, 1, 1, 1, 0]], 3, 0)
    if kind == "source and target":
        target = np.ones((3, 5), np.int64)
        target[2, 3:] = 0
        found |= {"decoder_input_ids": random.integers(3, 40, (3, 5)), "decoder_attention_mask": target}
        return found, {5: target}
    return found, {7: mask}


def tensors_of(result: Any) -> list[Any]:
    """The float tensors among what a model returns."""
    if hasattr(result, "to_tuple"):  # of transformers; what the encoder of an encoder–decoder returns comes last
        result = [value for key, value in result.items() if hasattr(value, "detach") and not key.startswith("encoder_")]
    return [value for value in (result if isinstance(result, (tuple, list)) else [result]) if value is not None]


def weighted(
    result: Any, masks: dict[int, np.ndarray], as_tensor: Callable[[np.ndarray], Any]
) -> tuple[Any, list[Any]]:
    """Σ weight · result with fixed weights, 0 at padding: a loss; and the results times the mask."""
    total, kept = 0.0, []
    for number, value in enumerate(tensors_of(result)[:2]):
        weight = np.random.default_rng(number).standard_normal(tuple(value.shape)).astype(np.float32) / 10
        mask = masks.get(value.shape[1]) if value.ndim > 1 and value.shape[0] == 3 else None
        if mask is not None:
            weight = weight * mask.reshape(*mask.shape, *[1] * (value.ndim - 2)).astype(np.float32)
            value = value * as_tensor((weight != 0).astype(np.float32))
        total = total + (value * as_tensor(weight)).sum()
        kept.append(value.detach().numpy())
    return total, kept


def to_weft(arrays: dict[str, np.ndarray]) -> dict[str, weft.Tensor]:
    return {name: weft.tensor(array) for name, array in arrays.items()}
