"""What models with Hugging Face's files share: a config, and folders read and written.

A config is a dataclass with the names and defaults of config.json; a model is made of a config alone, and its state
dict has Hugging Face's keys. `weft.models.pretrained.huggingface` does the reading; `outputs` has what models return.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

from ... import nn
from ...data.text import load_tokenizer
from ...errors import OptionError
from ...io.atomic import Path
from ..text.generation import GenerationConfig
from ..transformers.blocks import Conv1D
from .huggingface import from_pretrained, save_pretrained
from .outputs import ModelOutput
from .watching import Watch, watched

__all__ = ["Config", "PretrainedModel", "initialised"]

M = TypeVar("M", bound=nn.Module)

# names that older files and other families have for a field: the first that is there counts
SPELLINGS: tuple[tuple[str, ...], ...] = (
    ("hidden_size", "n_embd", "d_model", "dim"),
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    ("intermediate_size", "hidden_dim", "ffn_dim", "d_ff", "n_inner"),
    ("max_position_embeddings", "n_positions", "n_ctx"),
    ("hidden_act", "activation_function", "activation"),
    ("initializer_range", "init_std"),
    ("num_labels", "_num_labels"),
)


# fields about calls: config.json has only those that are not the default
ABOUT_CALLS = ("problem_type", "output_attentions", "output_hidden_states", "use_cache", "return_dict")


@dataclass(kw_only=True)
class Config:
    """The fields of a config.json that a family of models knows; others are left out.

    id2label: the names of the classes by number; num_labels counts them. problem_type: what labels of classes are
    (`label_losses.class_loss`). output_attentions, output_hidden_states, use_cache, return_dict: what a call returns that
    does not say.
    """

    model_type: ClassVar[str]
    sizes: ClassVar[tuple[str, ...]] = ()  # fields that must be positive integers
    width_and_heads: ClassVar[tuple[str, str]] = ("hidden_size", "num_attention_heads")

    tie_word_embeddings: bool = True
    initializer_range: float = 0.02
    num_labels: int = 2
    id2label: dict[str, str] | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None
    problem_type: str | None = None
    output_attentions: bool = False
    output_hidden_states: bool = False
    use_cache: bool = True
    return_dict: bool = True

    def __post_init__(self) -> None:
        for name in self.sizes:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise OptionError(f"{type(self).__name__}: {name} must be a positive integer, got {value!r}")
        width, heads = (getattr(self, name, 1) for name in self.width_and_heads)
        if self._heads_divide() and width % heads:
            raise OptionError(f"{type(self).__name__}: {heads} heads do not divide a width of {width}")
        if self.id2label is not None:
            self.num_labels = len(self.id2label)

    def _heads_divide(self) -> bool:
        """Whether a head has width / heads features."""
        return True

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], **changes: Any) -> Self:
        """The config of a config.json, with changes; null means the default, and no token where a token is named."""
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(changes) - known)
        if unknown:
            raise OptionError(f"{cls.__name__}: no fields {', '.join(unknown)}; there are {', '.join(sorted(known))}")
        if "num_labels" in changes:
            changes.setdefault("id2label", None)
        given = {
            name: value
            for name, value in {**_respelled(fields, known), **fields}.items()
            if name in known and (value is not None or name.endswith("_token_id"))
        }
        return cls(**{**given, **changes})

    def to_dict(self) -> dict[str, Any]:
        """What config.json holds."""
        usual = {field.name: field.default for field in dataclasses.fields(self) if field.name in ABOUT_CALLS}
        fields = {
            name: value for name, value in dataclasses.asdict(self).items() if name not in usual or value != usual[name]
        }
        labels = fields.pop("id2label") or {str(i): f"LABEL_{i}" for i in range(fields["num_labels"])}
        del fields["num_labels"]
        names = {name: int(number) for number, name in labels.items()}
        return {"model_type": self.model_type, **fields, "id2label": labels, "label2id": names}


def _respelled(fields: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    """Fields under their names here that have another name in a file."""
    found = {}
    for names in SPELLINGS:
        here = [name for name in names if name in known]
        others = [fields[name] for name in names if name not in known and fields.get(name) is not None]
        if here and others:
            found[here[0]] = others[0]
    return found


class PretrainedModel(nn.Module):
    """A model made of a config, with Hugging Face's keys; abstract.

    Calls take `output_attentions`, `output_hidden_states`, `return_dict` (False: a plain tuple), those of models with a
    head `labels` as well, and return a `ModelOutput`; what is not said is the config's.

    body: the attribute under which models with a head hold what all of the family share, "bert" say; "" if there is none.
    heads: beginnings of keys that only some models of the family have; files may lack them or have more of them.
    renamed: beginnings of keys in files with those that they have here.
    newer: patterns of keys that later versions of transformers have in memory, with those of the files.
    optional: ends of keys that files may have or not, since their values can be computed.
    """

    config_class: ClassVar[type[Config]]
    body: ClassVar[str] = ""
    heads: ClassVar[tuple[str, ...]] = ()
    renamed: ClassVar[tuple[tuple[str, str], ...]] = ()
    newer: ClassVar[tuple[tuple[str, str], ...]] = ()
    optional: ClassVar[tuple[str, ...]] = ()

    config: Config
    generation_config: GenerationConfig
    folder: str | None = None

    def __init__(self, config: Config) -> None:
        super().__init__()
        if not isinstance(config, self.config_class):
            raise OptionError(
                f"{type(self).__name__}: expected a {self.config_class.__name__}, got {type(config).__name__}"
            )
        self.config, self.generation_config = config, GenerationConfig()

    @classmethod
    def from_pretrained(cls, folder: Path, *, strict: bool = True, **changes: Any) -> Self:
        """The model of a Hugging Face folder as this class; see `weft.models.from_pretrained`."""
        return from_pretrained(folder, architecture=cls, strict=strict, **changes)

    def save_pretrained(self, folder: Path, max_shard_size: int | str = "5GB") -> None:
        """Write config.json and model.safetensors, as Hugging Face's programs read them, and the tokeniser, if any.

        max_shard_size: bytes, or a number with KB, MB or GB; what is larger is written in several files with an index.
        """
        save_pretrained(self, folder, max_shard_size)

    def watched(
        self, output_attentions: bool | None = None, output_hidden_states: bool | None = None
    ) -> AbstractContextManager[Watch]:
        """A block in which the layers' hidden states and weights of attention are kept as a call or the config asks."""
        hidden = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        return watched(hidden, self.config.output_attentions if output_attentions is None else output_attentions)

    def delivered(self, output: ModelOutput, return_dict: bool | None) -> ModelOutput | tuple[Any, ...]:
        """The output itself, or the plain tuple of what is in it."""
        return output if (self.config.return_dict if return_dict is None else return_dict) else output.to_tuple()

    def answered(
        self, kind: type[ModelOutput], below: ModelOutput, return_dict: bool | None, **results: Any
    ) -> ModelOutput | tuple[Any, ...]:
        """These results with those of the model below that have a place in this kind of output."""
        passed = {name: below[name] for name in below.keys() if name in kind.fields and name not in results}
        return self.delivered(kind(**passed, **results), return_dict)

    @property
    def tokenizer(self) -> Any:
        """The tokeniser of the folder that the model came from, read when it is first asked for (extra `text`)."""
        found = self.__dict__.get("_tokenizer")
        if found is None:
            if self.folder is None:
                raise OptionError(f"{type(self).__name__}: no tokeniser; the model was not loaded from a folder")
            found = self.__dict__["_tokenizer"] = load_tokenizer(os.fspath(self.folder))
        return found


def initialised(module: M, std: float) -> M:
    """The module with weights from N(0, std²), biases 0, norms 1 and 0, padding rows 0: how BERT and GPT begin."""
    for part in module.modules():
        if isinstance(part, (nn.Linear, nn.Embedding, nn.Conv2d, Conv1D)):
            nn.init.normal_(part.weight, std=std)
            if getattr(part, "padding_idx", None) is not None:
                nn.init.zeros_(part.weight.data[part.padding_idx])
            if getattr(part, "bias", None) is not None:
                nn.init.zeros_(part.bias)
    return module
