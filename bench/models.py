"""One training step of whole models: Weft, compiled, against PyTorch, in turns.

A step is forward, backward and SGD with momentum on one batch. Prints medians and the ratio Weft / PyTorch (below 1:
Weft is faster). A model is a row of MODELS: a function of the library (`weft` or `torch`) that gives the model and the
function that computes its loss. torchvision and transformers supply PyTorch's.

    python bench/models.py [--rounds 15] [--threads 2] [--json FILE]
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

from turns import run

Trained = tuple[Any, Callable[[], Any]]  # a model and its loss on one batch


def programs(library: Any) -> dict[str, Callable[[], Any]]:
    """A training step of every model."""
    return {name: program(library, *make(library)) for name, make in MODELS.items()}


def program(library: Any, model: Any, loss: Callable[[], Any]) -> Callable[[], None]:
    optimizer = library.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return library.compile(step) if library.__name__ == "weft" else step


# ------------------------------------------------------------------------------------------- vision


def vision(library: Any) -> Any:
    """The module with the vision models of a library."""
    return importlib.import_module("weft.models.supervised") if library.__name__ == "weft" else torchvision_models()


def torchvision_models() -> Any:
    """torchvision.models, also from a build whose compiled operations do not load: no model here uses one."""
    try:
        return importlib.import_module("torchvision.models")
    except RuntimeError:
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        for part in ("_meta_registrations", "_autograd_registrations"):
            sys.modules[f"torchvision.{part}"] = types.ModuleType(f"torchvision.{part}")
        return importlib.import_module("torchvision.models")


def classifying(library: Any, model: Any, *shape: int) -> Trained:
    """The model with its loss on one batch of images of this shape, in ten classes."""
    x, y = library.randn(*shape), library.randint(0, 10, shape[:1])
    return model, lambda: library.nn.functional.cross_entropy(model(x), y)


def resnet20(library: Any) -> Trained:
    """He's ResNet-20 with projections, of ResNet-18's blocks in both libraries."""
    nn, block = library.nn, vision(library).resnet.BasicBlock
    parts = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    before = 16
    for width in (16, 32, 64):
        stride = 1 if width == 16 else 2
        join = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        parts += [block(before, width, stride, None if width == before else join)]
        parts += [block(width, width), block(width, width)]
        before = width
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return classifying(library, model, 32, 3, 32, 32)


def vgg11(library: Any) -> Trained:
    """The convolutions of VGG-11 and one linear layer."""
    nn, plan = library.nn, [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"]
    features = vision(library).vgg.make_layers(plan)
    model = nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    return classifying(library, model, 16, 3, 32, 32)


def resnet18(library: Any) -> Trained:
    return classifying(library, vision(library).resnet18(num_classes=10), 8, 3, 64, 64)


def densenet(library: Any) -> Trained:
    model = vision(library).DenseNet(12, (6, 6, 6), 24, num_classes=10)
    return classifying(library, model, 16, 3, 64, 64)


def mobilenet_v2(library: Any) -> Trained:
    return classifying(library, vision(library).mobilenet_v2(num_classes=10), 16, 3, 64, 64)


def convnext(library: Any) -> Trained:
    """Two blocks a stage, 40 channels at first ("atto" is as wide and three times as deep)."""
    setting = vision(library).convnext.CNBlockConfig
    widths = (40, 80, 160, 320)
    stages = [setting(a, b, 2) for a, b in zip(widths, (*widths[1:], None), strict=True)]
    return classifying(library, vision(library).ConvNeXt(stages, num_classes=10), 16, 3, 64, 64)


def vit(library: Any) -> Trained:
    """Six blocks as wide as ViT-tiny's on 64 patches."""
    sizes = {"image_size": 32, "patch_size": 4, "num_layers": 6, "num_heads": 3, "hidden_dim": 192, "mlp_dim": 768}
    return classifying(library, vision(library).VisionTransformer(**sizes, num_classes=10), 32, 3, 32, 32)


# --------------------------------------------------------------------------------------------- text

VOCABULARY = 1000


def text(library: Any) -> Any:
    """The module with the language models of a library: transformers' for PyTorch."""
    if library.__name__ == "weft":
        return importlib.import_module("weft.models.supervised")
    sys.modules.setdefault(
        "torchvision", None
    )  # transformers needs none of it, and must not meet one that does not load
    return importlib.import_module("transformers")


def writing(library: Any, kind: str, config: str, rows: int, length: int, **sizes: Any) -> Trained:
    """A language model with its loss on one batch of tokens; an encoder–decoder reads and writes the same ones."""
    made = text(library)
    model = getattr(made, kind)(getattr(made, config)(vocab_size=VOCABULARY, **sizes))
    model.train()
    tokens, labels = (library.randint(0, VOCABULARY, (rows, length)) for _ in range(2))
    given = {"decoder_input_ids": tokens} if kind.startswith("T5") else {}

    def loss() -> Any:
        out = model(input_ids=tokens, **given)
        logits = getattr(out, "logits", out)  # (B, T, V)
        return library.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), labels.reshape(-1))

    return model, loss


def bert(library: Any) -> Trained:
    sizes = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return writing(library, "BertForMaskedLM", "BertConfig", 16, 64, **sizes, **dropout)


def gpt2(library: Any) -> Trained:
    sizes = {"n_embd": 128, "n_layer": 4, "n_head": 4, "n_positions": 64}
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return writing(library, "GPT2LMHeadModel", "GPT2Config", 16, 64, **sizes, **dropout)


def llama(library: Any) -> Trained:
    sizes = {"hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 4, "num_attention_heads": 4}
    return writing(library, "LlamaForCausalLM", "LlamaConfig", 16, 64, **sizes, num_key_value_heads=2)


def t5(library: Any) -> Trained:
    sizes = {"d_model": 128, "d_kv": 32, "d_ff": 512, "num_layers": 3, "num_heads": 4, "dropout_rate": 0.0}
    return writing(library, "T5ForConditionalGeneration", "T5Config", 16, 64, **sizes)


def lstm_tagger(library: Any) -> Trained:
    """Two bidirectional LSTM layers over embeddings, a label for every token."""
    nn, (tokens, labels) = library.nn, (library.randint(0, n, (32, 40)) for n in (VOCABULARY, 12))
    embedding, output = nn.Embedding(VOCABULARY, 64), nn.Linear(256, 12)
    layers = nn.LSTM(64, 128, num_layers=2, bidirectional=True, batch_first=True)
    model = nn.ModuleList([embedding, layers, output])

    def loss() -> Any:
        return nn.functional.cross_entropy(output(layers(embedding(tokens))[0]).flatten(0, 1), labels.flatten())

    return model, loss


def translation(library: Any) -> Trained:
    """Three layers of encoder and decoder, as multi30k-transformer's."""
    nn, size = library.nn, 128
    source, target = (library.randn(16, 24, size) for _ in range(2))
    model = nn.Transformer(size, 4, 3, 3, 512, dropout=0.0, batch_first=True, norm_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(24)
    return model, lambda: model(source, target, tgt_mask=mask).square().mean()


MODELS: dict[str, Callable[[Any], Trained]] = {
    "resnet20, 32 × 32²": resnet20,
    "resnet18, 8 × 64²": resnet18,
    "vgg11, 16 × 32²": vgg11,
    "densenet (18 layers), 16 × 64²": densenet,
    "mobilenet_v2, 16 × 64²": mobilenet_v2,
    "convnext (8 blocks), 16 × 64²": convnext,
    "vit (6 blocks), 32 × 32²": vit,
    "bert (4 layers), 16 × 64 tokens": bert,
    "gpt2 (4 layers), 16 × 64 tokens": gpt2,
    "llama (4 layers), 16 × 64 tokens": llama,
    "t5 (3 + 3 layers), 16 × 64 tokens": t5,
    "lstm tagger (2 × 2 layers), 32 × 40 tokens": lstm_tagger,
    "transformer (3 + 3 layers), 16 × 24 places": translation,
}


if __name__ == "__main__":
    run("training step", __doc__, programs, rounds=15, seconds=0.01)
