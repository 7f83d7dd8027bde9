"""Recipes of linear models, perceptrons and small networks."""
