"""Data that ships with Weft, and the ways to read it.

For now the handwritten digits: `load_digits()` needs no download.
"""

from .digits import load_digits

__all__ = ["load_digits"]
