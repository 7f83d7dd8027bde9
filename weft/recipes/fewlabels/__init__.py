"""Recipes of learning with few or poor labels."""
