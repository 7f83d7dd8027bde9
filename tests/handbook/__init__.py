"""Tests of the handbook: its pages run as they are printed."""
