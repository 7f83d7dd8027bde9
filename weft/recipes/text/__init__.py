"""Recipes that read and write text."""
