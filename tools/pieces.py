"""How long Ctrl-C may have to wait: the longest piece of a kernel, of operators over inputs of 16 MB, on one thread.

    python -m tools.pieces [NAME…]

A call is interrupted between kernels, and between the pieces of one that may be cut. Prints, for each program below,
its longest piece (the shortest of three runs), and which kernel that was; those above 0.2 s are marked.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import legato
from legato.base.errors import LegatoError
from legato.runtime.fill import fill
from legato.runtime.recorder import Recorder

SLOW: Final = 0.2  # seconds
M: Final = "Tensor[(2048, 2048), float32]"  # 16 MB
IMAGE: Final = "Tensor[(1, 64, 256, 256), float32]"  # 16 MB
FILTER: Final = "Tensor[(64, 64, 3, 3), float32]"
UNKNOWN: Final = "Tensor[(n, m), float32]"  # 16 MB when it runs
BATCH: Final = "Tensor[(16, 512, 512), float32]"
LONG: Final = "Tensor[(4194304), float32]"
VOLUME: Final = "Tensor[(1, 16, 64, 64, 64), float32]"
STATE: Final = "Tensor[(1, 512), float32]"

PROGRAMS: Final = {
    "exp": f"(%x: {M}) {{ exp(%x) }}",
    "exp of (n, m)": f"(%x: {UNKNOWN}) {{ exp(%x) }}",
    "dense": f"(%x: {M}, %w: {M}) {{ nn.dense(%x, %w) }}",
    "dense of (n, m)": f"(%x: {UNKNOWN}, %w: {UNKNOWN}) {{ nn.dense(%x, %w) }}",
    "batch_matmul": f"(%x: {BATCH}, %w: {BATCH}) {{ nn.batch_matmul(%x, %w) }}",
    "conv2d": f"(%x: {IMAGE}, %w: {FILTER}) {{ nn.conv2d(%x, %w, padding=[1, 1], channels=64) }}",
    "conv2d_transpose": f"(%x: {IMAGE}, %w: {FILTER}) {{ nn.conv2d_transpose(%x, %w, channels=64) }}",
    "max_pool2d": f"(%x: {IMAGE}) {{ nn.max_pool2d(%x, pool_size=[3, 3]) }}",
    "softmax": f"(%x: {M}) {{ nn.softmax(%x) }}",
    "sum of all": f"(%x: {M}) {{ sum(%x) }}",
    "sum of (n, m)": f"(%x: {UNKNOWN}) {{ sum(%x) }}",
    "sum of columns": f"(%x: {M}) {{ sum(%x, axis=[0]) }}",
    "argmax": f"(%x: {M}) {{ argmax(%x, axis=[1]) }}",
    "cumsum": f"(%x: {M}) {{ cumsum(%x, axis=1) }}",
    "cumsum of all": f"(%x: {M}) {{ cumsum(%x) }}",
    "sort of rows": f"(%x: {M}) {{ sort(%x) }}",
    "sort of all": f"(%x: {LONG}) {{ sort(%x) }}",
    "argsort of all": f"(%x: {LONG}) {{ argsort(%x) }}",
    "topk of all": f"(%x: {LONG}) {{ topk(%x, k=1000).0 }}",
    "transpose": f"(%x: {M}) {{ transpose(%x) }}",
    "take": f"(%x: {M}, %i: Tensor[(2048), int32]) {{ take(%x, %i, axis=0) }}",
    "scatter_elements": f"(%x: {M}, %i: Tensor[(2048, 2048), int64]) {{ scatter_elements(%x, %i, %x, axis=0) }}",
    "resize2d": f"(%x: {IMAGE}) {{ image.resize2d(%x, size=[512, 512]) }}",
    "layer_norm": f"(%x: {M}, %g: Tensor[(2048), float32]) {{ nn.layer_norm(%x, %g, %g) }}",
    "lrn": f"(%x: {IMAGE}) {{ nn.lrn(%x) }}",
    "conv3d": f"(%x: {VOLUME}, %w: Tensor[(16, 16, 3, 3, 3), float32]) {{ nn.conv3d(%x, %w) }}",
    "avg_pool2d of 31 × 31": f"(%x: {IMAGE}) {{ nn.avg_pool2d(%x, pool_size=[31, 31]) }}",
    "gather": f"(%x: {M}, %i: Tensor[(2048, 2048), int64]) {{ gather(%x, %i, axis=0) }}",
    "scatter_nd": f"(%x: {M}, %i: Tensor[(2, 4194304), int64], %u: {LONG}) {{ scatter_nd(%x, %i, %u) }}",
    "power": f"(%x: {M}) {{ power(%x, %x) }}",
    "lstm_scan": f"(%x: Tensor[(2048, 1, 2048), float32], %r: Tensor[(2048, 512), float32], %h: {STATE}, %c: {STATE})"
    " { nn.lstm_scan(%x, %r, %h, %c).0 }",
}  # fmt: skip


def longest(text: str) -> tuple[float, str]:
    """Seconds of the longest piece of the program @main with this text, and the kernel's name."""
    exe = legato.compile(legato.parse(f'#[version = "0.0.5"]\ndef @main{text}'), threads=1)
    info = exe.program.functions[exe.function]
    inputs = fill(info, dims={dim.name: 2048 for dim in info.dims})
    found = []
    recorder = Recorder(exe)
    for run in recorder.runs(inputs, 0.0, 3, 3):
        shares = [(share.end - share.start, launch.kernel) for launch in run.launches for share in launch.shares]
        found.append(max(shares))
    time, kernel = min(found)
    return time / 1e9, recorder.kernels[kernel].name if kernel >= 0 else "an operator run by its reference"


def main(names: Sequence[str]) -> int:
    """Measures the programs of these names, or all."""
    for name in names or PROGRAMS:
        try:
            time, kernel = longest(PROGRAMS[name])
        except LegatoError as error:
            print(f"{name:22} {error}")
            continue
        print(f"{name:22} {time * 1e3:8.1f} ms  {kernel}{'  SLOW' if time > SLOW else ''}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
