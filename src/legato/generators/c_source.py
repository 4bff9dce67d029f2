"""C source, compiled by the system's compiler: a generator for whatever has loops.

    exe = legato.compile(partition(mod, [CSource()]), generators=[CSource()])
    print(CSource().source(function))

It needs a C compiler where a program is compiled, and where it is loaded: files have no C, but the functions, of which
C is made again. So nothing that somebody else has written is compiled.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from legato.arith.evaluate import evaluate
from legato.arith.expr import Const
from legato.arith.expr import Var as DimVar
from legato.base.dataclass import dataclass
from legato.base.errors import PlatformError, RunError
from legato.base.node import post_order
from legato.generators.c_text import TYPES, c_text
from legato.generators.flat import flat_function
from legato.ir.expr import Call, Constant, Expr, Function, Var
from legato.ir.op import Op
from legato.ir.types import TensorType, walk
from legato.ir.visit import with_operands
from legato.lower.group import Group, te_group
from legato.te.lower import to_tir
from legato.tir.buffer import Buffer
from legato.tir.stmt import Func

__all__ = ["CSource", "library_of", "run_library"]

FLAGS: Final = ("-std=c99", "-O2", "-ffp-contract=off")
_NAME: Final = "run"


@dataclass(frozen=True, slots=True)
class CSource:
    """Takes calls of operators that have loops, on dtypes that C has; `operators`: only these. `compiler` and `flags`
    make a shared library of a file: sums are not contracted, so floats round as the program says."""

    name: str = "c"
    operators: frozenset[str] | None = None
    compiler: str = "cc"
    flags: tuple[str, ...] = FLAGS

    def supports(self, call: Call) -> bool:
        """Whether C is made of a call."""
        if not isinstance(call.op, Op) or call.op.compute is None or call.op.stateful:
            return False
        types = [part for e in (call, *call.args) if e.ty is not None for part in walk(e.ty)]
        in_c = all(part.dtype in TYPES for part in types if isinstance(part, TensorType))
        return in_c and (self.operators is None or call.op.name in self.operators)

    def source(self, function: Function) -> str:
        """The C of a function."""
        return c_text(_program(function).loops)

    def compile(self, function: Function) -> Any:
        """The engine of a function: its C, compiled, in this process. PlatformError where there is no compiler."""
        program = _program(function)
        return _Engine(program, library_of(c_text(program.loops), self.compiler, self.flags))


def library_of(text: str, compiler: str = "cc", flags: Sequence[str] = FLAGS) -> ctypes.CDLL:
    """The library that a compiler makes of C; PlatformError where there is none, or it refuses."""
    with TemporaryDirectory(prefix="legato-c-") as folder:
        source, library = Path(folder, "source.c"), Path(folder, "library.so")
        source.write_text(text)
        command = [compiler, *flags, "-shared", "-fPIC", "-o", str(library), str(source), "-lm"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise PlatformError(f"there is no C compiler {compiler!r}: {error.strerror}") from error
        if done.returncode:
            raise PlatformError(f"{compiler} gave {done.returncode}:\n{done.stderr[:2000]}")
        return ctypes.CDLL(str(library))


def run_library(library: ctypes.CDLL, name: str, buffers: Sequence[np.ndarray], dims: Sequence[int]) -> int:
    """The status of a function of `c_text` on contiguous arrays and dims."""
    run = getattr(library, name)
    pointers = (ctypes.c_void_p * max(1, len(buffers)))(*(b.ctypes.data for b in buffers))
    return int(run(pointers, (ctypes.c_int64 * max(1, len(dims)))(*dims)))


@dataclass(frozen=True, slots=True, eq=False)
class _Program:
    """A function as loops, which take its tensors, then `constants`, then the results, then dims."""

    group: Group
    constants: tuple[np.ndarray, ...]
    loops: Func


def _program(function: Function) -> _Program:
    func, constants = _without_constants(flat_function(function))
    group = te_group(func)
    return _Program(group, constants, to_tir(group.outputs, group.inputs, _NAME))


def _without_constants(func: Function) -> tuple[Function, tuple[np.ndarray, ...]]:
    """The function with its constants, scalars aside, as parameters behind its own."""
    found: dict[int, Var] = {}
    data: list[np.ndarray] = []
    new: dict[int, Expr] = {}
    for node in post_order([func.body]):
        if isinstance(node, Constant) and node.data.ndim:
            found[id(node)] = Var(f"c{len(data)}", ty=node.ty)
            data.append(np.ascontiguousarray(node.data))
            new[id(node)] = found[id(node)]
        else:
            new[id(node)] = with_operands(node, new)
    return replace(func, params=(*func.params, *found.values()), body=new[id(func.body)], ty=None), tuple(data)


class _Engine:
    """A compiled function."""

    def __init__(self, program: _Program, library: ctypes.CDLL) -> None:
        self._program, self._library = program, library
        self._dims = [p for p in program.loops.params if not isinstance(p, Buffer)]

    def __call__(self, *arrays: np.ndarray) -> Any:
        group = self._program.group
        given = [np.asarray(a, order="C") for a in (*arrays, *self._program.constants)]
        _require_dtypes(group, given)
        dims = _dims(group, given)
        results = [np.empty([int(evaluate(d, dims)) for d in t.shape], t.dtype.numpy) for t in group.outputs]
        status = run_library(self._library, _NAME, [*given, *results], [dims[d] for d in self._dims])
        if status:
            raise RunError("out of memory" if status < 0 else f"check {status} of the program does not hold")
        return results[0] if len(results) == 1 else tuple(results)


def _require_dtypes(group: Group, given: Sequence[np.ndarray]) -> None:
    """RunError for arrays that are not the function's: what it reads is as long as their dtypes say."""
    if len(given) != len(group.inputs):
        raise RunError(f"got {len(given)} arrays, wanted {len(group.inputs)}")
    for t, array in zip(group.inputs, given, strict=True):
        if array.dtype != t.dtype.numpy:
            raise RunError(f"{t.name} is {array.dtype}, wanted {t.dtype}")


def _dims(group: Group, given: Iterable[np.ndarray]) -> dict[DimVar, int]:
    """The dims of a call, by the shapes of its arrays. RunError for other shapes than the function's."""
    found: dict[DimVar, int] = {}
    pairs = [(d, n) for t, a in zip(group.inputs, given, strict=True) for d, n in zip(t.shape, a.shape, strict=True)]
    for d, n in pairs:
        if isinstance(d, DimVar):
            found.setdefault(d, n)
    for d, n in pairs:
        if int(d.value if isinstance(d, Const) else evaluate(d, found)) != n:
            raise RunError(f"an extent is {n}, wanted {d}")
    return found
