"""Recipes of variational models."""
