"""Whether a code generator keeps its promises: what it makes of functions, against the interpreter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

import legato
from legato.arith.expr import fresh
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import GeneratorError
from legato.compare.exact import interpret
from legato.generators.cut import partition
from legato.generators.generator import supports_of
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.attrs import make_attrs
from legato.ir.expr import Call, Expr, Function, Tuple, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import Dim, TensorType, TupleType, Type, tensor_type, walk
from legato.ops import table
from legato.runtime.engines import Engine, by_name, restored
from legato.runtime.fill import feeds
from legato.runtime.leaves import flat, in_order
from legato.runtime.packed import Wanted, call, leaves
from legato.transform._external import COMPILER, SYMBOL, is_external

__all__ = ["Conformance", "check_generator"]

_TOGETHER: Final = 24  # calls in one function
_BINARY: Final = ("add", "multiply", "subtract", "maximum", "minimum")
_UNARY: Final = ("tanh", "negative", "sigmoid", "nn.relu", "abs")
_EXTENTS: Final = (3, 1, 0)

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Conformance:
    """The operators that a generator takes, and how many functions it has compiled and been compared on."""

    operators: tuple[str, ...]
    functions: int


def check_generator(
    generator: Any,
    programs: Iterable[Module] = (),
    *,
    ops: Iterable[Op] = (),
    rtol: float = 1e-4,
    finite: bool = False,
    seed: int = 0,
) -> Conformance:
    """Compares what `generator` makes of functions with the interpreter.

    The functions are the samples of all operators that it supports (of the package, and `ops`), and graphs of them with
    constants, tuples, several results and, where it takes those, a dim without a number. Engines are called again, by
    several threads at once, and with arrays that they must leave as they are; what it stores is loaded. `programs` of
    one's own, for `composites` above all, are partitioned, compiled, and stored as a whole.

    Values are equal within `rtol` of the largest, integers and bools exactly; with `finite` there are no infinities and
    NaNs among the operands. GeneratorError for the first thing that
    is wrong, with the operator or the function.
    """
    by_name([generator])
    check = _Check(generator, rtol, finite, seed)
    check.operators([*table().values(), *ops])
    check.graphs()
    for program in programs:
        check.program(infer(program))
    if not check.functions:
        raise GeneratorError(
            f"generator {generator.name!r}: it supports no call of any operator, and no program is given"
        )
    return Conformance(tuple(check.taken), check.functions)


class _Check:
    def __init__(self, generator: Any, rtol: float, finite: bool, seed: int) -> None:
        self._generator, self._name, self._rtol, self._finite = generator, generator.name, rtol, finite
        self._supports = supports_of(generator)
        self._random = np.random.default_rng(seed)
        self.taken: dict[str, None] = {}
        self.functions = 0

    # ------------------------------------------------------------------------------------------------ what is tried

    def operators(self, ops: Sequence[Op]) -> None:
        """The samples of operators, many in one function; where that is wrong, the first that is, alone."""
        found = [example for op in ops for example in self._examples(op)]
        for n in range(0, len(found), _TOGETHER):
            part = found[n : n + _TOGETHER]
            try:
                self._compare(*_joined(part))
            except GeneratorError:
                for each in part:
                    self._compare(*_joined([each]), f", a call of {_described(each.call)}")
                raise

    def _examples(self, op: Op) -> Iterator[_Example]:
        for sample in () if op.stateful else op.samples:
            values: list[Any] = [self._filled(a) for a in sample.args]
            if op.args and op.args[-1].startswith("*"):
                fixed = len(op.args) - 1
                values = [*values[:fixed], tuple(values[fixed:])]
            params = [Var(f"x{n}", ty=_type_of(v)) for n, v in enumerate(values)]
            call = Builder().call_op(op, params, make_attrs(op, sample.attrs))
            if call.ty is None or not all(isinstance(t, TensorType | TupleType) for t in walk(call.ty)):
                continue
            chosen = [bool(self._supports(call)) for _ in range(2)]
            if chosen[0] is not chosen[1]:
                raise GeneratorError(f"generator {self._name!r}: supports says yes and no to a call of {op.name}")
            if chosen[0]:
                self.taken[op.name] = None
                yield _Example(params, call, values)

    def _filled(self, argument: Any) -> Any:
        """The array of a sample's argument, or the tuple of them that a list stands for."""
        if isinstance(argument, list):
            return tuple(map(self._filled, argument))
        random = self._random
        if isinstance(argument, np.ndarray | np.generic):
            found = np.asarray(argument)
            if not self._finite or not dt.dtype(found.dtype).is_float:
                return found
            return np.asarray(np.where(np.isfinite(found), found, random.standard_normal(found.shape)), found.dtype)
        shape, dtype = argument[0], dt.dtype(argument[1])
        if dtype.is_float:
            return np.asarray(random.standard_normal(shape)).astype(dtype.numpy)
        if dtype.is_bool:
            return np.asarray(random.random(shape) < 0.5)
        return np.asarray(random.integers(max(dtype.min, -9), 10, shape)).astype(dtype.numpy)

    def graphs(self) -> None:
        """Graphs of several calls, as functions and as a program."""
        for rows in (fresh("n", 0), 3):
            func = self._graph(rows)
            if func is None:
                continue
            for n in (3,) if isinstance(rows, int) else _EXTENTS:
                a, b, c = (self._random.standard_normal((n, 4)).astype(np.float32) for _ in range(3))
                self._compare(func, [(a, b), c])
            self.program(Module.from_expr(func))

    def _graph(self, rows: Dim | int) -> Function | None:
        """A graph of elementwise calls that the generator takes; None where it takes none."""
        b, ty = Builder(), tensor_type((rows, 4), "float32")
        pair, third = Var("pair", ty=TupleType((ty, ty))), Var("x", ty=ty)
        row = b.constant(self._random.standard_normal((1, 4)).astype(np.float32))
        found: list[Expr] = [b.get(pair, 0), b.get(pair, 1), third]
        for name in (*_BINARY, *_UNARY, *_BINARY):
            x, y = found[-1], found[-3]
            for args in ((x, y), (x, row)) if name in _BINARY else ((x,),):
                call = b.op(name)(*args)
                if isinstance(call, Call) and self._supports(call):
                    found.append(call)
        if len(found) == 3:
            return None
        body = b.tuple_((b.tuple_((found[-1],)), found[-2]))
        made = infer(Module.from_expr(Function((pair, third), body)))["main"]
        assert isinstance(made, Function)
        return made

    def program(self, module: Module) -> None:
        """A program, partitioned, compiled, stored and loaded."""
        given = [self._generator]
        cut = partition(module, given)
        if not any(map(is_external, cut.functions.values())):
            raise GeneratorError(f"generator {self._name!r}: it takes nothing of a program that is given")
        exe = legato.compile(cut, generators=given)
        main = exe.program.functions["main"]
        inputs = feeds(main, None, "random", dims={d.name: 3 for d in main.dims}, seed=1)
        with TemporaryDirectory() as folder:
            exe.save(Path(folder, "program"))
            again = legato.load(Path(folder, "program"), generators=given)
        wanted = interpret(module, in_order(exe, inputs), float64=False)
        for found in (exe, again):
            for got, want in zip(flat(found(*in_order(exe, inputs))), wanted, strict=True):
                self._close(got, want, "main", " of a program")
        self.functions += 1

    # ------------------------------------------------------------------------------------------------ comparing

    def _compare(self, func: Function, values: Sequence[Any], what: str = "") -> None:
        """What the engine of a function gives, called several times and at once, against the interpreter."""
        self.functions += 1
        symbol = f"checked_{self.functions}"
        func = func.with_attr(COMPILER, self._name).with_attr(SYMBOL, symbol)
        wanted = list(flat(evaluate(Module.from_expr(func), list(values))))
        run = restored(partial(self._generator.compile, func), self._name, symbol, f"compile{what}")
        runs = [run]
        if callable(getattr(self._generator, "load", None)) and callable(getattr(run, "to_bytes", None)):
            data = bytes(restored(run.to_bytes, self._name, symbol, f"to_bytes{what}"))
            runs.append(restored(partial(self._generator.load, data), self._name, symbol, f"load{what}"))
        for each in runs:
            engine = Engine.of(each, self._name, symbol)
            once = partial(self._once, engine, symbol, values, wanted, what)
            once()
            with ThreadPoolExecutor(2) as pool:
                for done in [pool.submit(once) for _ in range(2)]:
                    done.result()

    def _once(self, engine: Engine, symbol: str, values: Sequence[Any], wanted: Sequence[Array], what: str) -> None:
        given = [np.array(a) for a in leaves(tuple(values))]
        for array in given:
            array.flags.writeable = False
        shapes = [Wanted(w.dtype, w.shape) for w in wanted]
        with np.errstate(all="ignore"):  # NaN and infinity are values like others
            found = call(engine, symbol, given, shapes, None)
        for got, want in zip(found, wanted, strict=True):
            self._close(np.asarray(got), want, symbol, what)
        for array, old in zip(given, leaves(tuple(values)), strict=True):
            if array.tobytes() != np.ascontiguousarray(old).tobytes():
                raise engine.error(symbol, f"{what}: it changes an array that it may only read")

    def _close(self, got: Array, wanted: Array, symbol: str, what: str) -> None:
        if not dt.dtype(wanted.dtype).is_float:
            if not np.array_equal(got, wanted):
                raise self._differs(symbol, what, f"{int(np.sum(got != wanted))} elements are others")
            return
        a, b = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
        finite = np.isfinite(b)
        with np.errstate(all="ignore"):
            largest = np.abs(b[finite]).max(initial=0.0)
            error = np.abs(a[finite] - b[finite]).max(initial=0.0)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not error <= self._rtol * max(largest, 1e-30):
            raise self._differs(symbol, what, f"the largest difference is {error:.3g}, of elements up to {largest:.3g}")

    def _differs(self, symbol: str, what: str, how: str) -> GeneratorError:
        return GeneratorError(f"generator {self._name!r}, function @{symbol}{what}: its values are not those: {how}")


@dataclass(frozen=True, slots=True, eq=False)
class _Example:
    """A call of an operator on parameters, and values for these."""

    params: Sequence[Var]
    call: Call
    values: Sequence[Any]


def _joined(examples: Sequence[_Example]) -> tuple[Function, list[Any]]:
    """One function of all calls, and its arguments."""
    params = tuple(p for e in examples for p in e.params)
    body: Expr = examples[0].call
    if len(examples) > 1:
        calls = tuple(e.call for e in examples)
        body = Tuple(calls, ty=TupleType(tuple(c.checked_type for c in calls)))
    made = infer(Module.from_expr(Function(params, body)))["main"]
    assert isinstance(made, Function)
    return made, [v for e in examples for v in e.values]


def _described(call: Call) -> str:
    types = ", ".join(str(a.ty) for a in call.args)
    return f"{getattr(call.op, 'name', '')} ({types})" + (f" with {call.attrs}" if call.attrs is not None else "")


def _type_of(value: Any) -> Type:
    if isinstance(value, tuple):
        return TupleType(tuple(map(_type_of, value)))
    return tensor_type(value.shape, dt.dtype(value.dtype))
