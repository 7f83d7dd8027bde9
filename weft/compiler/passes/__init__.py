"""Graphs made simpler: each file holds passes that take a graph and leave an equal one."""
