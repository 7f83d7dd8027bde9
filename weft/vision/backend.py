"""Who reads pictures: Pillow, whatever a script asks for."""

from __future__ import annotations

from ..errors import OptionError

__all__ = ["get_image_backend", "set_image_backend"]


def get_image_backend() -> str:
    """ "PIL" """
    return "PIL"


def set_image_backend(backend: str) -> None:
    """Pillow is the only one."""
    if backend != "PIL":
        raise OptionError(f"set_image_backend: expected 'PIL', the only one here, got {backend!r}")
