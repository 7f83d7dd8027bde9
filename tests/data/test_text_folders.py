"""Tokenisers of older folders, beside those of transformers; models of SentencePiece, beside their definitions."""

from __future__ import annotations

import json
import struct
from functools import cache
from pathlib import Path

import pytest

from weft.data.text import SubwordTokenizer
from weft.data.text.sentencepiece import BPE, BYTE, CONTROL, NORMAL, UNIGRAM, UNKNOWN, read_sentencepiece
from weft.io.errors import FileFormatError

from ..models.hf_cases import load_transformers, needs_transformers

tokenizers = pytest.importorskip("tokenizers")

LINES = ["the quick brown fox", "Größe, naïve café!", "don't lower (the) lowest new newer wide", "a b c 1 2 3"] * 3
TEXTS = ["Hello world", "  two  spaces ", "the Größe café!", "", "a", "🧶 東京", "tab\there\nline", "don't<mask> it"]


# ------------------------------------------------------------------------------------------- SentencePiece


def integer(value: int) -> bytes:
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


def message(number: int, data: bytes) -> bytes:
    return integer(number << 3 | 2) + integer(len(data)) + data


def number(field: int, value: int) -> bytes:
    return integer(field << 3) + integer(value)


def piece(text: str, score: float, kind: int = NORMAL) -> bytes:
    score_field = integer(2 << 3 | 5) + struct.pack("<f", score)
    return message(1, message(1, text.encode()) + score_field + (number(3, kind) if kind != NORMAL else b""))


CONTROLS = piece("<unk>", 0.0, UNKNOWN) + piece("<s>", 0.0, CONTROL) + piece("</s>", 0.0, CONTROL)
SCORES = {"▁": -3.0, "a": -2.0, "b": -2.5, "ab": -3.1, "▁a": -2.2, "ba": -4.0, "▁ab": -6.0, "bab": -5.5, "aba": -4.4}


def unigram(options: bytes = b"", normal: bytes = b"") -> bytes:
    """A file with nine pieces; options and normal: fields of its two settings."""
    pieces = b"".join(piece(text, score) for text, score in SCORES.items())
    return CONTROLS + pieces + message(2, number(3, UNIGRAM) + number(40, 0) + options) + message(3, normal)


@pytest.mark.parametrize("text", ["abab", "ab ba", "babab", "aabb abab", " a  b ", "ab" * 9])
def test_unigram_finds_the_most_probable_pieces(text: str, tmp_path: Path) -> None:
    (tmp_path / "spiece.model").write_bytes(unigram())
    written = "▁" + "▁".join(text.split())

    @cache
    def best(rest: str) -> tuple[float, tuple[str, ...]]:
        """The largest sum of scores over all ways to cut a text."""
        if not rest:
            return 0.0, ()
        ways = [(p, best(rest[len(p) :])) for p in SCORES if rest.startswith(p)]
        return max((SCORES[p] + score, (p, *pieces)) for p, (score, pieces) in ways)

    assert tuple(SubwordTokenizer.load(tmp_path).tokenize(text)) == best(written)[1]


def test_bpe_merges_the_best_piece_first_and_bytes_stand_for_the_unknown(tmp_path: Path) -> None:
    ranked = ["▁l", "ow", "▁low", "er", "▁", "l", "o", "w", "e", "r"]
    pieces = b"".join(piece(text, float(-rank)) for rank, text in enumerate(ranked))
    bytes_ = b"".join(piece(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256))
    settings = message(2, number(3, BPE) + number(35, 1) + number(40, 0)) + message(3, number(4, 0))
    (tmp_path / "tokenizer.model").write_bytes(CONTROLS + bytes_ + pieces + settings)
    ours = SubwordTokenizer.load(tmp_path)
    assert ours.tokenize("lower low") == ["▁low", "er", "▁low"]
    assert ours.tokenize("wow  ü") == ["▁", "w", "ow", "▁", "▁", "<0xC3>", "<0xBC>"]
    assert ours.encode("low")[0] == 1 and ours.special["bos"] == "<s>"  # Llama's: the beginning alone
    for text in ("lower low", "wow  ü", " ", "東京 low"):
        assert ours.decode(ours.encode(text)) == text


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("T5Tokenizer", {"ids": [7, 8, 2], "size": 112, "<extra_id_0>": 111, "<extra_id_99>": 12}),
        ("XLMRobertaTokenizer", {"ids": [0, 8, 9, 2], "size": 14, "<mask>": 13, "<unk>": 3}),
        ("CamembertTokenizer", {"ids": [5, 11, 12, 6], "size": 17, "<mask>": 16, "<unk>": 3}),
        ("LlamaTokenizer", {"ids": [1, 7, 8], "size": 12}),
    ],
)
def test_models_number_the_pieces_in_their_own_way(kind: str, expected: dict, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(unigram())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
    ours = SubwordTokenizer.load(tmp_path)
    tokens = {token: id for token, id in expected.items() if token.startswith("<")}
    assert (ours.encode("aba"), len(ours)) == (expected["ids"], expected["size"])
    assert {token: ours.token_to_id(token) for token in tokens} == tokens


def test_marian_numbers_pieces_by_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "source.spm").write_bytes(unigram())
    words = ["</s>", "<unk>", "▁ja", *SCORES, "<pad>"]  # ▁ja is of the other language
    (tmp_path / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    ours = SubwordTokenizer.load(tmp_path)
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "spiece.model").write_bytes(unigram())
    for text in ("abab ba", "ab", "aabb"):
        tokens = SubwordTokenizer.load(plain).tokenize(text)
        assert ours.encode(text) == [*(words.index(token) for token in tokens), 0]
    assert ours.decode([2, 7, 0, 12]) == "ja a" and (ours.pad_id, ours.eos_id, ours.unk_id) == (12, 0, 1)
    (tmp_path / "vocab.json").write_text('{"<unk>": 1, "a": 3}')
    with pytest.raises(FileFormatError, match="without gaps"):
        SubwordTokenizer.load(tmp_path)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "0 pieces"),
        (unigram()[:-3], "cut short"),
        (b"GGUF\x03\x00\x00\x00", "kind"),
        (b"\xff" * 40, "no integer"),
        (b"\x0a", "index out of range"),
        (message(2, number(3, UNIGRAM)), "0 pieces"),
        (CONTROLS + message(2, number(40, 7)), "number 7"),
    ],
)
def test_files_that_are_no_model(data: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "spiece.model").write_bytes(data)
    with pytest.raises(FileFormatError, match=told):
        read_sentencepiece(tmp_path / "spiece.model")


def test_word_and_character_models_are_refused(tmp_path: Path) -> None:
    (tmp_path / "spiece.model").write_bytes(CONTROLS + piece("a", 0.0) + message(2, number(3, 4)))
    with pytest.raises(ValueError, match="model type 4"):
        SubwordTokenizer.load(tmp_path)


# ------------------------------------------------------------------------------------------- beside transformers


def byte_files(folder: Path, special: list[str]) -> None:
    library = tokenizers.ByteLevelBPETokenizer()
    library.train_from_iterator(LINES, vocab_size=300, special_tokens=special, show_progress=False)
    library.save_model(str(folder))
    (folder / "added_tokens.json").write_text(json.dumps({"<new>": library.get_vocab_size()}))


def word_file(folder: Path, special: list[str]) -> None:
    letters = sorted(set("".join(LINES)) - {" "})
    words = [*special, *letters, *(f"##{letter}" for letter in letters), "the", "two", "caf"]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")


ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
FOLDERS = {
    "roberta": ("RobertaTokenizer", byte_files, ROBERTA, {}),
    "bart": ("BartTokenizer", byte_files, ROBERTA, {"add_prefix_space": True}),
    "gpt2": ("GPT2Tokenizer", byte_files, ["<|endoftext|>"], {}),
    "bert": ("BertTokenizer", word_file, BERT, {}),
    "bert-cased": ("BertTokenizer", word_file, BERT, {"do_lower_case": False}),
    "electra": ("ElectraTokenizer", word_file, BERT, {"strip_accents": False}),
    "mpnet": ("MPNetTokenizer", word_file, ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"], {}),
}


@needs_transformers
@pytest.mark.parametrize("name", FOLDERS)
def test_older_folders_are_read_as_transformers_reads_them(name: str, tmp_path: Path) -> None:
    kind, write, special, settings = FOLDERS[name]
    write(tmp_path, special)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind, **settings}))
    theirs, ours = getattr(load_transformers(), kind).from_pretrained(tmp_path), SubwordTokenizer.load(tmp_path)
    for text in [*TEXTS, special[0], "the <new>", "[MASK] it"]:
        assert ours.encode(text) == theirs(text)["input_ids"], text
    pair, found = theirs("a b", "c the", return_token_type_ids=True), ours.encode_pair("a b", "c the")
    assert (found.ids, found.segments) == (pair["input_ids"], pair["token_type_ids"])
    assert len(ours) == len(theirs)
    for role, token in ours.special.items():
        assert getattr(theirs, f"{role}_token") == token


def test_the_family_is_known_by_config_json(tmp_path: Path) -> None:
    byte_files(tmp_path, [*ROBERTA[:4]])
    for fields, around in (({"model_type": "roberta"}, True), ({"model_type": "gpt2"}, False), ({}, False)):
        (tmp_path / "config.json").write_text(json.dumps(fields))
        tokens = SubwordTokenizer.load(tmp_path).encoding("the").tokens
        assert (tokens[0] == "<s>", tokens[-1] == "</s>") == (around, around)
    (tmp_path / "tokenizer_config.json").write_text('{"add_bos_token": true, "bos_token": "</s>"}')  # as OPT
    assert SubwordTokenizer.load(tmp_path).encoding("the").tokens[0] == "</s>"


def test_added_tokens_have_the_numbers_that_the_file_says(tmp_path: Path) -> None:
    byte_files(tmp_path, ["<|endoftext|>"])
    size = json.loads((tmp_path / "added_tokens.json").read_text())["<new>"]
    ours = SubwordTokenizer.load(tmp_path)
    assert ours.encode("the<new>")[-1] == size
    decoder = {str(size): {"content": "<new>"}, str(size + 1): {"content": "<end>", "special": True}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": decoder}))
    ours = SubwordTokenizer.load(tmp_path)
    assert ours.decode(ours.encode("the<new><end>")) == "the<new>"
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<new>": size + 5}))
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(FileFormatError, match=f"'<new>' should have number {size + 5}, but gets {size}"):
        SubwordTokenizer.load(tmp_path)
