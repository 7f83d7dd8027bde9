"""Tests of the functions and layers of networks."""
