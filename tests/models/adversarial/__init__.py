"""Tests of adversarial models."""
