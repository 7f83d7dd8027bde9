"""Recipes of scores and diffusions."""
