"""The graph: values and nodes, views as offsets and strides, loop bodies, the NumPy reference, the checks of its form."""
