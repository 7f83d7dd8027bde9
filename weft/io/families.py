"""The families of models that folders of Hugging Face hold, by the model_type of config.json."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..nn.module import Module

if TYPE_CHECKING:
    from ..models.supervised.pretrained import PretrainedModel

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
        module = importlib.import_module(f"weft.models.supervised.{self.module}")
        found = {name: getattr(module, name) for name in module.__all__ if re.match(f"{self.prefix}[A-Z]", name)}
        return {name: cls for name, cls in found.items() if isinstance(cls, type) and issubclass(cls, Module)}


FAMILIES: dict[str, Family] = {
    "bert": Family("bert", "Bert"),
    "roberta": Family("roberta", "Roberta"),
    "xlm-roberta": Family("roberta", "Roberta", "XLMRoberta"),
    "camembert": Family("roberta", "Roberta", "Camembert"),
    "distilbert": Family("distilbert", "DistilBert"),
    "electra": Family("electra", "Electra"),
    "albert": Family("albert", "Albert"),
    "mpnet": Family("mpnet", "MPNet"),
    "gpt2": Family("gpt", "GPT2"),
    "gpt_neo": Family("gpt_neo", "GPTNeo"),
    "gpt_neox": Family("gpt_neox", "GPTNeoX"),
    "opt": Family("opt", "OPT"),
    "llama": Family("llama", "Llama"),
    "mistral": Family("llama", "Mistral"),
    "qwen2": Family("llama", "Qwen2"),
    "qwen3": Family("llama", "Qwen3"),
    "gemma": Family("gemma", "Gemma"),
    "phi": Family("phi", "Phi"),
    "bart": Family("bart", "Bart"),
    "marian": Family("bart", "Marian"),
    "t5": Family("t5", "T5"),
    "mt5": Family("t5", "T5", "MT5", (("scale_decoder_outputs", False),)),
    "vit": Family("vit_hf", "ViT"),
    "deit": Family("vit_hf", "DeiT"),
    "resnet": Family("resnet_hf", "ResNet"),
}
OLD_NAMES = {"T5WithLMHeadModel": "T5ForConditionalGeneration"}
