"""Functions of numbers as vector code, and the tables they read."""
