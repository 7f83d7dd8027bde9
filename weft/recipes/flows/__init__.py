"""Recipes of flows."""
