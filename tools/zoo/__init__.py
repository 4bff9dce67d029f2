"""The zoo: architectures of torchvision, timm and transformers as they are defined there, with seeded random weights.

`table.toml` lists them; `table` reads it, `build` makes the module and the inputs of a row, `export` its ONNX file.
`python -m tools.zoo` compiles and compares them all, and times them beside ONNX Runtime and OpenVINO.

    from tools.zoo.build import built
    from tools.zoo.table import TABLE

    module, inputs = built(TABLE["bert"])          # torch.nn.Module, {"input_ids": int64[1, 64], …}
    outputs = module(*inputs.values())             # a tuple of tensors
"""
