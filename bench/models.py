"""One training step of whole models: Weft, compiled, against PyTorch, in turns.

A step is forward, backward and SGD with momentum on one batch. Prints medians and the ratio Weft / PyTorch (below 1:
Weft is faster). A model is a row of MODELS: its number of parameters, which both sides must have, and a function of the
library (`weft` or `torch`) that gives the model and the function that computes its loss. torchvision and transformers
supply PyTorch's, and plain programs in `models_peers` and `models_peers_images` what they do not have.

    python bench/models.py [--rounds 15] [--threads 2] [--only lstm] [--json FILE]
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import models_sequences as sequences
import models_text as text
import models_vision as vision
from models_vision import Trained
from turns import run


def programs(library: Any, compiled: bool = True) -> dict[str, Callable[[], Any]]:
    """A training step of every model, which is made when it is first called; Weft's is a plan if `compiled`."""
    return {name: program(library, name, compiled) for name in MODELS}


def program(library: Any, name: str, compiled: bool) -> Callable[[], None]:
    made = functools.cache(lambda: training_step(library, *checked(library, name), compiled))
    return lambda: made()()


def checked(library: Any, name: str) -> Trained:
    """The model and its loss; an error if it does not have the parameters that both sides must have."""
    expected, make = MODELS[name]
    model, loss = make(library)
    found = sum(parameter.numel() for parameter in model.parameters())
    if found != expected:
        raise ValueError(f"{name}: expected {expected:,} parameters, {library.__name__}'s model has {found:,}")
    return model, loss


def training_step(library: Any, model: Any, loss: Callable[[], Any], compiled: bool) -> Callable[[], None]:
    optimizer = library.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return library.compile(step) if compiled and library.__name__ == "weft" else step


MODELS: dict[str, tuple[int, Callable[[Any], Trained]]] = {
    "mlp (3 layers), 128 × 784": (669_706, vision.mlp),
    "lenet-5, 128 × 28²": (61_706, vision.lenet),
    "resnet20, 32 × 32²": (272_474, vision.resnet20),
    "pre-activation resnet20, 16 × 32²": (272_282, vision.preresnet20),
    "wide resnet 10-2, 16 × 32²": (303_706, vision.wide_resnet),
    "alexnet (convolutions), 32 × 64²": (2_472_266, vision.alexnet),
    "vgg11, 16 × 32²": (9_225_610, vision.vgg11),
    "googlenet, 4 × 64²": (5_610_154, vision.googlenet),
    "resnet18, 8 × 64²": (11_181_642, vision.resnet18),
    "resnet (4 bottlenecks), 4 × 64²": (8_036_426, vision.bottlenecks),
    "resnext (4 bottlenecks), 4 × 64²": (7_383_370, vision.resnext),
    "densenet (18 layers), 16 × 64²": (179_050, vision.densenet),
    "mobilenet_v1 (half width), 16 × 64²": (823_722, vision.mobilenet_v1),
    "mobilenet_v2, 16 × 64²": (2_236_682, vision.mobilenet_v2),
    "convnext (8 blocks), 16 × 64²": (2_521_410, vision.convnext),
    "vit (6 blocks), 32 × 32²": (2_693_578, vision.vit),
    "vit of transformers (4 blocks), 16 × 32²": (809_354, text.vit_hf),
    "bert (4 layers), 16 × 64 tokens": (1_004_904, text.bert),
    "roberta (4 layers), 16 × 64 tokens": (947_688, text.roberta),
    "distilbert (4 layers), 16 × 64 tokens": (1_004_648, text.distilbert),
    "gpt2 (4 layers), 16 × 64 tokens": (929_536, text.gpt2),
    "llama (4 layers), 16 × 64 tokens": (994_432, text.llama),
    "qwen3 (4 layers), 16 × 64 tokens": (994_688, text.qwen3),
    "t5 (3 + 3 layers), 16 × 64 tokens": (1_506_688, text.t5),
    "transformer (3 + 3 layers), 16 × 24 tokens": (1_646_056, sequences.translation),
    "gru classifier, 64 × 28 rows": (61_962, sequences.gru_classifier),
    "lstm tagger (2 × 2 layers), 32 × 40 tokens": (661_004, sequences.lstm_tagger),
    "lstm word model (2 layers), 16 × 35 tokens": (522_192, sequences.word_model),
    "gru character model, 32 × 64 tokens": (241_505, sequences.character_model),
    "lstm forecaster, 64 × 48 steps": (21_040, sequences.forecaster),
    "deepar gaussian, 64 × 60 steps": (7_602, sequences.deepar),
    "deepar student-t, 64 × 60 steps": (7_643, sequences.deepar_student),
    "deepar negative binomial, 64 × 60 steps": (7_602, sequences.deepar_counts),
    "tcn (4 blocks), 32 × 128 steps": (22_692, sequences.tcn),
    "wavenet (8 layers), 4 × 512 samples": (87_616, sequences.wavenet),
    "seq2seq, 32 × 20 + 20 tokens": (513_384, sequences.seq2seq),
    "seq2seq (bahdanau), 32 × 20 + 20 tokens": (980_968, sequences.bahdanau),
    "seq2seq (luong), 32 × 20 + 20 tokens": (595_304, sequences.luong),
    "captioner, 16 × 64², 12 words": (550_920, sequences.captioner),
    "sequence to image, 32 × 10 tokens, 28²": (256_769, sequences.sequence_to_image),
    "word2vec skip-gram, 512 pairs": (1_000_000, sequences.word2vec),
    "word2vec cbow, 512 × 8 words": (1_000_000, sequences.cbow),
    "word2vec skip-gram (tree), 512 pairs": (999_900, sequences.skipgram_tree),
}


if __name__ == "__main__":
    run("training step", __doc__, programs, rounds=15, seconds=0.01)
