"""ONNX files in and out: `load` makes a module of one, `export` writes a model as one.

Reading needs no other package; the `onnx` extra has the checker, the reference and ONNX Runtime that `verify=True` asks.
"""

from .exporting import export
from .load import load
from .module import OnnxModule
from .summary import summary

__all__ = ["OnnxModule", "export", "load", "summary"]
