"""Layers of the lecture notes that PyTorch lacks."""
