"""Codes of digits: how much they keep, which clusters they have, what single units look for."""
