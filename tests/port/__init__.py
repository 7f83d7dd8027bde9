"""Ordinary PyTorch programs; each runs unchanged under PyTorch and under Weft."""
