"""The Mandelbrot set, drawn by loops over scalars: no tensor anywhere, and as fast as the same loops in C.

    python examples/mandelbrot.py [--columns N] [--rows N] [--limit N] [--c]

Relay's functions that call themselves last are loops, and its scalars are registers of the machine; the picture comes
back as a list, an object of the prelude's data type. With --c the same loops, compiled by the C compiler of this
machine (`cc -O2`), draw it too, and are timed beside it.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from timing import least_seconds

import legato
from legato.runtime import Data

PROGRAM = """#[version = "0.0.5"]
def @steps(%cr: float64, %ci: float64, %zr: float64, %zi: float64, %n: int32, %limit: int32) -> int32 {
  let %rr = %zr * %zr;
  let %ii = %zi * %zi;
  if (logical_or(%n == %limit, %rr + %ii > 4f64)) { %n } else {
    @steps(%cr, %ci, %rr - %ii + %cr, 2f64 * %zr * %zi + %ci, %n + 1, %limit)
  }
}

def @pixels(%left: int32, %columns: int32, %rows: int32, %limit: int32, %done: List[int32]) -> List[int32] {
  if (%left == 0) { %done } else {
    let %at = %left - 1;
    let %x = cast(floor_mod(%at, %columns), dtype="float64") * 3f64 / cast(%columns, dtype="float64") - 2.25f64;
    let %y = cast(floor_divide(%at, %columns), dtype="float64") * 2.4f64 / cast(%rows, dtype="float64") - 1.2f64;
    @pixels(%at, %columns, %rows, %limit, Cons(@steps(%x, %y, 0f64, 0f64, 0, %limit), %done))
  }
}

def @main(%columns: int32, %rows: int32, %limit: int32) -> List[int32] {
  @pixels(%columns * %rows, %columns, %rows, %limit, Nil)
}
"""
C = """
static int steps(double cr, double ci, int limit) {
  double zr = 0, zi = 0;
  int n = 0;
  for (; n != limit && zr * zr + zi * zi <= 4; ++n) {
    double rr = zr * zr - zi * zi + cr;
    zi = 2 * zr * zi + ci;
    zr = rr;
  }
  return n;
}

void pixels(int columns, int rows, int limit, int *out) {
  for (int at = 0; at < columns * rows; ++at)
    out[at] = steps((at % columns) * 3.0 / columns - 2.25, (at / columns) * 2.4 / rows - 1.2, limit);
}
"""
SHADES = np.array(list(" .:-=+*#%@"))


def pixels(done: Data, columns: int) -> np.ndarray:
    """The list's numbers, int32 of shape (rows, columns)."""
    found = []
    while done.fields:
        number, done = done.fields
        found.append(number)
    return np.array(found, np.int32).reshape(-1, columns)


def in_c(folder: Path) -> Callable[[int, int, int], np.ndarray]:
    """The same loops from the C compiler; it leaves its library in `folder`."""
    library = folder / "mandelbrot.so"
    command = ["cc", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=C, text=True, check=True)
    function = ctypes.CDLL(str(library)).pixels

    def run(columns: int, rows: int, limit: int) -> np.ndarray:
        out = np.empty((rows, columns), np.int32)
        function(columns, rows, limit, out.ctypes.data_as(ctypes.c_void_p))
        return out

    return run


def main() -> None:
    """Draws the set, and says how many steps of the inner loop a second takes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--columns", type=int, default=78)
    parser.add_argument("--rows", type=int, default=30)
    parser.add_argument("--limit", type=int, default=100_000, help="steps after which a point counts as inside")
    parser.add_argument("--c", action="store_true", help="draw it with the C compiler's code, too")
    args = parser.parse_args()
    exe = legato.compile(legato.parse(PROGRAM), threads=1)
    sizes = [np.int32(n) for n in (args.columns, args.rows, args.limit)]
    picture = pixels(exe(*sizes), args.columns)
    depth = np.log1p(picture) / np.log1p(args.limit) * (len(SHADES) - 1)
    print("\n".join("".join(SHADES[line]) for line in np.ceil(depth).astype(int)))
    steps = int(picture.sum())
    seconds = least_seconds(lambda: exe(*sizes))
    print(f"{steps:,} steps, Legato {1e9 * seconds / steps:.2f} ns a step")
    if args.c:
        with tempfile.TemporaryDirectory() as folder:
            run = in_c(Path(folder))
            assert (run(args.columns, args.rows, args.limit) == picture).all()
            theirs = least_seconds(lambda: run(args.columns, args.rows, args.limit))
        print(f"C {1e9 * theirs / steps:.2f} ns a step: Legato takes {seconds / theirs:.2f} times as long")


if __name__ == "__main__":
    main()
