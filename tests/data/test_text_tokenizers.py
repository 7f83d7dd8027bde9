"""Character and word tokenisers: scikit-learn's analyser, round trips, places in the text, files."""

import doctest
import importlib
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

import weft
from weft.data.text import CharTokenizer, Vocabulary, WordTokenizer, load_tokenizer
from weft.errors import OptionError
from weft.io.errors import FileFormatError

TEXT = "First Citizen:\nBefore we proceed any further, hear me speak. Don't you?"
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
LATIN = st.text("abcdefgzABCZ.,!?'’()[]<>- \n\t0189_äß", max_size=60)


@pytest.mark.parametrize(
    "name", ["", *(".vocabulary .tokenizers .subword .files .padding .bucketing .packing .windows .corruption".split())]
)
def test_examples_run(name):
    tried = doctest.testmod(importlib.import_module(f"weft.data.text{name}"))
    assert tried.failed == 0 and tried.attempted > 0


# ---------------------------------------------------------------------------------------- characters


def test_characters_in_the_order_of_their_code_points():
    tokenizer = CharTokenizer.train(["hello", "world 🧶é"])
    assert tokenizer.vocabulary.tokens == tuple(sorted(set("helloworld 🧶é"))) and len(tokenizer) == 10
    assert tokenizer.encode("low 🧶") == ["".join(tokenizer.vocabulary).index(c) for c in "low 🧶"]


@settings(max_examples=60, deadline=None)
@given(ANY_TEXT)
def test_characters_round_trip(text):
    tokenizer = CharTokenizer.train([text], special=["pad", "unk", "bos", "eos"])
    ids = tokenizer.encode(text)
    assert ids[0] == tokenizer.bos_id and ids[-1] == tokenizer.eos_id and len(ids) == len(text) + 2
    assert tokenizer.decode(ids) == text == tokenizer.decode(tokenizer.encode(text, add_special_tokens=False))
    assert tokenizer.decode(ids, skip_special_tokens=False) == f"<bos>{text}<eos>"


def test_special_tokens_never_come_from_characters():
    tokenizer = CharTokenizer.train(["<pad>"], special=["pad"])
    assert tokenizer.pad_id == 0 and 0 not in tokenizer.encode("<pad>")


def test_rare_characters_are_unknown():
    tokenizer = CharTokenizer.train(["aab"], special=["unk"], min_freq=2)
    assert tokenizer.vocabulary.tokens == ("<unk>", "a") and tokenizer.encode("bab") == [0, 1, 0]


def test_one_token_may_have_two_roles():
    tokenizer = CharTokenizer.train(["emma", "olivia"], special={"bos": ".", "eos": "."})
    assert tokenizer.encode("emma") == [0, *tokenizer.encode("emma", add_special_tokens=False), 0]
    assert tokenizer.vocabulary.tokens[0] == "." and len(tokenizer) == 1 + len(set("emmaolivia"))


# ---------------------------------------------------------------------------------------- words


@settings(max_examples=60, deadline=None)
@given(LATIN, st.booleans())
def test_words_as_scikit_learn_finds_them(text, lower):
    ours = WordTokenizer.train([], lower=lower, punctuation=False, pattern=r"\w+")
    theirs = CountVectorizer(token_pattern=r"(?u)\w+", lowercase=lower).build_analyzer()
    assert ours.tokenize(text) == theirs(text)


def test_vocabulary_as_scikit_learn_counts_it():
    texts = [TEXT, "We proceed, we speak, we hear."]
    counts = CountVectorizer(token_pattern=r"(?u)\w+(?:'\w+)*").fit(texts)
    tokenizer = WordTokenizer.train(texts, punctuation=False, special=())
    assert set(tokenizer.vocabulary) == set(counts.vocabulary_)
    assert tokenizer.vocabulary.tokens[0] == "we"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["don't", "stop", ",", "x2", "!", "!"]),
        ({"lower": False}, ["Don't", "stop", ",", "x2", "!", "!"]),
        ({"punctuation": False}, ["don't", "stop", "x2"]),
        ({"pattern": r"\S+", "lower": False}, ["Don't", "stop,", "x2!!"]),
        ({"pattern": r"x*"}, ["x"]),
    ],
)
def test_how_words_are_cut(options, expected):
    assert WordTokenizer.train([], **options).tokenize("Don't stop, x2!!") == expected


@settings(max_examples=80, deadline=None)
@given(LATIN, st.booleans(), st.booleans())
def test_decoded_words_are_the_same_words(text, lower, punctuation):
    tokenizer = WordTokenizer.train([text], lower=lower, punctuation=punctuation)
    ids = tokenizer.encode(text)
    assert tokenizer.encode(tokenizer.decode(ids)) == ids and tokenizer.unk_id not in ids


@settings(max_examples=60, deadline=None)
@given(ANY_TEXT)
def test_offsets_point_at_the_words(text):
    found = WordTokenizer.train([], lower=True).encoding(text)
    assert [text[a:b].lower() for a, b in found.offsets] == found.tokens
    covered = {place for a, b in found.offsets for place in range(a, b)}
    assert all(text[place].isspace() for place in range(len(text)) if place not in covered)


def test_offsets_and_flags_with_special_tokens():
    tokenizer = WordTokenizer.train(["to be"], special=["unk", "bos", "eos"])
    found = tokenizer.encoding("TO sleep")
    assert found.tokens == ["<bos>", "to", "sleep", "<eos>"] and found.ids == [1, 4, 0, 2]
    assert found.offsets == [(0, 0), (0, 2), (3, 8), (0, 0)] and found.special == [True, False, False, True]
    assert found.segments == [0] * 4 and len(found) == 4


def test_limits_of_the_vocabulary():
    tokenizer = WordTokenizer.train(["a a a b b c"], max_size=4, special=["pad", "unk"])
    assert tokenizer.vocabulary.tokens == ("<pad>", "<unk>", "a", "b")
    assert tokenizer.encode("a b c") == [2, 3, 1] and tokenizer.decode([2, 3, 1, 0]) == "a b"


# ---------------------------------------------------------------------------------------- batches


def test_batches_are_padded_and_cut():
    tokenizer = CharTokenizer.train(["abc"], special=["pad", "bos", "eos"])
    batch = tokenizer.batch(["abc", "", "a"], max_length=4, multiple=4)
    assert batch.data.tolist() == [[1, 3, 4, 2], [1, 2, 0, 0], [1, 3, 2, 0]] and batch.lengths.tolist() == [4, 2, 3]
    assert batch.mask.tolist() == (batch.data != 0).tolist()
    assert tokenizer.decode_batch(batch.data) == ["ab", "", "a"] and batch.data.dtype is weft.int64


def test_tensor_of_nothing():
    x = CharTokenizer.train(["abc"]).tensor("")
    assert x.shape == (0,) and x.dtype is weft.int64


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CharTokenizer.train("abc"), "expected several texts, got the string 'abc'; put it into a list"),
        (lambda: CharTokenizer.train(["a"]).encode("b"), "'b' is not among the 1 tokens"),
        (lambda: CharTokenizer.train(["a"]).batch(["a"]), r"no token for padding; train with special=\['pad'\]"),
        (lambda: CharTokenizer.train(["a"], special=["start"]), "roles among pad, unk.*got 'start'"),
        (lambda: CharTokenizer.train(["a"], special="pad"), "got the string 'pad'"),
        (lambda: CharTokenizer(Vocabulary("a"), ["pad"]), "'<pad>' is not in the vocabulary"),
        (lambda: WordTokenizer.train([], pattern="("), "is no regular expression"),
        (lambda: CharTokenizer.train("ab", special=["bos", "eos"]), "several texts"),
        (lambda: CharTokenizer.train(["a"], special=["bos"]).encode("a", max_length=0), "no room for 1 special"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(OptionError, match=message):
        call()


# ---------------------------------------------------------------------------------------- files

TRAINED = [
    CharTokenizer.train([TEXT], special={"pad": "[P]", "bos": ".", "eos": "."}),
    CharTokenizer.train([]),
    WordTokenizer.train([TEXT], special=["unk"], lower=False, punctuation=False),
    WordTokenizer.train([TEXT], pattern=r"[a-z]+"),
]


@pytest.mark.parametrize("tokenizer", TRAINED, ids=repr)
@pytest.mark.parametrize("name", ["words.json", "folder"])
def test_files(tmp_path, tokenizer, name):
    tokenizer.save(tmp_path / name)
    again = load_tokenizer(tmp_path / name)
    text = TEXT if len(tokenizer) else ""
    assert type(again) is type(tokenizer) and again.special == tokenizer.special
    assert again.vocabulary == tokenizer.vocabulary and again.encode(text) == tokenizer.encode(text)
    assert pickle.loads(pickle.dumps(tokenizer)).encode(text) == tokenizer.encode(text)


def test_training_from_files_is_training_from_lines(tmp_path):
    (tmp_path / "a.txt").write_bytes("Öl\r\nto be\n".encode())
    (tmp_path / "b.txt").write_bytes(b"or not")
    tokenizer = CharTokenizer.train_files([tmp_path / "a.txt", tmp_path / "b.txt"])
    assert set(tokenizer.vocabulary) == set("Öl\r\nto be\nor not")
    assert set(CharTokenizer.train_files(tmp_path / "b.txt").vocabulary) == set("or not")


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("", "expected the JSON file of a tokeniser"),
        ("[]", "found a list"),
        ('{"format": "weft.tokenizer", "kind": "syllable"}', "kind char or word, found 'syllable'"),
        ('{"format": "weft.tokenizer", "kind": "char"}', "lists of strings"),
        ('{"format": "weft.tokenizer", "kind": "char", "tokens": [], "specials": [], "x": 1}', "unexpected keyword"),
        (
            '{"format": "weft.tokenizer", "kind": "char", "tokens": [], "specials": [], "special": {"pad": "p"}}',
            "'p' is not in the vocabulary",
        ),
    ],
)
def test_damaged_files(tmp_path, contents, message):
    path = tmp_path / "tokenizer.json"
    path.write_text(contents)
    for place in (path, tmp_path):
        with pytest.raises(FileFormatError, match=message) as caught:
            load_tokenizer(place)
        assert "tokenizer.json" in str(caught.value)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_tokenizer(tmp_path / "none.json")
