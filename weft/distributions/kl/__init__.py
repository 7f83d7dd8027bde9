"""Kullback and Leibler's divergence KL(p‖q) = E_p[log p(x) − log q(x)], by a table of closed forms."""

from . import cross_family, infinite, normal_families, same_family  # noqa: F401  they fill the table
from .registry import kl_divergence, register_kl

__all__ = ["kl_divergence", "register_kl"]
