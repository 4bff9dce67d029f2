"""Benchmarks that can be believed: same threads, alternating blocks, agreement checked, ratios only outside the noise.

    result = bench("resnet50.onnx", vs=["onnxruntime"], threads=2)
    print(result.ratios["onnxruntime"])                                 1.02× (1.01 to 1.04)

`run` puts it together: `engines` adapts those that can be compared, `measure` runs them in turn, `statistics` says what
the times mean, `startup` times compiling and loading in fresh processes, `fork_join` the start of a parallel kernel,
`modes` sorts rounds by how near the cores were to each other, and `table` has many models side by side.
"""

from __future__ import annotations

from legato.bench.run import Agreement, Result, bench

__all__ = ["Agreement", "Result", "bench"]
