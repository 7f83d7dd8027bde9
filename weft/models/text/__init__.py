"""Words and texts: vectors, Markov models, translation, sentence encoders, and how texts are written."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "cache": ("compiled_steps", "fixed_capacity"),
    "decoding": ("beam_search", "generate", "greedy_search", "recomputing", "sample"),
    "generation": ("GenerationConfig",),
    "markov": ("MarkovModel",),
    "sentences": ("SentenceEncoder",),
    "streaming": ("StopStrings", "TextIteratorStreamer", "TextStreamer"),
    "translation": ("TranslationTransformer",),
    "word2vec": ("Word2Vec", "cbow_windows", "skipgram_pairs", "subsample"),
    "word_vectors": ("WordVectors",),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
