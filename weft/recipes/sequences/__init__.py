"""Recipes of time series."""
