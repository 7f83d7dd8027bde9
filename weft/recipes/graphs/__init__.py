"""Recipes of graphs: classes of vertices and of graphs, missing edges, codes without labels."""
