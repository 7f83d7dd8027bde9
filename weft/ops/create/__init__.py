"""Tensors made, drawn, converted, and exchanged with other libraries."""
