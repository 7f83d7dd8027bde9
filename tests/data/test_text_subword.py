"""BPE and WordPiece against the `tokenizers` library itself, and the files of Hugging Face folders."""

import json
import pickle
import sys

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from weft.data.text import BPETokenizer, CharTokenizer, SubwordTokenizer, WordPieceTokenizer, load_tokenizer
from weft.errors import OptionError
from weft.io.errors import FileFormatError

CORPUS = [
    "The quick brown fox jumps over the lazy dog.",
    "Pack my box with five dozen liquor jugs!",
    "How vexingly quick daft zebras jump; the five boxing wizards jump quickly.",
    "Sphinx of black quartz, judge my vow.",
] * 5
SAMPLES = ["the quick jumping wizards", "", " ", "Größe 🧶 naïve\n\ttabs", "quick", "[MASK] <pad> jump"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def library_bpe():
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<pad>", "<bos>", "<eos>"]
    options = {"vocab_size": 350, "min_frequency": 2, "special_tokens": special, "initial_alphabet": alphabet}
    made.train_from_iterator(CORPUS, trainers.BpeTrainer(show_progress=False, **options))
    around = [(token, made.token_to_id(token)) for token in ("<bos>", "<eos>")]
    made.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>", pair="<bos> $A <eos> $B:1 <eos>:1", special_tokens=around
    )
    return made


def library_wordpiece(vocabulary=None):
    """The library's own training numbers its pieces differently each time: to be equal it must be given them."""
    made = tokenizers.Tokenizer(models.WordPiece(vocabulary or {}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    if vocabulary is None:
        trainer = trainers.WordPieceTrainer(vocab_size=150, min_frequency=2, special_tokens=BERT, show_progress=False)
        made.train_from_iterator(CORPUS, trainer)
    made.add_special_tokens(BERT)
    made.post_processor = processors.BertProcessing(("[SEP]", made.token_to_id("[SEP]")), ("[CLS]", 2))
    return made


@pytest.fixture(scope="module", params=["bpe", "wordpiece"])
def pair(request):
    if request.param == "bpe":
        return BPETokenizer.train(CORPUS, 350, ["pad", "bos", "eos"]), library_bpe()
    ours = WordPieceTokenizer.train(CORPUS, 150)
    return ours, library_wordpiece(ours.backend.get_vocab())


# ---------------------------------------------------------------------------------------- the library's results


def test_same_vocabulary(pair):
    ours, theirs = pair
    assert ours.backend.get_vocab() == theirs.get_vocab() and len(ours) == theirs.get_vocab_size()


@pytest.mark.parametrize("text", SAMPLES)
@pytest.mark.parametrize("add", [True, False])
def test_same_encodings(pair, text, add):
    ours, theirs = pair
    expected = theirs.encode(text, add_special_tokens=add)
    found = ours.encoding(text, add)
    assert (found.ids, found.tokens, found.offsets) == (expected.ids, expected.tokens, expected.offsets)
    assert found.special == list(map(bool, expected.special_tokens_mask)) and found.segments == expected.type_ids
    assert ours.encode(text, add) == expected.ids and ours.tensor(text, add).tolist() == expected.ids
    for skip in (True, False):
        assert ours.decode(found.ids, skip) == theirs.decode(expected.ids, skip_special_tokens=skip)


def test_same_pairs(pair):
    ours, theirs = pair
    found, expected = ours.encode_pair("quick fox", "lazy dog"), theirs.encode("quick fox", "lazy dog")
    assert (found.ids, found.segments, found.offsets) == (expected.ids, expected.type_ids, expected.offsets)


@pytest.mark.parametrize("length", [2, 3, 5, 100])
@pytest.mark.parametrize("add", [True, False])
def test_same_truncation(pair, length, add):
    ours, theirs = pair
    theirs.enable_truncation(length)
    try:
        expected = [e.ids for e in theirs.encode_batch(SAMPLES, add_special_tokens=add)]
    finally:
        theirs.no_truncation()
    assert ours.encode_batch(SAMPLES, add, max_length=length) == expected


def test_same_padding(pair):
    ours, theirs = pair
    theirs.enable_padding(pad_id=ours.pad_id, pad_to_multiple_of=8)
    try:
        expected = theirs.encode_batch(SAMPLES)
    finally:
        theirs.no_padding()
    batch = ours.batch(SAMPLES, multiple=8)
    assert batch.data.tolist() == [e.ids for e in expected]
    assert batch.mask.to(int).tolist() == [e.attention_mask for e in expected]
    assert ours.decode_batch(batch.data) == theirs.decode_batch([e.ids for e in expected])


def test_tokens_and_numbers(pair):
    ours, theirs = pair
    for token, number in theirs.get_vocab().items():
        assert ours.token_to_id(token) == number and ours.id_to_token(number) == token
    assert (
        ours.token_to_id("no such token") is None and ours.id_to_token(10**6) is None and ours.id_to_token(-1) is None
    )


@pytest.mark.parametrize(
    "train",
    [
        lambda: BPETokenizer.train(iter(CORPUS), 350),
        lambda: BPETokenizer.train(iter(CORPUS), 150, byte_level=False),
        lambda: WordPieceTokenizer.train(iter(CORPUS), 150),
    ],
)
def test_training_again_gives_the_same(train):
    assert len({train().backend.to_str() for _ in range(4)}) == 1


@pytest.mark.parametrize("size", [0, 18, 20, 10_000])
def test_same_pieces_as_the_library_finds(size):
    """Where no two pairs are equally frequent the numbering cannot matter: the sets of pieces are the same."""
    words = ["ab"] * 100 + ["ac"] * 10 + ["db"] * 7 + ["abx"] * 5 + ["ef"] * 20 + ["efg"] * 3
    theirs = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    theirs.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    theirs.train_from_iterator(
        words, trainers.WordPieceTrainer(vocab_size=size, special_tokens=BERT, show_progress=False)
    )
    ours = WordPieceTokenizer.train(words, size, min_frequency=0)
    assert set(ours.backend.get_vocab()) == set(theirs.get_vocab())
    assert [ours.id_to_token(number) for number in range(5)] == BERT
    assert [added.content for added in ours.backend.get_added_tokens_decoder().values()] == BERT


# ---------------------------------------------------------------------------------------- theorems


@pytest.fixture(scope="module")
def byte_level():
    return BPETokenizer.train(CORPUS, 300, special=["pad"])


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40).filter(lambda text: "<pad>" not in text))
def test_bytes_decode_exactly(byte_level, text):
    ids = byte_level.encode(text)
    assert byte_level.decode(ids) == text and len(ids) <= len(text.encode())
    found = byte_level.encoding(text)
    assert all(0 <= a <= b <= len(text) for a, b in found.offsets)


def test_the_merges_of_the_paper():
    """Sennrich et al., 2016, figure 1: low 5, lower 2, newest 6, widest 3; here the last letter carries </w>."""
    words = ["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3
    tokenizer = BPETokenizer.train([" ".join(words)], 10_000, ["unk"], min_frequency=1, byte_level=False)
    merges = [tuple(pair) for pair in json.loads(tokenizer.backend.to_str())["model"]["merges"]]
    assert merges[:2] == [("e", "s"), ("es", "t</w>")] and ("l", "o") in merges[:4]
    assert tokenizer.tokenize("lowest") == ["lo", "w", "est</w>"]
    assert tokenizer.decode(tokenizer.encode("lowest  newer")) == "lowest newer"


def test_longest_pieces_first():
    tokenizer = WordPieceTokenizer.train(CORPUS, 150)
    vocabulary = tokenizer.backend.get_vocab()
    for word in ("quick", "jumping", "wizards", "boxes", "zebra"):
        expected, start = [], 0
        while start < len(word):
            pieces = ("##" * (start > 0) + word[start:end] for end in range(len(word), start, -1))
            expected.append(next(piece for piece in pieces if piece in vocabulary))
            start += len(expected[-1].removeprefix("##"))
        assert tokenizer.tokenize(word) == expected


@pytest.mark.parametrize("byte_level", [True, False])
def test_lower_case(byte_level):
    tokenizer = BPETokenizer.train(CORPUS, 300, lower=True, byte_level=byte_level)
    assert tokenizer.encode("The FOX") == tokenizer.encode("the fox")


def test_unknown_characters():
    assert WordPieceTokenizer.train(CORPUS, 100).tokenize("語") == ["[UNK]"]
    assert BPETokenizer.train(CORPUS, 100, byte_level=False).tokenize("語") == ["<unk>"]


# ---------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("name", ["file.json", "folder"])
def test_files(tmp_path, pair, name):
    ours, _ = pair
    ours.save(tmp_path / name)
    for again in (load_tokenizer(tmp_path / name), type(ours).load(tmp_path / name), pickle.loads(pickle.dumps(ours))):
        assert type(again) is type(ours) and again.special == ours.special
        assert [again.encode(text) for text in SAMPLES] == [ours.encode(text) for text in SAMPLES]
    path = tmp_path / name if name.endswith("json") else tmp_path / name / "tokenizer.json"
    theirs = tokenizers.Tokenizer.from_file(str(path))
    assert [theirs.encode(text).ids for text in SAMPLES] == [ours.encode(text) for text in SAMPLES]


def library_models():
    unigram = tokenizers.Tokenizer(models.Unigram())
    unigram.pre_tokenizer, unigram.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=80, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False)
    unigram.train_from_iterator(CORPUS, trainer)
    level = tokenizers.Tokenizer(models.WordLevel(unk_token="<unk>"))
    level.pre_tokenizer = pre_tokenizers.Whitespace()
    level.train_from_iterator(CORPUS, trainers.WordLevelTrainer(special_tokens=["<unk>", "<s>"], show_progress=False))
    return {"Unigram": unigram, "WordLevel": level, "BPE": library_bpe(), "WordPiece": library_wordpiece()}


@pytest.mark.parametrize("model", ["Unigram", "WordLevel", "BPE", "WordPiece"])
def test_any_model_is_loaded(tmp_path, model):
    theirs = library_models()[model]
    expected = [theirs.encode(text).ids for text in SAMPLES]
    theirs.enable_padding(length=50)
    theirs.enable_truncation(3)
    theirs.save(str(tmp_path / "tokenizer.json"))
    ours = SubwordTokenizer.load(tmp_path)
    assert ours.encode_batch(SAMPLES) == expected  # what a file says about padding and length is left to `batch`
    assert type(load_tokenizer(tmp_path)).model in (None, model)
    assert "unk" in ours.special or model == "BPE"


@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
def test_roles_from_the_configuration(tmp_path, file):
    library_bpe().save(str(tmp_path / "tokenizer.json"))
    config = {"pad_token": {"content": "<pad>", "lstrip": False}, "cls_token": "<bos>", "mask_token": "not there"}
    (tmp_path / file).write_text(json.dumps({**config, "unk_token": None, "model_max_length": 512}))
    tokenizer = SubwordTokenizer.load(tmp_path)
    assert tokenizer.special == {"pad": "<pad>", "cls": "<bos>"}
    assert (tokenizer.pad_id, tokenizer.cls_id, tokenizer.mask_id, tokenizer.eos_id) == (0, 1, None, None)


def test_roles_from_the_spelling(tmp_path):
    library_wordpiece().save(str(tmp_path / "tokenizer.json"))
    tokenizer = SubwordTokenizer.load(tmp_path / "tokenizer.json")
    assert [tokenizer.special_id(role) for role in ("pad", "unk", "cls", "sep", "mask")] == [0, 1, 2, 3, 4]


def test_folder_with_vocabulary_and_merges(tmp_path):
    theirs = BPETokenizer.train(CORPUS, 300, special=()).backend
    theirs.model.save(str(tmp_path))
    assert (tmp_path / "merges.txt").is_file()
    for ours in (SubwordTokenizer.load(tmp_path), load_tokenizer(tmp_path)):
        assert [ours.encode(text) for text in SAMPLES] == [theirs.encode(text).ids for text in SAMPLES]
        assert ours.decode(ours.encode(SAMPLES[3])) == SAMPLES[3]


@pytest.mark.parametrize("lower", [True, False])
def test_folder_with_a_list_of_pieces(tmp_path, lower):
    theirs = WordPieceTokenizer.train(CORPUS, 150, lower=lower).backend
    theirs.model.save(str(tmp_path))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lower}))
    ours = WordPieceTokenizer.load(tmp_path)
    assert [ours.encode(text) for text in SAMPLES] == [theirs.encode(text).ids for text in SAMPLES]
    assert ours.mask_id == 4 and ours.encode_pair("a", "b").ids == theirs.encode("a", "b").ids


def test_training_from_files(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(CORPUS))
    ours = BPETokenizer.train_files([tmp_path / "a.txt"], vocab_size=320, special=["pad"])
    theirs = tokenizers.Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    options = {"min_frequency": 2, "special_tokens": ["<pad>"], "initial_alphabet": alphabet, "show_progress": False}
    theirs.train([str(tmp_path / "a.txt")], trainers.BpeTrainer(vocab_size=320, **options))
    assert ours.backend.get_vocab() == theirs.get_vocab()


# ---------------------------------------------------------------------------------------- faults


def test_every_cut_of_a_file_is_noticed(tmp_path):
    path = tmp_path / "tokenizer.json"
    WordPieceTokenizer.train(CORPUS, 60).save(path)
    whole = path.read_bytes()
    for kept in range(0, len(whole) - 2, 97):
        path.write_bytes(whole[:kept])
        for load in (SubwordTokenizer.load, load_tokenizer):
            with pytest.raises(FileFormatError, match=r"tokenizer\.json"):
                load(path)


@pytest.mark.parametrize("contents", ["{", "[1]", '"text"'])
def test_damaged_configuration(tmp_path, contents):
    library_bpe().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(contents)
    with pytest.raises(FileFormatError, match=r"tokenizer_config\.json"):
        SubwordTokenizer.load(tmp_path)


def test_what_is_refused(tmp_path):
    library_bpe().save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(OptionError, match="expected a WordPiece model, got BPE; use SubwordTokenizer"):
        WordPieceTokenizer.load(tmp_path)
    with pytest.raises(OptionError, match="role unk"):
        WordPieceTokenizer.train(CORPUS, special={"pad": "[PAD]"})
    with pytest.raises(OptionError, match="several texts"):
        BPETokenizer.train("one text")
    with pytest.raises(OptionError, match="only loads files"):
        SubwordTokenizer.train(CORPUS)
    with pytest.raises(OptionError, match="max_length=1 has no room for 2"):
        SubwordTokenizer.load(tmp_path).encode("a", max_length=1)
    with pytest.raises(FileNotFoundError, match=r"tokenizer.json, or vocab.json with merges.txt, or vocab.txt"):
        (tmp_path / "empty").mkdir()
        SubwordTokenizer.load(tmp_path / "empty")
    with pytest.raises(FileNotFoundError):
        SubwordTokenizer.load(tmp_path / "none.json")


def test_without_the_library(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match="pip install tokenizers"):
        BPETokenizer.train(CORPUS)
    CharTokenizer.train(CORPUS).save(tmp_path)
    assert len(load_tokenizer(tmp_path)) == len(set("".join(CORPUS)))
