"""The converters of ONNX operators, one file per family; `legato.frontend.onnx.signature` says how they are found."""
