"""`AutoTokenizer` beside transformers': calls, padding, truncation, decoding, special tokens, chat templates."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.data.text import BPETokenizer, WordPieceTokenizer
from weft.errors import OptionError, ShapeError
from weft.models import AutoTokenizer, TemplateError, render_chat

from .hf_cases import load_transformers, needs_transformers

pytest.importorskip("tokenizers")

LINES = ["the quick brown fox jumps", "don't lower (the) lowest, new newer wide!", "a b c 1 2 3 . , ?"] * 5
TEXTS = ["the quick fox", "newer, wider?", "", "a b c a b c a b c a b c the lowest"]
CHAT = (
    "{{ bos_token }}{% for message in messages %}{% if loop.index0 % 2 != (message['role'] != 'user') | int %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{{ '<|' + message['role'] + '|>\n' + message['content'] | trim ~ '<eos>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
MESSAGES = [
    {"role": "user", "content": " the quick fox "},
    {"role": "assistant", "content": "newer <wide>", "tool_calls": None},
    {"role": "user", "content": "Größe & co?"},
]


@cache
def trained(kind: str) -> Any:
    if kind == "wordpiece":
        return WordPieceTokenizer.train(LINES, vocab_size=120)
    return BPETokenizer.train(LINES, vocab_size=320, special={"pad": "<pad>", "bos": "<s>", "eos": "<eos>"})


def folder(path: Path, kind: str = "bpe", **config: Any) -> Path:
    trained(kind).save(path)
    file = path / "tokenizer_config.json"
    given = {"tokenizer_class": "BertTokenizer" if kind == "wordpiece" else "PreTrainedTokenizerFast", **config}
    file.write_text(json.dumps({**json.loads(file.read_text()), **given}))
    return path


def both(path: Path, kind: str, **config: Any) -> tuple[Any, Any]:
    place = folder(path, kind, **config)
    return AutoTokenizer.from_pretrained(place), load_transformers().AutoTokenizer.from_pretrained(place)


CALLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "without special tokens": {"add_special_tokens": False},
    "padded": {"padding": True},
    "padded to a length": {"padding": "max_length", "max_length": 24},
    "padded to a multiple": {"padding": "longest", "pad_to_multiple_of": 8},
    "padded on the left": {"padding": True, "padding_side": "left"},
    "cut": {"truncation": True, "max_length": 6},
    "cut to the model's length": {"truncation": True},
    "a length alone": {"max_length": 5},
    "a length without cutting": {"max_length": 5, "truncation": False},
    "cut and padded": {"truncation": "longest_first", "padding": "max_length", "max_length": 7},
    "all of it": {
        "return_special_tokens_mask": True,
        "return_offsets_mapping": True,
        "return_length": True,
        "return_token_type_ids": True,
    },
    "no mask": {"return_attention_mask": False},
    "overlapping rows": {"truncation": True, "max_length": 6, "stride": 2, "return_overflowing_tokens": True},
}


@needs_transformers
@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_calls_return_what_transformers_returns(kind: str, tmp_path: Path) -> None:
    ours, theirs = both(tmp_path, kind, model_max_length=9)
    for name, options in CALLS.items():
        if name != "overlapping rows":
            assert dict(ours(TEXTS[0], **options)) == dict(theirs(TEXTS[0], **options)), name
        assert dict(ours(TEXTS, **options)) == dict(theirs(TEXTS, **options)), name
        if "stride" not in options:  # three tokens of a pair are special, which leaves no room
            found, expected = (x(TEXTS[:2], [TEXTS[3]] * 2, **options) for x in (ours, theirs))
            assert dict(found) == dict(expected), name
    for strategy in ("only_first", "only_second"):
        given = {"truncation": strategy, "max_length": len(ours(TEXTS[3], TEXTS[3]).input_ids) - 4}
        assert dict(ours(TEXTS[3], TEXTS[3], **given)) == dict(theirs(TEXTS[3], TEXTS[3], **given))
    words = {"is_split_into_words": True}
    found, expected = (x([["the", "quick"], ["newer"]], **words) for x in (ours, theirs))
    assert dict(found) == dict(expected) and found.word_ids(0) == expected.word_ids(0)
    assert ours(["the quick"], ["newer"]).sequence_ids(0) == theirs(["the quick"], ["newer"]).sequence_ids(0)
    assert ours.encode(TEXTS[1]) == theirs.encode(TEXTS[1]) and ours.tokenize(TEXTS[1]) == theirs.tokenize(TEXTS[1])


@needs_transformers
@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_texts_come_back_as_there(kind: str, tmp_path: Path) -> None:
    ours, theirs = both(tmp_path, kind, clean_up_tokenization_spaces=True)
    batch = ours(TEXTS, padding=True)["input_ids"]
    for hidden in (False, True):
        assert ours.batch_decode(batch, hidden) == theirs.batch_decode(batch, skip_special_tokens=hidden)
        assert ours.decode(weft.tensor(batch[1]), hidden) == theirs.decode(batch[1], skip_special_tokens=hidden)
        assert ours.decode(np.array(batch), hidden) == theirs.decode(batch, skip_special_tokens=hidden)
        loose = {"skip_special_tokens": hidden, "clean_up_tokenization_spaces": False}
        assert ours.decode(batch[1], **loose) == theirs.decode(batch[1], **loose)
    assert ours.decode(5) == theirs.decode(5)
    names = [f"{role}_token" for role in ("pad", "unk", "bos", "eos", "sep", "cls", "mask")]
    for name in (*names, *(f"{name}_id" for name in names), "all_special_tokens", "all_special_ids", "vocab_size"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert len(ours) == len(theirs) and ours.get_vocab() == theirs.get_vocab()
    assert ours.special_tokens_map == theirs.special_tokens_map
    assert ours.convert_tokens_to_ids(["the", "?", "nowhere"]) == theirs.convert_tokens_to_ids(["the", "?", "nowhere"])
    assert ours.convert_ids_to_tokens(batch[0]) == theirs.convert_ids_to_tokens(batch[0])
    rows = [{"input_ids": ours(text)["input_ids"]} for text in TEXTS]
    for options in ({}, {"padding": "max_length", "max_length": 30}, {"pad_to_multiple_of": 16}):
        assert dict(ours.pad(rows, **options)) == dict(theirs.pad(rows, **options))


def test_tensors_go_into_models(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder(tmp_path, padding_side="left"))
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt").to("cpu")
    assert batch.input_ids is batch["input_ids"] and batch.input_ids.dtype is weft.int64
    config = weft.models.supervised.GPT2Config(vocab_size=len(tokenizer), n_positions=64, n_embd=8, n_layer=1, n_head=2)
    model = weft.models.supervised.GPT2LMHeadModel(config).eval()
    assert model(**batch, labels=batch.input_ids).loss.ndim == 0
    written = model.generate(**batch, max_new_tokens=3, pad_token_id=tokenizer.pad_token_id)
    assert len(tokenizer.batch_decode(written, skip_special_tokens=True)) == 4
    assert tokenizer("the", return_tensors="np").input_ids.shape[0] == 1
    assert list(tokenizer([])) == ["input_ids", "attention_mask"]


def test_a_folder_goes_out_and_in(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder(tmp_path / "a", chat_template=CHAT), padding_side="left")
    tokenizer.pad_token = tokenizer.eos_token
    assert tokenizer.add_special_tokens({"sep_token": "<sep>", "additional_special_tokens": ["<x>"]}) == 2
    assert tokenizer.add_tokens("weaving") == 1
    tokenizer.save_pretrained(tmp_path / "b")
    again = AutoTokenizer.from_pretrained(tmp_path / "b")
    assert (again.pad_token, again.sep_token, again.padding_side) == ("<eos>", "<sep>", "left")
    assert again.chat_template == CHAT and "<x>" in again.all_special_tokens
    assert again("a weaving<x>").input_ids == tokenizer("a weaving<x>").input_ids
    assert (tmp_path / "b" / "chat_template.jinja").is_file()


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "padding": ({"padding": "short"}, OptionError, "padding must be"),
    "truncation": ({"truncation": "short"}, OptionError, "truncation must be"),
    "side": ({"padding": True, "padding_side": "top"}, OptionError, "padding_side"),
    "ragged": ({"return_tensors": "pt"}, ShapeError, r"padding=True makes them equal"),
    "tensors": ({"return_tensors": "tf"}, OptionError, "return_tensors"),
    "pairs": ({"text_pair": ["one"]}, OptionError, "expected 4 second texts"),
    "length": ({"truncation": True, "max_length": -1}, OptionError, "or more, the special tokens"),
    "stride": ({"truncation": True, "max_length": 4, "stride": 9}, OptionError, "stride=9"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_are_named(name: str, tmp_path: Path) -> None:
    options, error, words = WRONG[name]
    with pytest.raises(error, match=words):
        AutoTokenizer.from_pretrained(folder(tmp_path))(TEXTS, **options)


def test_wrong_folders_and_texts_are_named(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder(tmp_path / "a"))
    for text in (3, [3], {"a": 1}, [None]):
        with pytest.raises(OptionError, match="a text or a list of texts"):
            tokenizer(text)
    with pytest.raises(OptionError, match="too short to respect"):
        tokenizer(TEXTS[0], TEXTS[3], truncation="only_first", max_length=4)
    assert len(tokenizer(TEXTS[3]).input_ids) > 4  # nothing of a failed call stays in the object
    with pytest.raises(FileNotFoundError, match="Weft downloads none"):
        AutoTokenizer.from_pretrained(tmp_path / "nowhere")
    with pytest.raises(OptionError, match="add_special_tokens"):
        tokenizer.pad_token = "<nothing>"
    tokenizer.pad_token = None
    with pytest.raises(OptionError, match=r"tokenizer\.pad_token = tokenizer\.eos_token"):
        tokenizer(TEXTS, padding=True)
    with pytest.raises(OptionError, match="there is no chat template"):
        tokenizer.apply_chat_template(MESSAGES)


# ------------------------------------------------------------------------------------------- conversations

TEMPLATES = {
    "plain": CHAT,
    "tools": "{% for t in tools %}{{ t | tojson(indent=1) }};{% endfor %}{{ documents }}{{ extra }}",
    "namespace": (
        "{%- set ns = namespace(system='', n=0) -%}\n{%- for m in messages %}\n  {%- if m.content is string %}"
        "{% set ns.n = ns.n + m.content|length %}{% endif %}\n{%- endfor %}\n{{- ns.n }} {{ messages[1:] | map(attribute='role')"
        " | join(', ') }} {{ messages[-1]['content'].split()[0].upper() }} {{ 'x' in messages[0].content }}"
    ),
    "macro": (
        "{% macro say(m) %}<{{ m.role }}>{{ caller() if caller else m.content }}{% endmacro %}"
        "{% for m in messages if m.role == 'user' %}{{ say(m) }}{% if not loop.last %}|{% endif %}{% endfor %}"
    ),
    "loops": "{% for m in messages %}{% if loop.index == 2 %}{% continue %}{% endif %}{{ loop.length }}{{ m.role }}{% break %}{% endfor %}",
    "generation": "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}\n{% endfor %}",
    "literals": "{{ [1, 'a', none] }}{{ {'a': (1, 2)} }}{{ '%s-%03d' % ('b', 7) }}{{ 7 // 2 }}{{ 2 ** 5 }}{{ messages | length > 2 }}",
}


@needs_transformers
@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_print_what_transformers_prints(name: str, tmp_path: Path) -> None:
    ours, theirs = both(tmp_path, "bpe", chat_template=TEMPLATES[name])
    tool = {"type": "function", "function": {"name": "look <up>", "parameters": {"ß": ["a", 1, 2.5, None, True]}}}
    given = {"tools": [tool], "documents": [{"title": "t", "text": "x"}], "extra": {"a": 1}, "tokenize": False}
    for options in ({}, {"add_generation_prompt": True}):
        found, expected = (x.apply_chat_template(MESSAGES, **given, **options) for x in (ours, theirs))
        assert found == expected
    chats = [MESSAGES, MESSAGES[:1]]
    if name != "namespace":
        batches = [x.apply_chat_template(chats, **given) for x in (ours, theirs)]
        assert batches[0] == batches[1]
    if name == "plain":
        for options in ({"return_dict": False}, {"truncation": True, "max_length": 9}):
            found, expected = (x.apply_chat_template(MESSAGES, **options) for x in (ours, theirs))
            assert found == expected if isinstance(found, list) else dict(found) == dict(expected)
        going = {"continue_final_message": True, "tokenize": False}
        assert ours.apply_chat_template(MESSAGES[:2], **going) == theirs.apply_chat_template(MESSAGES[:2], **going)
        padded = ours.apply_chat_template(chats, padding=True, return_tensors="pt")
        assert padded.input_ids.shape == padded.attention_mask.shape and len(padded.input_ids) == 2


def test_one_of_several_templates_is_chosen(tmp_path: Path) -> None:
    rows = [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]
    tokenizer = AutoTokenizer.from_pretrained(folder(tmp_path, chat_template=rows))
    write = lambda **options: tokenizer.apply_chat_template(MESSAGES, tokenize=False, **options)
    assert (write(), write(tools=[{}]), write(chat_template="tool_use"), write(chat_template="O")) == (
        "D",
        "T",
        "T",
        "O",
    )
    assert AutoTokenizer.from_pretrained(folder(tmp_path / "b")).chat_template is None
    (tmp_path / "b" / "chat_template.jinja").write_text("J")
    assert AutoTokenizer.from_pretrained(tmp_path / "b").chat_template == "J"
    (tmp_path / "b" / "additional_chat_templates").mkdir()
    (tmp_path / "b" / "additional_chat_templates" / "rag.jinja").write_text("R")
    assert AutoTokenizer.from_pretrained(tmp_path / "b").chat_template == {"default": "J", "rag": "R"}


def test_wrong_conversations_are_named(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder(tmp_path, chat_template=CHAT))
    with pytest.raises(TemplateError, match="roles must alternate"):
        tokenizer.apply_chat_template(MESSAGES[1:])
    for wrong in ([], "hello", None):
        with pytest.raises(OptionError, match="a list of messages"):
            tokenizer.apply_chat_template(wrong)
    with pytest.raises(OptionError, match="exclude each other"):
        tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, continue_final_message=True)
    with pytest.raises(OptionError, match="got a function"):
        tokenizer.apply_chat_template([{"role": "user", "content": test_wrong_conversations_are_named}])
    with pytest.raises(OptionError, match="does not print the last message"):
        tokenizer.apply_chat_template(MESSAGES, chat_template="nothing", continue_final_message=True)


HOSTILE = {
    "a huge range": "{% for i in range(10**9) %}{% endfor %}",
    "a large range": "{% for i in range(999999) %}{% endfor %}",
    "nested ranges": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "a long text": "{{ 'x' * 10**10 }}",
    "a long list": "{{ [1] * 10**10 }}",
    "a power": "{{ 9 ** (9 ** 9) }}",
    "doubled text": "{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
    "doubled list": "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "doubled nesting": "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}",
    "doubled namespaces": (
        "{% set n = namespace(x=1) %}{% for i in range(60) %}{% set m = namespace() %}{% set m.a = n.x %}"
        "{% set m.b = n.x %}{% set n.x = m %}{% endfor %}{{ n.x }}"
    ),
    "squares": "{% set n = namespace(x=10) %}{% for i in range(40) %}{% set n.x = n.x * n.x %}{% endfor %}{{ n.x }}",
    "endless macro": "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
    "branching macro": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "endless loop": "{% for x in [1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
    "%-width": "{{ '%1000000000d' % 1 }}",
    "%-star": "{{ '%*d' % (10**9, 1) }}",
    "format width": "{{ '{:1000000000}'.format(1) }}",
    "format argument": "{{ '{:{w}}'.format(1, w=10**9) }}",
    "format filter": "{{ '%1000000000d' | format(1) }}",
    "padding": "{{ 'x'.ljust(10**9) }}",
    "centre": "{{ 'x' | center(10**9) }}",
    "indent": "{{ 'a\n' | indent(10**9) }}",
    "batch": "{{ [1] | batch(10**9, 'x') | list }}",
    "replace": "{% set a = 'a' * 100000 %}{{ a.replace('a', a) }}",
    "replace filter": "{% set a = 'a' * 100000 %}{{ a | replace('a', a) }}",
    "join": "{% set a = 'a' * 100000 %}{{ a.join(range(9999) | map('string') | list) }}",
    "join filter": "{% set a = 'a' * 100000 %}{{ range(99999) | list | join(a) }}",
    "plain text": "{% set x %}{% for i in range(99999) %}" + "y" * 10000 + "{% endfor %}{% endset %}",
    "searching": "{% set a = 'a' * 1000000 %}{% for i in range(99999) %}{{ 'b' in a }}{% endfor %}",
    "sorting": "{% for i in range(99999) %}{{ range(9999) | sort | length }}{% endfor %}",
    "filler": "{{ lipsum(n=10**6) }}",
    "class": "{{ ''.__class__.__mro__ }}",
    "subclasses": "{{ [].__class__.__base__.__subclasses__() }}",
    "globals": "{{ raise_exception.__globals__['os'] }}",
    "a change": "{{ messages.append(1) }}",
    "include": "{% include '/etc/passwd' %}",
    "import": "{% import 'os' as os %}{{ os }}",
    "undefined": "{{ a.b.c }}",
    "syntax": "{% for %}",
    "parentheses": "{{ " + "(" * 50000 + "1" + ")" * 50000 + " }}",
    "size": "x" * 1_000_001,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_templates_are_refused_at_once(name: str) -> None:
    import time

    start = time.process_time()
    with pytest.raises(TemplateError, match="chat template: "):
        render_chat(HOSTILE[name], MESSAGES)
    assert time.process_time() - start < 3


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.models.pretrained import chat_templates

    chat_templates._environment_class.cache_clear()
    chat_templates._compiled.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"chat templates need jinja2: .*install"):
        render_chat("{{ 1 }}", MESSAGES)


def test_long_conversations_are_no_attack() -> None:
    chat = [{"role": ("user", "assistant")[i % 2], "content": "word " * 100} for i in range(2001)]
    assert len(render_chat(CHAT, chat, bos_token="<s>")) > 1_000_000
