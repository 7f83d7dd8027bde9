"""Graphs of further kinds: with several types of nodes and edges, and with edges that come at a time."""
