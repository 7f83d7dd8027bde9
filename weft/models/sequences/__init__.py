"""Recurrent and convolutional networks over sequences and time series."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "anomalies": ("AnomalyDetector",),
    "deepar": ("DeepAR", "GaussianLikelihood", "NegativeBinomialLikelihood", "StudentTLikelihood"),
    "intermediate": ("IntermediateClassifier", "intermediate_loss"),
    "recurrent_models": (
        *("RecurrentEncoder", "RecurrentForecaster", "RecurrentLanguageModel", "SequenceClassifier", "SequenceTagger"),
    ),
    "seq2seq": ("BahdanauDecoder", "LuongDecoder", "PlainDecoder", "Seq2Seq", "teacher_forcing_share"),
    "tcn": ("TCN",),
    "wavenet": ("WaveNet", "mu_law_decode", "mu_law_encode"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
