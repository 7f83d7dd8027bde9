"""Graph networks: what they say of vertices, edges and whole graphs, and models that draw graphs (N2 §7)."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "convolutional": ("APPNPNet", "GAT", "GCN", "SGC"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
