"""TorchScript: traced and scripted modules as Legato modules.

    mod = import_script(torch.jit.trace(net, x), [("x", (1, 3, 224, 224))])

`importer` has the entry; `walk` goes over the graph; `boxes` and `views` are tensors that programs change in place,
`numbers` what is computed during import, `bodies` branches and loops, `composites` operators without a converter.
"""
