"""The tokeniser of a Hugging Face folder under transformers' interface (extra `text`): texts in, batches for models out.

`weft.data.text` reads the files and has Weft's own interface; here are `__call__` with padding and truncation, special
tokens by their names, and chat templates.

>>> tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
>>> batch = tokenizer(["A cat sits.", "It sleeps."], padding=True, return_tensors="pt")
>>> model(**batch).logits
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...data.text.folders import backend_in, read_config, roles_of
from ...data.text.tokenizers import ROLES
from ...errors import MissingFileError, OptionError
from ...io.atomic import Path, replacing
from ...io.bounded import load_json
from ...io.errors import FileFormatError
from ...tensor import Tensor
from .batch_encoding import BatchEncoding, as_kind, filled, listed
from .chat_templates import plain, render_chat

__all__ = ["AutoTokenizer", "PretrainedTokenizer"]

UNLIMITED = int(1e30)  # model_max_length of tokenisers that know none
TWO_SEGMENTS = ("bert", "electra", "mobilebert", "funnel")  # models that read token_type_ids
ORDER = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")  # in which special tokens are listed
STRATEGIES = ("longest_first", "only_first", "only_second")
END = "⟨the last message ends here⟩ "
CLEANED = ((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"))
CLEANED += ((" 's", "'s"), (" 've", "'ve"), (" 're", "'re"))


class AutoTokenizer:
    """The door to a folder's tokeniser."""

    @staticmethod
    def from_pretrained(folder: Path, **changes: Any) -> PretrainedTokenizer:
        """The tokeniser of a folder: tokenizer.json, or the files of older models, with tokenizer_config.json.

        changes: fields of tokenizer_config.json: padding_side="left", model_max_length=512, pad_token="<pad>" …
        """
        path = os.fspath(folder)
        if not os.path.isdir(path):
            raise MissingFileError(f"AutoTokenizer: there is no folder {path!r}; Weft downloads none")
        backend, config = backend_in(path, read_config(path))
        config = {**config, **changes}
        config.setdefault("chat_template", _templates(path))
        if "model_input_names" not in config:
            names = ["input_ids", "token_type_ids", "attention_mask"]
            config["model_input_names"] = names if _segments(path, config) else names[::2]
        return PretrainedTokenizer(backend, config)


class PretrainedTokenizer:
    """A tokeniser of the `tokenizers` library, called as transformers' are; `backend` is the library's object.

    config: the fields of tokenizer_config.json. Special tokens are attributes, pad_token and pad_token_id, say, None where
    there are none; `tokenizer.pad_token = tokenizer.eos_token` sets one.
    """

    is_fast = True

    def __init__(self, backend: Any, config: Mapping[str, Any]) -> None:
        backend.no_padding()
        backend.no_truncation()
        self.backend, self.config, self._lock = backend, dict(config), threading.Lock()
        found = roles_of(backend, config)
        self.special = {role: found[role] for role in ORDER if role in found}
        self.padding_side, self.truncation_side = (config.get(f"{x}_side", "right") for x in ("padding", "truncation"))
        self.model_max_length = int(config.get("model_max_length") or UNLIMITED)
        self.model_input_names = list(config.get("model_input_names", ("input_ids", "attention_mask")))
        self.chat_template = _by_name(config.get("chat_template"))

    @classmethod
    def from_pretrained(cls, folder: Path, **changes: Any) -> PretrainedTokenizer:
        """See `AutoTokenizer.from_pretrained`."""
        return AutoTokenizer.from_pretrained(folder, **changes)

    # --------------------------------------------------------------------------------------- texts to numbers

    def __call__(
        self,
        text: str | Sequence[str] | Sequence[Sequence[str]],
        text_pair: str | Sequence[str] | Sequence[Sequence[str]] | None = None,
        *,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        stride: int = 0,
        is_split_into_words: bool = False,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_tensors: str | None = None,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool | None = None,
        return_overflowing_tokens: bool = False,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        return_length: bool = False,
    ) -> BatchEncoding:
        """One text, or many, as numbers; pairs where text_pair is given.

        padding: True or "longest", "max_length", False. truncation: True or "longest_first", "only_first", "only_second",
        False; to max_length, or model_max_length without one. return_tensors: "pt" for Weft's tensors, "np", None for
        lists. stride, return_overflowing_tokens: what is cut away goes into further rows, which overlap so much.
        """
        one = isinstance(text, str) or (is_split_into_words and bool(text) and isinstance(text[0], str))
        inputs = _inputs([text] if one else text, [text_pair] if one and text_pair is not None else text_pair)
        added = self.backend.num_special_tokens_to_add(text_pair is not None) if add_special_tokens else 0
        cut = self._truncation(truncation, padding, max_length, stride, added)
        pad = self._padding(padding, max_length, pad_to_multiple_of, padding_side)
        with self._lock:  # the library keeps both in the object
            try:
                if cut is not None:
                    self.backend.enable_truncation(**cut)
                if pad is not None:
                    self.backend.enable_padding(**pad)
                options = {"add_special_tokens": add_special_tokens, "is_pretokenized": is_split_into_words}
                encodings = self.backend.encode_batch(inputs, **options)
            except Exception as error:  # the library raises plain Exceptions
                raise OptionError(
                    f"tokenizer: expected a text or a list of texts that can be cut so, got {text!r:.60} ({error})"
                ) from None
            finally:
                self.backend.no_padding()
                self.backend.no_truncation()
        rows = [[e, *e.overflowing] if return_overflowing_tokens else [e] for e in encodings]
        found = [encoding for row in rows for encoding in row]
        asked = {
            "input_ids": ("ids", True),
            "token_type_ids": ("type_ids", self._wanted("token_type_ids", return_token_type_ids)),
            "attention_mask": ("attention_mask", self._wanted("attention_mask", return_attention_mask)),
            "special_tokens_mask": ("special_tokens_mask", return_special_tokens_mask),
            "offset_mapping": ("offsets", return_offsets_mapping),
        }
        fields = {name: [getattr(e, field) for e in found] for name, (field, wanted) in asked.items() if wanted}
        if return_length:
            fields["length"] = [len(e.ids) for e in found]
        if return_overflowing_tokens:
            fields["overflow_to_sample_mapping"] = [number for number, row in enumerate(rows) for _ in row]
        if one and return_tensors is None and not return_overflowing_tokens:
            return BatchEncoding({name: x if name == "length" else x[0] for name, x in fields.items()}, found)
        return BatchEncoding({name: as_kind(rows, return_tensors, name) for name, rows in fields.items()}, found)

    def encode(self, text: Any, text_pair: Any = None, **options: Any) -> Any:
        """The numbers of a text: input_ids of a call."""
        return self(text, text_pair, **options)["input_ids"]

    def tokenize(self, text: str, add_special_tokens: bool = False) -> list[str]:
        return self.backend.encode(text, add_special_tokens=add_special_tokens).tokens

    def pad(
        self,
        encoded: Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Any]],
        padding: bool | str = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_tensors: str | None = None,
    ) -> BatchEncoding:
        """Rows that were encoded one by one, padded: a list of results, or one with lists."""
        rows = encoded if isinstance(encoded, Mapping) else {key: [row[key] for row in encoded] for key in encoded[0]}
        rows = {name: [listed(row) for row in column] for name, column in rows.items()}
        rows.setdefault("attention_mask", [[1] * len(row) for row in rows["input_ids"]])
        options = self._padding(padding, max_length, pad_to_multiple_of, padding_side)
        if options is not None:
            length, multiple = options["length"], options["pad_to_multiple_of"] or 1
            length = max(map(len, rows["input_ids"]), default=0) if length is None else length
            length = -(-length // multiple) * multiple
            fill = {"input_ids": options["pad_id"], "special_tokens_mask": 1}
            rows = {
                name: [filled(row, length, fill.get(name, 0), options["direction"]) for row in column]
                for name, column in rows.items()
            }
        return BatchEncoding({name: as_kind(column, return_tensors, name) for name, column in rows.items()})

    def _wanted(self, name: str, asked: bool | None) -> bool:
        return name in self.model_input_names if asked is None else asked

    def _truncation(
        self, truncation: bool | str | None, padding: bool | str, max_length: int | None, stride: int, added: int
    ) -> dict[str, Any] | None:
        """What the library is told, None for no truncation."""
        if truncation is None:  # a length alone is one to cut to
            truncation = max_length is not None and not padding
        if truncation in (False, "do_not_truncate"):
            return None
        strategy = "longest_first" if truncation is True else truncation
        if strategy not in STRATEGIES:
            raise OptionError(f"tokenizer: truncation must be True, False or one of {STRATEGIES}, got {truncation!r}")
        length = self.model_max_length if max_length is None else max_length
        if length >= UNLIMITED:
            return None
        if not added <= length or not 0 <= stride < max(length - added, 1):
            raise OptionError(
                f"tokenizer: expected max_length of {added} or more, the special tokens, and a stride from 0 to less than "
                f"what they leave, got max_length={length} and stride={stride}"
            )
        return {"max_length": length, "stride": stride, "strategy": strategy, "direction": self.truncation_side}

    def _padding(
        self, padding: bool | str, max_length: int | None, multiple: int | None, side: str | None
    ) -> dict[str, Any] | None:
        """What the library is told, None for no padding."""
        if padding in (False, None, "do_not_pad"):
            return None
        if padding not in (True, "longest", "max_length"):
            raise OptionError(f"tokenizer: padding must be True, False, 'longest' or 'max_length', got {padding!r}")
        if self.pad_token is None:
            raise OptionError(
                "tokenizer: there is no token for padding; set one: tokenizer.pad_token = tokenizer.eos_token"
            )
        length = None
        if padding == "max_length":
            length = self.model_max_length if max_length is None else max_length
            length = None if length >= UNLIMITED else length
        side = self.padding_side if side is None else side
        if side not in ("left", "right"):
            raise OptionError(f"tokenizer: padding_side must be 'left' or 'right', got {side!r}")
        token = {"pad_id": self.pad_token_id, "pad_token": self.pad_token}
        return {"length": length, "direction": side, "pad_to_multiple_of": multiple, **token}

    # --------------------------------------------------------------------------------------- numbers to texts

    def decode(
        self,
        token_ids: int | Sequence[Any] | Tensor | np.ndarray,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> str | list[str]:
        """The text of numbers; of several rows, their texts."""
        ids = listed(token_ids)
        ids = [ids] if isinstance(ids, int) else ids
        if ids and isinstance(ids[0], list):
            return self.batch_decode(ids, skip_special_tokens, clean_up_tokenization_spaces)
        text = self.backend.decode(ids, skip_special_tokens=skip_special_tokens)
        clean = clean_up_tokenization_spaces
        clean = self.config.get("clean_up_tokenization_spaces", False) if clean is None else clean
        if clean and type(self.backend.model).__name__ != "BPE":  # of bytes it would change the text
            for old, new in CLEANED:
                text = text.replace(old, new)
        return text

    def batch_decode(
        self,
        sequences: Iterable[Any] | Tensor,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> list[str]:
        return [self.decode(row, skip_special_tokens, clean_up_tokenization_spaces) for row in listed(sequences)]

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> int | list[int] | None:
        if not isinstance(tokens, str):
            return [self.convert_tokens_to_ids(token) for token in tokens]
        found = self.backend.token_to_id(tokens)
        return self.unk_token_id if found is None else found

    def convert_ids_to_tokens(self, ids: int | Sequence[int] | Tensor) -> str | list[str]:
        ids = listed(ids)
        return self.backend.id_to_token(ids) if isinstance(ids, int) else [self.backend.id_to_token(i) for i in ids]

    # --------------------------------------------------------------------------------------- tokens

    def __len__(self) -> int:
        return self.backend.get_vocab_size(with_added_tokens=True)

    @property
    def vocab_size(self) -> int:
        """The number of tokens without added ones."""
        return self.backend.get_vocab_size(with_added_tokens=False)

    def get_vocab(self) -> dict[str, int]:
        return self.backend.get_vocab(with_added_tokens=True)

    @property
    def special_tokens_map(self) -> dict[str, str]:
        return {f"{role}_token": token for role, token in self.special.items()}

    @property
    def all_special_tokens(self) -> list[str]:
        return list(dict.fromkeys([*self.special.values(), *_texts(self.config.get("additional_special_tokens"))]))

    @property
    def all_special_ids(self) -> list[int]:
        return self.convert_tokens_to_ids(self.all_special_tokens)

    def add_tokens(self, tokens: str | Sequence[str], special_tokens: bool = False) -> int:
        """Append tokens, found in texts as they stand; how many were new. The model needs rows for them."""
        tokens = [tokens] if isinstance(tokens, str) else list(tokens)
        return (self.backend.add_special_tokens if special_tokens else self.backend.add_tokens)(tokens)

    def add_special_tokens(self, tokens: Mapping[str, Any]) -> int:
        """pad_token, eos_token … set, and added where they are new; how many were."""
        count = 0
        for name, token in tokens.items():
            count += self.add_tokens(token, special_tokens=True)
            if name == "additional_special_tokens":
                self.config[name] = [*_texts(self.config.get(name)), *token]
            else:
                setattr(self, name, token)
        return count

    # --------------------------------------------------------------------------------------- conversations

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, Any]] | Sequence[Sequence[Mapping[str, Any]]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, str]] | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool = False,
        tokenize: bool = True,
        return_dict: bool = True,
        return_tensors: str | None = None,
        padding: bool | str = False,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        **variables: Any,
    ) -> Any:
        """A conversation, messages with role and content, as the model was taught to read it; or several.

        tools: JSON schemas of functions that the model may call. chat_template: another one, or the name of one of the
        folder's. add_generation_prompt: end where the model is to answer. continue_final_message: end inside of the last
        message. tokenize=False: the text; else a `BatchEncoding`, or its input_ids without return_dict. variables: what
        else the template reads. Templates run in a sandbox: see `chat_templates`.
        """
        if continue_final_message and add_generation_prompt:
            raise OptionError(
                "apply_chat_template: continue_final_message and add_generation_prompt exclude each other"
            )
        if not isinstance(conversation, Sequence) or isinstance(conversation, str) or not conversation:
            raise OptionError(f"apply_chat_template: expected a list of messages, got {conversation!r:.60}")
        many = not isinstance(conversation[0], Mapping)
        given = {"tools": tools, "documents": documents, "add_generation_prompt": add_generation_prompt}
        given |= {**self.special_tokens_map, **variables}
        template = self._template(chat_template, tools)
        chats = conversation if many else [conversation]
        texts = [_rendered(template, chat, continue_final_message, given) for chat in chats]
        if not tokenize:
            return texts if many else texts[0]
        options = {"padding": padding, "truncation": truncation, "max_length": max_length}
        batch = self(texts if many else texts[0], add_special_tokens=False, return_tensors=return_tensors, **options)
        return batch if return_dict else batch["input_ids"]

    def _template(self, given: str | None, tools: Any) -> str:
        own = self.chat_template
        if isinstance(own, dict):
            name = given if given is not None else "tool_use" if tools is not None and "tool_use" in own else "default"
            if name in own:
                return own[name]
            own = None
        if given is None and own is None:
            known = f"; the folder has {', '.join(self.chat_template)}" if self.chat_template else ""
            raise OptionError(f"apply_chat_template: there is no chat template; give chat_template=…{known}")
        return own if given is None else given

    # --------------------------------------------------------------------------------------- files

    def save_pretrained(self, folder: Path) -> None:
        """Write tokenizer.json, tokenizer_config.json and chat_template.jinja, as other programs read them."""
        path = os.fspath(folder)
        os.makedirs(path, exist_ok=True)
        config = {name: value for name, value in self.config.items() if name != "chat_template"}
        config |= {**self.special_tokens_map, "padding_side": self.padding_side}
        files = {"tokenizer.json": self.backend.to_str(pretty=True)}
        if isinstance(self.chat_template, dict):
            rows = [{"name": name, "template": text} for name, text in self.chat_template.items()]
            config["chat_template"] = rows
        elif self.chat_template is not None:
            files["chat_template.jinja"] = self.chat_template
        files["tokenizer_config.json"] = json.dumps(config, indent=2, ensure_ascii=False)
        for name, text in files.items():
            with replacing(os.path.join(path, name)) as file:
                file.write(text.encode())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} tokens, special={self.special_tokens_map})"


def _special(role: str) -> tuple[property, property]:
    """The properties pad_token and pad_token_id, for the role pad."""

    def token(self: PretrainedTokenizer) -> str | None:
        return self.special.get(role)

    def set_token(self: PretrainedTokenizer, value: str | None) -> None:
        if value is None:
            self.special.pop(role, None)
        elif self.backend.token_to_id(value) is None:
            raise OptionError(f"{role}_token: {value!r} is no token; add_special_tokens adds one")
        else:
            self.special[role] = value

    def number(self: PretrainedTokenizer) -> int | None:
        return self.backend.token_to_id(self.special[role]) if role in self.special else None

    def set_number(self: PretrainedTokenizer, value: int) -> None:
        set_token(self, self.backend.id_to_token(value))

    return property(token, set_token), property(number, set_number)


for _role in ROLES:
    _token, _number = _special(_role)
    setattr(PretrainedTokenizer, f"{_role}_token", _token)
    setattr(PretrainedTokenizer, f"{_role}_token_id", _number)


# ------------------------------------------------------------------------------------------- helpers


def _inputs(texts: Any, pairs: Any) -> list[Any]:
    if not isinstance(texts, (list, tuple)):
        raise OptionError(f"tokenizer: expected a text or a list of texts, got a {type(texts).__name__}")
    if pairs is None:
        return list(texts)
    if isinstance(pairs, str) or len(pairs) != len(texts):
        raise OptionError(f"tokenizer: expected {len(texts)} second texts, got {pairs!r:.60}")
    return list(zip(texts, pairs, strict=True))


def _texts(tokens: Any) -> list[str]:
    return [token["content"] if isinstance(token, dict) else token for token in tokens or ()]


def _segments(folder: str, config: Mapping[str, Any]) -> bool:
    """Whether the model reads token_type_ids."""
    kind = (config.get("tokenizer_class") or "").lower().removesuffix("fast").removesuffix("tokenizer")
    file = os.path.join(folder, "config.json")
    if kind in ("", "pretrained", "auto", "tokenizersbackend") and os.path.isfile(file):
        found = load_json(file)
        kind = found.get("model_type", "") if isinstance(found, dict) else ""
    return kind in TWO_SEGMENTS


def _templates(folder: str) -> str | dict[str, str] | None:
    """chat_template.jinja, and the files of additional_chat_templates."""
    found = {}
    more = os.path.join(folder, "additional_chat_templates")
    places = {"default": os.path.join(folder, "chat_template.jinja")}
    names = sorted(os.listdir(more)) if os.path.isdir(more) else []
    places |= {name.removesuffix(".jinja"): os.path.join(more, name) for name in names if name.endswith(".jinja")}
    for name, place in places.items():
        if os.path.isfile(place):
            with open(place, encoding="utf-8") as file:
                found[name] = file.read()
    return found.get("default") if set(found) <= {"default"} else found


def _by_name(template: Any) -> str | dict[str, str] | None:
    """A template, or those of a list of names and templates."""
    if template is None or isinstance(template, (str, dict)):
        return template
    try:
        return {row["name"]: row["template"] for row in template}
    except (TypeError, KeyError):
        raise FileFormatError(
            "tokenizer_config.json: chat_template must be a text or a list of names and templates"
        ) from None


def _rendered(template: str, chat: Any, going_on: bool, given: Mapping[str, Any]) -> str:
    """The text of one conversation; going_on: without what comes after the last message's content."""
    messages = [{key: value for key, value in message.items() if value is not None} for message in plain(chat)]
    if not going_on:
        return render_chat(template, messages, **given)
    if not messages or not isinstance(messages[-1].get("content"), str):
        raise OptionError("continue_final_message: expected a last message with a text for its content")
    messages[-1]["content"] += END
    text = render_chat(template, messages, **given)
    place = text.rfind(END.strip())
    if place < 0:
        raise OptionError("continue_final_message: the chat template does not print the last message")
    return text[:place] if text[place:].startswith(END) else text[:place].rstrip()
