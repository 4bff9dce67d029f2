"""Frameworks that the table's models are measured in, each in a process and an environment of its own.

`process` starts one and is its engine; `serve` is what the process does; the others build a model in one framework
each. They import neither Legato's compiler nor ONNX: `graph` writes the model as plain data for them.
"""
