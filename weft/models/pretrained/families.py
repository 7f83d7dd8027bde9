"""The families of models that folders of Hugging Face hold, by the model_type of config.json."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...nn.module import Module

if TYPE_CHECKING:
    from .pretrained import PretrainedModel

__all__ = ["FAMILIES", "Family"]


@dataclass(frozen=True)
class Family:
    """The models of a model_type: their file, and how their names begin here and in config.json.

    defaults: fields of the config that a config.json may leave out.
    """

    module: str
    prefix: str
    spelling: str = ""
    defaults: tuple[tuple[str, Any], ...] = ()

    def class_name(self, architecture: str) -> str:
        return re.sub(
            f"^{self.spelling or self.prefix}(?=[A-Z])", self.prefix, OLD_NAMES.get(architecture, architecture)
        )

    def architecture(self, class_name: str) -> str:
        return re.sub(f"^{self.prefix}(?=[A-Z])", self.spelling or self.prefix, class_name)

    def classes(self) -> dict[str, type[PretrainedModel]]:
        module = importlib.import_module(f"weft.models.{self.module}")
        found = {name: getattr(module, name) for name in module.__all__ if re.match(f"{self.prefix}[A-Z]", name)}
        return {name: cls for name, cls in found.items() if isinstance(cls, type) and issubclass(cls, Module)}


FAMILIES: dict[str, Family] = {
    "bert": Family("transformers.bert", "Bert"),
    "roberta": Family("transformers.roberta", "Roberta"),
    "xlm-roberta": Family("transformers.roberta", "Roberta", "XLMRoberta"),
    "camembert": Family("transformers.roberta", "Roberta", "Camembert"),
    "distilbert": Family("transformers.distilbert", "DistilBert"),
    "electra": Family("transformers.electra", "Electra"),
    "albert": Family("transformers.albert", "Albert"),
    "mpnet": Family("transformers.mpnet", "MPNet"),
    "gpt2": Family("transformers.gpt", "GPT2"),
    "gpt_neo": Family("transformers.gpt_neo", "GPTNeo"),
    "gpt_neox": Family("transformers.gpt_neox", "GPTNeoX"),
    "opt": Family("transformers.opt", "OPT"),
    "llama": Family("transformers.llama", "Llama"),
    "mistral": Family("transformers.llama", "Mistral"),
    "qwen2": Family("transformers.llama", "Qwen2"),
    "qwen3": Family("transformers.llama", "Qwen3"),
    "gemma": Family("transformers.gemma", "Gemma"),
    "mixtral": Family("transformers.experts", "Mixtral"),
    "qwen2_moe": Family("transformers.experts", "Qwen2Moe"),
    "qwen3_moe": Family("transformers.experts", "Qwen3Moe"),
    "mamba": Family("transformers.mamba", "Mamba"),
    "phi": Family("transformers.phi", "Phi"),
    "phi3": Family("transformers.phi3", "Phi3"),
    "bart": Family("transformers.bart", "Bart"),
    "marian": Family("transformers.bart", "Marian"),
    "t5": Family("transformers.t5", "T5"),
    "mt5": Family("transformers.t5", "T5", "MT5", (("scale_decoder_outputs", False),)),
    "whisper": Family("transformers.whisper", "Whisper"),
    "clip": Family("vision.clip", "CLIP"),
    "clip_text_model": Family("vision.clip", "CLIPText"),
    "clip_vision_model": Family("vision.clip", "CLIPVision"),
    "siglip": Family("vision.siglip", "Siglip"),
    "siglip_text_model": Family("vision.siglip", "SiglipText"),
    "siglip_vision_model": Family("vision.siglip", "SiglipVision"),
    "swin": Family("vision.swin", "Swin"),
    "convnext": Family("vision.convnext_hf", "ConvNext"),
    "vit": Family("vision.vit_hf", "ViT"),
    "deit": Family("vision.vit_hf", "DeiT"),
    "resnet": Family("vision.resnet_hf", "ResNet"),
}
OLD_NAMES = {"T5WithLMHeadModel": "T5ForConditionalGeneration"}
