"""Recipes of autoregressive models."""
