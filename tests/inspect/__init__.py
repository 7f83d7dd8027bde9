"""Tests of what models look like from inside."""
