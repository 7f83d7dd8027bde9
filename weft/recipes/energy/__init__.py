"""Recipes of models given by an energy."""
