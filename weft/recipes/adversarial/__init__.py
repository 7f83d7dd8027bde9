"""Recipes of adversarial models."""
