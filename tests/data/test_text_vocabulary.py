"""Vocabularies: order and limits by counting, files that survive and files that do not."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.data.text import Vocabulary
from weft.errors import OptionError
from weft.io.errors import FileFormatError

WORDS = "to be or not to be that is the question to".split()


def test_order_by_count_then_alphabet():
    vocabulary = Vocabulary.from_counts(Counter(WORDS), specials=["<pad>", "<unk>"], unknown="<unk>")
    assert vocabulary.tokens == ("<pad>", "<unk>", "to", "be", "is", "not", "or", "question", "that", "the")
    assert [vocabulary[token] for token in vocabulary] == list(range(len(vocabulary))) == list(range(10))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"min_freq": 2}, ("to", "be")),
        ({"min_freq": 3}, ("to",)),
        ({"min_freq": 4}, ()),
        ({"max_size": 3}, ("to", "be", "is")),
        ({"max_size": 2, "specials": ["<s>"]}, ("<s>", "to")),
        ({"max_size": 1, "specials": ["<s>"]}, ("<s>",)),
        ({"max_size": 0}, ()),
        ({"specials": ["be", "<s>", "be"], "min_freq": 2}, ("be", "<s>", "to")),
    ],
)
def test_limits(options, expected):
    assert Vocabulary.from_counts(Counter(WORDS), **options).tokens == expected
    assert Vocabulary.from_tokens([WORDS[:4], WORDS[4:]], **options).tokens == expected


def test_unknown_tokens():
    strict, lenient = Vocabulary(["a", "b"]), Vocabulary(["a", "b"], ["<unk>"], "<unk>")
    assert lenient.encode(["b", "c", "a"]) == [2, 0, 1] and lenient["zzz"] == 0 and "c" not in lenient
    with pytest.raises(OptionError, match=r"'c' is not among the 2 tokens.*unknown='<unk>'"):
        strict.encode(["b", "c"])


@pytest.mark.parametrize("ids", [[1, 0], np.array([1, 0]), weft.tensor([1, 0]), (1, 0), np.array([1, 0], np.uint16)])
def test_decoding_takes_any_integers(ids):
    assert Vocabulary(["a", "b"]).decode(ids) == ["b", "a"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Vocabulary(["a", "b", "a"]), "distinct tokens, got 'a' more than once"),
        (lambda: Vocabulary(["a"], unknown="<unk>"), "'<unk>' is not in the vocabulary"),
        (lambda: Vocabulary.from_counts({}, ["a", "b"], max_size=1), "max_size=1 has no room for 2"),
        (lambda: Vocabulary(["a"]).decode([1]), "number in 0 … 0, got 1"),
        (lambda: Vocabulary(["a"]).decode([-1]), "got -1"),
        (lambda: Vocabulary(["a"]).encode("aa"), "expected a list of tokens, got the string 'aa'"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(OptionError, match=message):
        call()


def test_empty():
    empty = Vocabulary()
    assert len(empty) == 0 and empty.encode([]) == [] and empty.decode([]) == [] and "" not in empty


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=5), unique=True))
def test_files_keep_every_token(tmp_path_factory, tokens):
    """Also empty tokens, line ends, unpaired surrogates."""
    path = tmp_path_factory.mktemp("vocabulary") / "words.json"
    vocabulary = Vocabulary(tokens, specials=["<unk>"], unknown="<unk>")
    vocabulary.save(path)
    again = Vocabulary.load(path)
    assert again == vocabulary and again.tokens == vocabulary.tokens and again.unknown == "<unk>"
    assert again.decode(again.encode(tokens)) == tokens
    assert json.loads(path.read_bytes())["tokens"] == list(vocabulary.tokens)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "expected a JSON file of format 'weft.vocabulary'"),
        (b"\xff\xfe\x00", "expected a JSON file"),
        (b"[1, 2]", "found 'list'"),
        (b'{"tokens": ["a"]}', "found None"),
        (b'{"format": "weft.tokenizer"}', "found 'weft.tokenizer'"),
        (b'{"format": "weft.vocabulary", "tokens": ["a", 1], "specials": []}', "lists of strings"),
        (b'{"format": "weft.vocabulary", "tokens": "ab", "specials": []}', "lists of strings"),
        (b'{"format": "weft.vocabulary", "tokens": ["a", "a"], "specials": []}', "'a' more than once"),
        (b'{"format": "weft.vocabulary", "tokens": ["a", "b"], "specials": ["b"]}', "special tokens to come first"),
    ],
)
def test_damaged_files(tmp_path, contents, message):
    path = tmp_path / "words.json"
    path.write_bytes(contents)
    with pytest.raises(FileFormatError, match=message) as caught:
        Vocabulary.load(path)
    assert "words.json" in str(caught.value)


def test_every_cut_of_a_file_is_noticed(tmp_path):
    path = tmp_path / "words.json"
    Vocabulary(WORDS[:3], ["<unk>"]).save(path)
    whole = path.read_bytes()
    for kept in range(len(whole)):
        path.write_bytes(whole[:kept])
        with pytest.raises(FileFormatError):
            Vocabulary.load(path)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        Vocabulary.load(tmp_path / "none.json")
