"""From a traced model to an ONNX graph: captured, unified over sizes, written node by node by rules."""
