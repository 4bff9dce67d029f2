"""Frameworks that the table's models are measured in, each in a process and an environment of its own.

`process` starts one and is its engine; `serve` is what the process does, which needs of Legato the runtime alone; the
others build a model in one framework each. `graph` writes the model as plain data for those without an importer of ONNX
files.
"""
