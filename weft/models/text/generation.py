"""How a model writes unless told otherwise: what generation_config.json says, under its names."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from .streaming import StopStrings

__all__ = ["GenerationConfig", "chosen_options", "mask_of_padding"]

USUAL_NEW_TOKENS = 20
TOKENS = ("eos_token_id", "pad_token_id", "forced_bos_token_id", "forced_eos_token_id")  # None says: none
CALLS = ("generator", "streamer", "tokenizer")  # options of a call alone
LENGTHS = ("max_length", "max_new_tokens", "min_length", "min_new_tokens")
SAMPLING = ("temperature", "top_k", "top_p", "generator")
BEAMS = ("length_penalty", "early_stopping")
# what the file may ask for that is not done here, with the value that asks for nothing
UNSUPPORTED: dict[str, Any] = {
    **dict.fromkeys(("min_p", "top_h", "typical_p", "guidance_scale", "encoder_repetition_penalty"), 1.0),
    **dict.fromkeys(("epsilon_cutoff", "eta_cutoff", "diversity_penalty", "encoder_no_repeat_ngram_size"), 0),
    **dict.fromkeys(("penalty_alpha", "dola_layers", "sequence_bias", "force_words_ids", "constraints"), None),
    **dict.fromkeys(("exponential_decay_length_penalty", "max_time", "watermarking_config"), None),
    **dict.fromkeys(("prompt_lookup_num_tokens", "renormalize_logits"), None),
    "num_beam_groups": 1,
}


@dataclass(kw_only=True)
class GenerationConfig:
    """What `generate` does that is not told; None leaves a field to the model's config or to `decoding`.

    max_length and min_length count the beginning as well, max_new_tokens and min_new_tokens (which come first) do not.
    other: fields of the file that have no meaning here, kept for writing it again.
    """

    max_length: int | None = None
    max_new_tokens: int | None = None
    min_length: int | None = None
    min_new_tokens: int | None = None
    do_sample: bool | None = None
    num_beams: int | None = None
    num_return_sequences: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    length_penalty: float | None = None
    early_stopping: bool | str | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    bad_words_ids: list[list[int]] | None = None
    suppress_tokens: list[int] | None = None
    begin_suppress_tokens: list[int] | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None
    forced_bos_token_id: int | None = None
    forced_eos_token_id: int | list[int] | None = None
    stop_strings: str | list[str] | None = None
    other: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """The config of a generation_config.json; what it asks for and is not done here is named in a warning."""
        asked = [name for name, nothing in UNSUPPORTED.items() if fields.get(name) not in (None, nothing, False)]
        if asked:
            warnings.warn(f"generation_config.json: {', '.join(asked)} is not supported and left out", stacklevel=3)
        known = {name: value for name, value in fields.items() if name in NAMES}
        return cls(**known, other={name: value for name, value in fields.items() if name not in NAMES})

    def said(self) -> dict[str, Any]:
        """The fields that say something."""
        return {name: getattr(self, name) for name in NAMES if getattr(self, name) is not None}

    def to_dict(self) -> dict[str, Any]:
        """What generation_config.json holds."""
        return {**self.other, **self.said()}


NAMES = tuple(entry.name for entry in dataclasses.fields(GenerationConfig) if entry.name != "other")


def chosen_options(
    model: Any, config: GenerationConfig | None, given: Mapping[str, Any], prompt: int, most: int | None = None
) -> dict[str, Any]:
    """The options of `decoding.generate` for beginnings of `prompt` tokens: those given, else those of the configs.

    most: how many places the model has; the usual number of new tokens is cut to them. stop_strings are looked for with
    the tokenizer that is given, else with the model's.
    """
    unknown = [name for name in given if name not in (*NAMES, *CALLS)]
    if unknown:
        reason = "are not supported" if set(unknown) <= set(UNSUPPORTED) else "are unknown"
        raise OptionError(f"generate: {', '.join(unknown)} {reason}; expected some of {', '.join((*NAMES, *CALLS))}")
    config = model.generation_config if config is None else config
    ends = {name: getattr(model.config, name, None) for name in (*TOKENS, "bad_words_ids")}
    told = {name: value for name, value in given.items() if value is not None or name in TOKENS}
    options = {**ends, **config.said(), **told}
    if "max_length" in told and "max_new_tokens" not in told:
        options.pop("max_new_tokens", None)
    if "min_length" in told and "min_new_tokens" not in told:
        options.pop("min_new_tokens", None)
    strings, tokenizer = options.pop("stop_strings", None), options.pop("tokenizer", None)
    if strings is not None:
        options["stopping"] = StopStrings(model.tokenizer if tokenizer is None else tokenizer, strings, prompt)
    lengths = _lengths({name: options.pop(name, None) for name in LENGTHS}, prompt, most)
    return {**_used(options, told), **lengths}


def _lengths(asked: Mapping[str, int | None], prompt: int, most: int | None) -> dict[str, int]:
    """max_new_tokens and min_new_tokens."""
    longest, new, shortest, least = (asked[name] for name in LENGTHS)
    if new is None and longest is not None:
        new = longest - prompt
        if new <= 0:
            raise ShapeError(
                f"generate: max_length={longest} counts the beginning, which has {prompt} tokens; give max_new_tokens"
            )
    if new is None:
        new = USUAL_NEW_TOKENS if most is None else max(min(USUAL_NEW_TOKENS, most - prompt), 1)
    return {"max_new_tokens": new, "min_new_tokens": max((shortest or 0) - prompt, 0) if least is None else least}


def _used(options: dict[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those that this way of writing has no use for; a warning names them if they were told."""
    spare = () if options.get("do_sample") else SAMPLING
    spare += () if (options.get("num_beams") or 1) > 1 else BEAMS
    useless = [name for name in spare if name in told]
    if useless:
        warnings.warn(f"generate: {', '.join(useless)} has no effect without do_sample or num_beams > 1", stacklevel=4)
    return {name: value for name, value in options.items() if name not in spare}


def mask_of_padding(tokens: Tensor, padding: int | None, ends: int | Sequence[int] | None) -> Tensor | None:
    """1 for tokens and 0 for padding where that can be told: padding is there and no end token. (B, T) → (B, T)"""
    if padding is None or padding in ([ends] if isinstance(ends, int) else ends or ()):
        return None
    found = tokens != padding
    return None if bool(found.all()) else found.long()
