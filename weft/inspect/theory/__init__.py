"""Theorems about networks, measured: regions, bounds, symmetries, depth, convexity, constructions."""
