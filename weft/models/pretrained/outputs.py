"""What models of Hugging Face's families return: named results that are a tuple and read like a mapping.

A result that was not asked for is None as an attribute and is left out of everything else, as in transformers: out[0] is
the loss if there were labels, else the scores. They are trees, so compiled functions may return them.
"""

from __future__ import annotations

from collections.abc import ItemsView, KeysView
from typing import Any, ClassVar, Self

from ...errors import ArgumentError, AttributeAccessError
from ...tensor import Tensor
from ...utils.pytree import register_pytree_node
from ..text.cache import Cache, SourceCache

__all__ = [
    "AlbertForPreTrainingOutput",
    "BaseModelOutput",
    "BaseModelOutputWithPast",
    "BaseModelOutputWithPooling",
    "BertForPreTrainingOutput",
    "CLIPOutput",
    "CausalLMOutputWithPast",
    "DeiTForImageClassificationWithTeacherOutput",
    "ElectraForPreTrainingOutput",
    "ImageClassifierOutput",
    "MambaCausalLMOutput",
    "MambaOutput",
    "MaskedLMOutput",
    "ModelOutput",
    "NextSentencePredictorOutput",
    "QuestionAnsweringModelOutput",
    "Seq2SeqLMOutput",
    "Seq2SeqModelOutput",
    "Seq2SeqSequenceClassifierOutput",
    "SequenceClassifierOutput",
    "SequenceClassifierOutputWithPast",
    "SwinImageClassifierOutput",
    "SwinModelOutput",
    "TextModelOutput",
    "TokenClassifierOutput",
    "VisionModelOutput",
]

Layers = tuple[Tensor, ...] | None


class ModelOutput(tuple):
    """Results by name; abstract: subclasses annotate their fields in order.

    out.logits, out["logits"], out[0], out[:2], "loss" in out, out.keys(), out.items(), dict(out), out.to_tuple(). Python
    goes through it as through a tuple, so that `loss, logits = out[:2]` and `start, end = out` unpack values (transformers
    goes through the names). It cannot be changed; `out.replace(loss=…)` makes another.

    >>> out = CausalLMOutputWithPast(logits=weft.zeros(1, 2, 3))
    >>> out.loss is None, "loss" in out, out[0].shape, list(out.keys())
    (True, False, Size([1, 2, 3]), ['logits'])
    """

    fields: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, **results: Any) -> Self:
        unknown = [name for name in results if name not in cls.fields]
        if unknown:
            raise ArgumentError(
                f"{cls.__name__}: expected fields among {', '.join(cls.fields)}, got {', '.join(unknown)}"
            )
        present = {name: results[name] for name in cls.fields if results.get(name) is not None}
        self = super().__new__(cls, present.values())
        self.__dict__["_present"] = present
        return self

    def __init_subclass__(cls) -> None:
        cls.fields = (*cls.fields, *(name for name in cls.__annotations__ if name not in cls.fields))
        register_pytree_node(
            cls,
            lambda out: (list(out), tuple(out._present)),
            lambda children, names: cls(**dict(zip(names, children, strict=True))),
        )

    def __getattr__(self, name: str) -> Any:
        if name in type(self).fields:
            return self.__dict__["_present"].get(name)
        raise AttributeError(
            f"{type(self).__name__} has no {name!r}; it has {', '.join(self.keys())}; tensors have it: {self._main}"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeAccessError(f"{type(self).__name__} cannot be changed; out.replace({name}=…) makes another")

    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, str):
            return self._present[key]
        if isinstance(key, tuple):
            raise ArgumentError(
                f"{type(self).__name__}: expected a name, a number or a slice, got {key}; index {self._main}"
            )
        return tuple.__getitem__(self, key)

    @property
    def _main(self) -> str:
        """How to reach the tensor that is mostly meant."""
        return next((f"out.{name}" for name in self.keys() if name != "loss"), "one of its results")

    def __contains__(self, name: object) -> bool:
        return name in self._present if isinstance(name, str) else any(value is name for value in self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self._present)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.items())})"

    def keys(self) -> KeysView[str]:
        return self._present.keys()

    def values(self) -> tuple[Any, ...]:
        return self.to_tuple()

    def items(self) -> ItemsView[str, Any]:
        return self._present.items()

    def get(self, name: str, default: Any = None) -> Any:
        return self._present.get(name, default)

    def to_tuple(self) -> tuple[Any, ...]:
        """The results that are there."""
        return tuple(self)

    def replace(self, **changes: Any) -> Self:
        """The same with other results for some names; None takes one away."""
        return type(self)(**{**self._present, **changes})


def _remade(cls: type[ModelOutput], present: dict[str, Any]) -> ModelOutput:
    return cls(**present)


# ------------------------------------------------------------------------------------------- without a head


class BaseModelOutput(ModelOutput):
    """last_hidden_state (B, T, C).

    hidden_states: the input of the first layer, what every layer but the last returned, and last_hidden_state. attentions: the weights (B, H, T, S) of every layer.
    """

    last_hidden_state: Tensor
    hidden_states: Layers
    attentions: Layers


class BaseModelOutputWithPooling(ModelOutput):
    """last_hidden_state (B, T, C), pooler_output (B, C) if there is a pooler; the rest as in `BaseModelOutput`."""

    last_hidden_state: Tensor
    pooler_output: Tensor | None
    hidden_states: Layers
    attentions: Layers


class SwinModelOutput(BaseModelOutputWithPooling):
    """The rest as in `BaseModelOutputWithPooling`; reshaped_hidden_states: hidden_states as images (B, C, H, W)."""

    reshaped_hidden_states: Layers


class BaseModelOutputWithPast(ModelOutput):
    """last_hidden_state (B, T, C), past_key_values of all places so far; the rest as in `BaseModelOutput`."""

    last_hidden_state: Tensor
    past_key_values: Cache | None
    hidden_states: Layers
    attentions: Layers


class MambaOutput(ModelOutput):
    """last_hidden_state (B, T, C), cache_params: the state after the last token, by layers.

    hidden_states: what every layer returned, and last_hidden_state.
    """

    last_hidden_state: Tensor
    cache_params: Any
    hidden_states: Layers


class Seq2SeqModelOutput(ModelOutput):
    """last_hidden_state (B, T, C) of the decoder, what it and the encoder computed on the way."""

    last_hidden_state: Tensor
    past_key_values: SourceCache | None
    decoder_hidden_states: Layers
    decoder_attentions: Layers
    cross_attentions: Layers
    encoder_last_hidden_state: Tensor
    encoder_hidden_states: Layers
    encoder_attentions: Layers


# ------------------------------------------------------------------------------------------- with a head


class MaskedLMOutput(ModelOutput):
    """loss () if there were labels, logits (B, T, V): scores of every token at every place."""

    loss: Tensor | None
    logits: Tensor
    hidden_states: Layers
    attentions: Layers


class ElectraForPreTrainingOutput(MaskedLMOutput):
    """loss () if there were labels, logits (B, T): positive where a token looks replaced."""


class NextSentencePredictorOutput(MaskedLMOutput):
    """loss () if there were labels, logits (B, 2)."""


class SequenceClassifierOutput(MaskedLMOutput):
    """loss () if there were labels, logits (B, num_labels)."""


class TokenClassifierOutput(MaskedLMOutput):
    """loss () if there were labels, logits (B, T, num_labels)."""


class ImageClassifierOutput(MaskedLMOutput):
    """loss () if there were labels, logits (B, num_labels)."""


class SwinImageClassifierOutput(ImageClassifierOutput):
    """loss () if there were labels, logits (B, num_labels); reshaped_hidden_states: hidden_states as images (B, C, H, W)."""

    reshaped_hidden_states: Layers


class CausalLMOutputWithPast(ModelOutput):
    """loss () of the next tokens if there were labels, logits (B, T, V), past_key_values of all places so far."""

    loss: Tensor | None
    logits: Tensor
    past_key_values: Cache | None
    hidden_states: Layers
    attentions: Layers


class MambaCausalLMOutput(ModelOutput):
    """loss () of the next tokens if there were labels, logits (B, T, V), cache_params: the state after the last token."""

    loss: Tensor | None
    logits: Tensor
    cache_params: Any
    hidden_states: Layers


class SequenceClassifierOutputWithPast(CausalLMOutputWithPast):
    """loss () if there were labels, logits (B, num_labels), past_key_values."""


class Seq2SeqLMOutput(ModelOutput):
    """loss () if there were labels, logits (B, T, V) of what the decoder writes."""

    loss: Tensor | None
    logits: Tensor
    past_key_values: SourceCache | None
    decoder_hidden_states: Layers
    decoder_attentions: Layers
    cross_attentions: Layers
    encoder_last_hidden_state: Tensor
    encoder_hidden_states: Layers
    encoder_attentions: Layers


class Seq2SeqSequenceClassifierOutput(Seq2SeqLMOutput):
    """loss () if there were labels, logits (B, num_labels)."""


class QuestionAnsweringModelOutput(ModelOutput):
    """start_logits and end_logits, (B, T) each: where an answer begins and which token is its last."""

    loss: Tensor | None
    start_logits: Tensor
    end_logits: Tensor
    hidden_states: Layers
    attentions: Layers


class BertForPreTrainingOutput(ModelOutput):
    """prediction_logits (B, T, V), seq_relationship_logits (B, 2)."""

    loss: Tensor | None
    prediction_logits: Tensor
    seq_relationship_logits: Tensor
    hidden_states: Layers
    attentions: Layers


class AlbertForPreTrainingOutput(ModelOutput):
    """prediction_logits (B, T, V) and sop_logits (B, 2): class 1 if the two sentences were swapped."""

    loss: Tensor | None
    prediction_logits: Tensor
    sop_logits: Tensor
    hidden_states: Layers
    attentions: Layers


class DeiTForImageClassificationWithTeacherOutput(ModelOutput):
    """logits, the mean of the two others: cls_logits and distillation_logits, (B, num_labels) each."""

    logits: Tensor
    cls_logits: Tensor
    distillation_logits: Tensor
    hidden_states: Layers
    attentions: Layers


class TextModelOutput(ModelOutput):
    """text_embeds (B, P) of a text, last_hidden_state (B, T, C); the rest as in `BaseModelOutput`."""

    text_embeds: Tensor
    last_hidden_state: Tensor
    hidden_states: Layers
    attentions: Layers


class VisionModelOutput(ModelOutput):
    """image_embeds (B, P) of an image, last_hidden_state (B, T, C); the rest as in `BaseModelOutput`."""

    image_embeds: Tensor
    last_hidden_state: Tensor
    hidden_states: Layers
    attentions: Layers


class CLIPOutput(ModelOutput):
    """logits_per_image (images, texts), its transpose, what they are products of, and what the two models returned."""

    loss: Tensor | None
    logits_per_image: Tensor
    logits_per_text: Tensor
    text_embeds: Tensor
    image_embeds: Tensor
    text_model_output: BaseModelOutputWithPooling
    vision_model_output: BaseModelOutputWithPooling
