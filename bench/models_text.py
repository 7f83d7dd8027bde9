"""Transformers for bench/models.py: those of the package transformers beside Weft's, from the same configs."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from models_vision import Trained

VOCABULARY = 1000


def text(library: Any) -> Any:
    """The module with the language models of a library: transformers' for PyTorch."""
    if library.__name__ == "weft":
        return importlib.import_module("weft.models.supervised")
    # transformers needs none of torchvision, and must not meet one that does not load
    sys.modules.setdefault("torchvision", None)
    return importlib.import_module("transformers")


def made(library: Any, kind: str, config: str, **sizes: Any) -> Any:
    """A model from its config, in training mode."""
    module = text(library)
    return getattr(module, kind)(getattr(module, config)(**sizes)).train()


def writing(library: Any, kind: str, config: str, rows: int, length: int, **sizes: Any) -> Trained:
    """A language model with its loss on one batch of tokens; an encoder–decoder reads and writes the same ones."""
    model = made(library, kind, config, vocab_size=VOCABULARY, **sizes)
    tokens, labels = (library.randint(0, VOCABULARY, (rows, length)) for _ in range(2))
    given = {"decoder_input_ids": tokens} if kind.startswith("T5") else {}

    def loss() -> Any:
        logits = model(input_ids=tokens, **given).logits  # (B, T, V)
        return library.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), labels.reshape(-1))

    return model, loss


BERT = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def bert(library: Any) -> Trained:
    return writing(library, "BertForMaskedLM", "BertConfig", 16, 64, **BERT, **STILL)


def roberta(library: Any) -> Trained:
    places = {"max_position_embeddings": 66, "type_vocab_size": 1, "pad_token_id": 1}
    return writing(library, "RobertaForMaskedLM", "RobertaConfig", 16, 64, **BERT, **STILL, **places)


def distilbert(library: Any) -> Trained:
    sizes = {"dim": 128, "n_layers": 4, "n_heads": 4, "hidden_dim": 512, "dropout": 0.0, "attention_dropout": 0.0}
    return writing(library, "DistilBertForMaskedLM", "DistilBertConfig", 16, 64, **sizes)


def gpt2(library: Any) -> Trained:
    sizes = {"n_embd": 128, "n_layer": 4, "n_head": 4, "n_positions": 64, "bos_token_id": 0, "eos_token_id": 0}
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return writing(library, "GPT2LMHeadModel", "GPT2Config", 16, 64, **sizes, **dropout)


LLAMA = {"hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 4, "num_attention_heads": 4}
LLAMA |= {"num_key_value_heads": 2}


def llama(library: Any) -> Trained:
    return writing(library, "LlamaForCausalLM", "LlamaConfig", 16, 64, **LLAMA)


def qwen3(library: Any) -> Trained:
    return writing(library, "Qwen3ForCausalLM", "Qwen3Config", 16, 64, **LLAMA, head_dim=32)


def t5(library: Any) -> Trained:
    sizes = {"d_model": 128, "d_kv": 32, "d_ff": 512, "num_layers": 3, "num_heads": 4, "dropout_rate": 0.0}
    return writing(library, "T5ForConditionalGeneration", "T5Config", 16, 64, **sizes)


def vit_hf(library: Any) -> Trained:
    """Transformers' ViT on 64 patches."""
    sizes = {**BERT, **STILL, "image_size": 32, "patch_size": 4, "num_labels": 10}
    model = made(library, "ViTForImageClassification", "ViTConfig", **sizes)
    x, y = library.randn(16, 3, 32, 32), library.randint(0, 10, (16,))

    def loss() -> Any:
        return library.nn.functional.cross_entropy(model(x).logits, y)

    return model, loss
