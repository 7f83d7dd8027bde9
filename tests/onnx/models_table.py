"""Small models of every supervised family, and networks of generative ones, with their arguments, and which axes of these are dynamic.

What is not here has no function from tensors to tensors: docs/porting.md says which models, and why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import weft
from tests.models import hf_cases, test_vision_training
from weft import nn
from weft.models import adversarial, autoencoders, diffusion, flows, variational
from weft.models import supervised as models

SMALL = {"num_hidden_layers": 1, "n_layers": 1, "n_layer": 1, "num_layers": 1, "attention_types": None}


class Entry(NamedTuple):
    make: Callable[[], Any]
    inputs: Callable[[int, int], dict[str, np.ndarray]]  # of a batch size and a length
    axes: dict[str, dict[int, str]]


def _images(shape: tuple[int, ...]) -> Callable[[int, int], dict[str, np.ndarray]]:
    return lambda b, t: {"x": _floats(b, *shape)}


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _tokens(b: int, t: int, high: int = 11) -> np.ndarray:
    return np.random.default_rng(1).integers(3, high, (b, t))


BATCH, BOTH = {0: "batch"}, {0: "batch", 1: "length"}


def rows(make: Callable[[], Any], width: int, name: str = "x") -> Entry:
    return Entry(make, lambda b, t: {name: _floats(b, width)}, {name: BATCH})


def series(make: Callable[[], Any], width: int, name: str = "x") -> Entry:
    return Entry(make, lambda b, t: {name: _floats(b, t, width)}, {name: BOTH})


def words(make: Callable[[], Any], name: str = "tokens") -> Entry:
    return Entry(make, lambda b, t: {name: _tokens(b, t)}, {name: BOTH})


class Means(nn.Module):
    """The mean of the distribution that a model returns: graphs hand out tensors."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, z: weft.Tensor) -> weft.Tensor:
        found = self.model(z)
        return (found[0] if isinstance(found, tuple) else found).mean


CLASSICAL = {
    "linear regression": rows(lambda: models.LinearRegression(4, 2), 4),
    "logistic regression": rows(lambda: models.LogisticRegression(4), 4),
    "softmax regression": rows(lambda: models.SoftmaxRegression(4, 3), 4),
    "polynomial regression": rows(lambda: models.PolynomialRegression(3, 2), 2),
    "perceptron": rows(lambda: models.Perceptron(4, 3), 4),
    "coded perceptron": rows(lambda: models.CodedPerceptron(4, 3), 4),
    "mlp": rows(lambda: models.MLP(4, [8, 8], 3, norm="batch", dropout=0.1), 4),
    "mlp gelu": rows(lambda: models.MLP(4, [8], 3, activation="gelu", norm="layer"), 4),
    "rectifier network": rows(lambda: models.rectifier_network(4, [8], 3), 4, "input"),
}

VISION = {
    f"{name} (vision)": Entry(make, _images(shape[1:]), {"x": BATCH})
    for name, (make, shape) in test_vision_training.TINY.items()
}

SEQUENCES = {
    "recurrent encoder": series(lambda: models.RecurrentEncoder(3, 5, bidirectional=True), 3),
    "sequence classifier": series(lambda: models.SequenceClassifier(3, 5, 4, cell="gru"), 3),
    "sequence classifier mean": series(lambda: models.SequenceClassifier(3, 5, 4, pooling="mean", cell="rnn"), 3),
    "sequence tagger": series(lambda: models.SequenceTagger(3, 5, 4, num_layers=2), 3),
    "forecaster": series(lambda: models.RecurrentForecaster(3, 5, 2), 3, "past"),
    "language model": words(lambda: models.RecurrentLanguageModel(11, 5, 6)),
    "tied language model": words(lambda: models.RecurrentLanguageModel(11, 6, 6, tie_weights=True, cell="gru")),
    "intermediate classifier": series(lambda: models.IntermediateClassifier(3, 5, 4), 3),
    "anomaly detector": series(lambda: models.AnomalyDetector(3, 5, warm_up=2), 3),
    "tcn": Entry(lambda: models.TCN(3, [4, 4], 2), lambda b, t: {"x": _floats(b, t, 3)}, {"x": BOTH}),
    "wavenet": words(lambda: models.WaveNet(11, 4, 6, layers=2, blocks=2)),
    "seq2seq": Entry(
        lambda: models.Seq2Seq(11, 11, 5, 6),
        lambda b, t: {"source": _tokens(b, t), "target": _tokens(b, t + 2)},
        {"source": BOTH, "target": {0: "batch", 1: "target"}},
    ),
    "seq2seq luong": Entry(
        lambda: models.Seq2Seq(11, 11, 5, 6, attention="luong", cell="lstm"),
        lambda b, t: {"source": _tokens(b, t), "target": _tokens(b, t + 2)},
        {"source": BOTH, "target": {0: "batch", 1: "target"}},
    ),
    "deepar": Entry(lambda: Means(models.DeepAR(0, 5)), lambda b, t: {"z": np.abs(_floats(b, t))}, {"z": BOTH}),
    "captioner": Entry(
        lambda: models.Captioner(models.small_encoder(1, [4, 6]), 6, 11, 5, 6),
        lambda b, t: {"images": _floats(b, 1, 8, 8), "words": _tokens(b, t)},
        {"images": BATCH, "words": BOTH},
    ),
    "sequence to image": words(lambda: models.SequenceToImage(11, 1, (4, 4), side=2, embedding_dim=4, hidden_size=5)),
    "translation": Entry(
        lambda: models.TranslationTransformer(
            11, 11, d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16
        ),
        lambda b, t: {"source": _tokens(b, t), "target": _tokens(b, t + 2)},
        {"source": BOTH, "target": {0: "batch", 1: "target"}},
    ),
}


def _hugging_face(case: hf_cases.Case) -> Entry:
    def make() -> nn.Module:
        cls = getattr(models, case.name)
        fields = {**case.config, **{key: value for key, value in SMALL.items() if key in case.config}}
        return cls(cls.config_class.from_dict(fields))

    example, _ = hf_cases.inputs(case.inputs)

    def inputs(b: int, t: int) -> dict[str, np.ndarray]:
        made = {}
        for name, array in example.items():
            shape = list(array.shape)
            shape[0] = b
            if name in _LINES:
                shape[1] = t if not name.startswith("decoder") else t + 1
            made[name] = np.resize(array, shape)
            if name == "input_ids" and case.inputs in ("ends", "texts and images"):
                made[name] = np.where(made[name] == (2 if case.inputs == "ends" else 39), 5, made[name])
                made[name][:, -1] = 2 if case.inputs == "ends" else 39
        return made

    axes = {
        name: {0: "batch", 1: "target" if name.startswith("decoder") else "length"} if name in _LINES else BATCH
        for name in example
    }
    return Entry(make, inputs, axes)


def timed(make: Callable[[], Any], *shape: int) -> Entry:
    """A network of a diffusion: what is noisy, and when."""
    inputs = lambda b, t: {"x": _floats(b, *shape), "t": np.arange(1, b + 1) * 50}
    return Entry(make, inputs, {"x": BATCH, "t": BATCH})


def images(make: Callable[[], Any], *shape: int, name: str = "x") -> Entry:
    return Entry(make, lambda b, t: {name: _floats(b, *shape)}, {name: BATCH})


GENERATIVE = {
    "deep autoencoder": images(lambda: autoencoders.DeepAutoencoder(6, [8], 3), 6),
    "linear autoencoder": images(lambda: autoencoders.LinearAutoencoder(6, 3), 6),
    "tied autoencoder": images(lambda: autoencoders.TiedAutoencoder(6, [5, 3]), 6),
    "convolutional autoencoder": images(lambda: autoencoders.ConvolutionalAutoencoder((1, 8, 8), [4, 4], 3), 1, 8, 8),
    "recurrent autoencoder": images(lambda: autoencoders.RecurrentAutoencoder(3, 4, 2, 5), 5, 3),
    "vae encoder": images(lambda: variational.DenseVAE(6, [8], 3).encoder, 6),
    "vae decoder": images(lambda: variational.DenseVAE(6, [8], 3).decoder, 3),
    "vq-vae encoder": images(lambda: variational.ConvolutionalVQVAE((1, 8, 8), 8, 4, 4).encoder, 1, 8, 8, name="input"),
    "dcgan generator": images(lambda: adversarial.DCGenerator(4, 1, 8, 4), 4, name="z"),
    "dcgan discriminator": images(lambda: adversarial.DCDiscriminator(1, 8, 4), 1, 8, 8),
    "masked network": images(lambda: flows.MaskedNetwork(4, 2, (8,)), 4),
    "planar map": images(lambda: flows.Planar(4), 4),
    "coupling": images(lambda: flows.RowCoupling(4, (8,)), 4),
    "maf": images(lambda: flows.MAF(4, (8,)), 4),
    "unet": timed(lambda: diffusion.UNet(2, 8, (1, 2), attention=(1,), out_channels=4), 2, 8, 8),
    "dit": timed(lambda: diffusion.DiT(2, 8, patch=4, features=16, layers=2, heads=2), 2, 8, 8),
    "point network": timed(lambda: diffusion.PointNetwork(3, 8, 2), 3),
}
_LINES = {"input_ids", "attention_mask", "token_type_ids", "decoder_input_ids", "decoder_attention_mask"}
TRANSFORMERS = {name: _hugging_face(case) for name, case in hf_cases.CASES.items() if hasattr(models, case.name)}
TABLE: dict[str, Entry] = {**CLASSICAL, **VISION, **SEQUENCES, **TRANSFORMERS, **GENERATIVE}


def tensors(arrays: dict[str, np.ndarray]) -> dict[str, weft.Tensor]:
    return {name: weft.from_numpy(array) for name, array in arrays.items()}
