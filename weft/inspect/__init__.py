"""Looking into models: what they are made of and what they cost."""

from .summary import Row, Summary, summary

__all__ = ["Row", "Summary", "summary"]
