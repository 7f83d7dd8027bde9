"""Pointwise operations and reductions over one index space."""
