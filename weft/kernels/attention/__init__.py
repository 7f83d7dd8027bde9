"""Attention, block by block, forward and backward."""
