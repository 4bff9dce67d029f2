"""What converters write programs with: the builder, and questions about what is known of an input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import Any

import numpy as np

import legato.ops  # noqa: F401  # gives operators their names
from legato.arith.expr import Const, const, ge, land, le
from legato.arith.expr import Var as DimVar
from legato.arith.prove import provably_different, prove, prove_equal
from legato.arith.substitute import variables
from legato.base.dtype import DType, int64
from legato.base.dtype import dtype as as_dtype
from legato.base.errors import ImportModelError, UnsupportedError
from legato.base.formats import IntFormat
from legato.base.spelling import ELLIPSIS, written
from legato.frontend.emitter import Emitter as Common
from legato.frontend.onnx.ratio import Ratio, Ratios
from legato.frontend.onnx.spelling import as_written
from legato.frontend.onnx.tensors import Array
from legato.interp import evaluate_op
from legato.ir.attrs import is_symbolic
from legato.ir.expr import Call, Constant, Expr, Function, Tuple, Var
from legato.ir.let import Binding
from legato.ir.op import Op
from legato.ir.tensor_to_shape import TENSOR_TO_SHAPE
from legato.ir.types import Dim, ShapeType, TensorType, Type, TypeData
from legato.prelude import library

__all__ = ["Emitter"]

_FOLD = 64  # elements: constants up to this size are computed during import where a converter asks for them


class Emitter(Common):
    """The builder for converters of ONNX.

    `opset` is the operator set of the node, `outputs` how many outputs it has; in a loop it `repeats`. `inputs` are
    those of the model.
    """

    def __init__(self, types: Iterable[TypeData] = ()) -> None:
        super().__init__(types=tuple(types))
        self.opset = 0
        self.outputs = 1
        self.repeats = False
        self.draws = 0  # of random numbers without a seed
        self.keys: dict[int, tuple[Expr, Sequence[int | str]]] = {}  # of the columns of a matrix, by it
        self.inputs: Mapping[str, Type] = {}
        self._folded: dict[int, tuple[Expr, Any]] = {}
        self._ratios = Ratios(self.value_of, self.array)
        self._positions = Ratios(self.value_of, self.array, self._symbols)
        self.widened: dict[str, frozenset[tuple[int, int]]] = {}  # (state, axis) that the rounds of a loop change
        self.limits: dict[Var, Dim] = {}  # counters of loops, which are below these
        self.cells: dict[tuple[tuple[int | None, ...], DType], TypeData] = {}  # see `cells`, by extents and dtype
        self._unknown: set[DimVar] = set()
        self._computed: dict[tuple[int, int], tuple[list[Binding], Expr, tuple[Dim, ...]]] = {}  # by body and tensor
        self._below: dict[DimVar, Dim] = {}  # the same, of their symbols

    def call_op(self, op: Op, args: Sequence[Expr], attrs: Any = None) -> Call:
        """The typed call of `op`, its attributes as people write them."""
        return super().call_op(op, args, as_written(attrs))

    def call_te(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Expr:
        """What `function` computes, in tensor expressions (`legato.te`), of tensors in the place of expressions."""
        from legato.ops._te_calls import te_call  # with a parser of programs, which few models need

        return te_call(self, function, args, keywords)

    def constant(self, value: Any, dtype: DType | str | None = None) -> Constant:
        """`value` as a typed constant; OverflowError for NaN where it is to be an integer, as for infinity, and
        UnsupportedError for a number where it is to be a string."""
        if isinstance(value, int | float) and dtype is not None and as_dtype(dtype).is_string:
            raise UnsupportedError(f"the number {value:g} where strings are wanted")
        if isinstance(value, float) and isnan(value) and dtype is not None and _counts(as_dtype(dtype)):
            raise OverflowError("cannot convert float NaN to integer")
        return super().constant(value, dtype)

    # ------------------------------------------------------------------ what is known

    def sizes(self, x: Expr, what: str) -> tuple[int, ...]:
        """The dims of `x`, which must be literals."""
        found = tuple(int(d.value) for d in self.dims_of(x) if isinstance(d, Const))
        if len(found) != self.rank(x):
            message = f"{what} of shape {self.type_of(x)}: its dimensions must be known"
            raise UnsupportedError(message, hint=self.way_out(self.product(self.dims_of(x)), 1))
        return found

    def known(self, d: Dim, what: str) -> int:
        """A dim that must be a literal."""
        if not isinstance(d, Const):
            raise UnsupportedError(f"{what} is symbolic: it must be known", hint=self.way_out(d, 1))
        return int(d.value)

    def way_out(self, d: Dim, *items: int | str) -> str | None:
        """How a caller says that a dim of an input in `d` is the number, or the name with its range, that `items` are.

        None where no input has such a dim.
        """
        own = set(variables(d))
        for name, ty in self.inputs.items():
            shape = ty.shape if isinstance(ty, TensorType) else ()
            axis = next((n for n, e in enumerate(shape) if e in own), None)
            if axis is not None:
                rest = (None,) * (len(shape) - axis - 1)
                shown = [written("shapes", name, ((None,) * axis + (item, *rest))) for item in items]
                return f"say what {shape[axis]} is, as in {' or '.join(shown)}"
        return None

    def way_to_know(self, x: Expr) -> str | None:
        """How a caller gives the inputs that decide `x` their values for good; None where these are no integers."""
        met, todo, found = set[int](), [x], dict[str, Type | None]()
        while todo:
            node = todo.pop()
            if id(node) in met:
                continue
            met.add(id(node))
            if isinstance(node, Var) and node in self._typer.bound:
                todo.append(self._typer.bound[node])
            elif isinstance(node, Var) and node.name in self.inputs:
                found[node.name] = node.ty
            todo += node.children()
        if not found or not all(isinstance(ty, TensorType) and not ty.dtype.is_float for ty in found.values()):
            return None
        given = " and ".join(written("constants", name, ELLIPSIS) for name in found)
        return f"give what decides it for good, as in {given}"

    def array(self, x: Expr) -> Array | None:
        """The elements of `x` where it is a constant, or where they are few and known; else None."""
        found = x.data if isinstance(x, Constant) else self._fold(x)
        return found if isinstance(found, np.ndarray) else None

    def dims(self, x: Expr, what: str) -> tuple[Dim, ...]:
        """The elements of an integer tensor as dims. Those that the data decides are dims of the body from here on,
        which have their values when `x` is computed; there must be none below 0.

        UnsupportedError, naming `what`, where the data decides how many there are.
        """
        known = self.known_dims(x)
        if known is not None:
            return known
        count = self.product(self.dims_of(x))
        if not isinstance(count, Const) or count.value > _FOLD:
            message = f"{what}: how many numbers these are, {count}, must be known, and at most {_FOLD}"
            raise UnsupportedError(message, hint=self.way_out(count, 1))
        key = id(self._lets[-1]), id(x)
        if key not in self._computed:
            self._computed[key] = self._lets[-1], x, self._read(x, int(count.value))
        return self._computed[key][2]

    def known_dims(self, x: Expr) -> tuple[Dim, ...] | None:
        """The elements of an integer tensor as dims; None where the data decides one of them."""
        value = self.value_of(x)
        if value is not None:
            return value
        array = self.array(x)
        if array is not None:
            return tuple(const(int(v)) for v in array.ravel())
        ratios = self._ratios.of(x)
        found = [] if ratios is None else [r.whole() or r.truncated() for r in ratios.ravel()]
        known = tuple(d for d in found if d is not None)
        return known if ratios is not None and len(known) == len(found) else None

    def _read(self, x: Expr, count: int) -> tuple[Dim, ...]:
        """The elements of `x`, of which the data decides some."""
        ratios = self._positions.of(x)
        found: list[Dim | None] = [None] * count if ratios is None else [r.whole() for r in ratios.ravel()]
        late = [n for n, d in enumerate(found) if d is None or not self.is_known(d)]
        if not late:
            return tuple(d for d in found if d is not None)
        flat = self.reshape(self.to(x, int64), newshape=(count,))
        shape = self.let("dims", self.call(TENSOR_TO_SHAPE, flat if len(late) == count else self.picked(flat, late)))
        assert isinstance(shape.ty, ShapeType)
        for n, d in zip(late, shape.ty.dims or (), strict=True):
            found[n] = d
        return tuple(d for d in found if d is not None)

    def picked(self, x: Expr, places: Sequence[int]) -> Expr:
        """Some elements of a tensor of rank 1."""
        return self.take(x, self.constant(np.array(places)), axis=0)

    def positions(self, x: Expr) -> tuple[Dim, ...] | None:
        """The elements of an integer tensor, with symbols for what only the data decides; None where it is large."""
        found = self._positions.of(x)
        return None if found is None else tuple(r.num for r in found.ravel())

    def _symbols(self, x: Expr, count: int) -> Sequence[Dim]:
        """Symbols for the elements of `x`; of the counter of a loop, one that is known to be within its bounds."""
        limit = self.limits.get(x) if isinstance(x, Var) else None
        found = [DimVar("data", lo=None if limit is None else 0) for _ in range(count)]
        self._unknown.update(found)
        if limit is not None:
            self._below.update((symbol, limit) for symbol in found)
        return found

    def is_known(self, d: Dim) -> bool:
        """Whether `d`, made of `positions`, follows from the shapes of the inputs."""
        return self._unknown.isdisjoint(variables(d))

    def is_within(self, first: Dim, length: Dim, extent: Dim) -> bool:
        """Whether the `length` positions from `first` on, made of `positions`, certainly are below `extent`."""
        return prove(land(ge(first, 0), le(first + length, extent)), limits=self._below)

    def dim(self, x: Expr, what: str) -> Dim:
        """The one element of an integer tensor as a dim, as `dims` has it."""
        found = self.dims(self.single(x, what), what)
        if len(found) != 1:
            raise ImportModelError(f"{what} has {len(found)} elements, wanted one")
        return found[0]

    def single(self, x: Expr, what: str) -> Expr:
        """`x`, which must have one element: where its extents are symbolic, calls check it."""
        if self.type_of(x).is_static:
            return x
        return self._stated(x, (const(1),) * self.rank(x), what)

    def counted(self, x: Expr, count: Dim, what: str) -> Expr:
        """The vector `x`, which must have `count` elements, that `what` names: calls check it where it is not known."""
        if self.rank(x) != 1 or provably_different(self.dims_of(x)[0], count) or prove_equal(self.dims_of(x)[0], count):
            return x
        return self._stated(x, (count,), what)

    def agreed(self, x: Expr, shape: Sequence[int | None], what: str) -> Expr:
        """`x` with the extents that attributes state, None for those of which they say nothing: where its own are
        symbolic, calls check them. ImportModelError, naming `what`, where they differ."""
        dims = self.dims_of(x)
        stated = tuple(own if d is None else const(d) for own, d in zip(dims, shape, strict=True))
        if any(provably_different(own, d) for own, d in zip(dims, stated, strict=True)):
            raise ImportModelError(f"{what} is of shape ({', '.join(map(str, dims))}), the attributes state "
                                   f"({', '.join(map(str, stated))})")  # fmt: skip
        return x if stated == dims else self._stated(x, stated, f"elements of {what}")

    def _stated(self, x: Expr, shape: Sequence[Dim], what: str) -> Expr:
        """`x` with dims that its own must equal."""
        for own, d in zip(self.dims_of(x), shape, strict=True):
            self.require(own, d, f"the number of {what}")
        return self.match_cast(x, TensorType(tuple(shape), self.dtype(x)))

    def scalar(self, x: Expr, what: str) -> int | float | bool:
        """The one element of `x`; UnsupportedError where it is not known."""
        found = self.array(x)
        if found is None:
            raise UnsupportedError(f"{what} is known only at run time", hint=self.way_to_know(x))
        if found.size != 1:
            raise ImportModelError(f"{what} has {found.size} elements, wanted one")
        number: int | float | bool = found.reshape(()).astype(object).item()
        return number

    def known_ratios(self, x: Expr) -> tuple[Ratio, ...] | None:
        """The elements of `x` as ratios of dims; None where they depend on the data."""
        found = self._ratios.of(x)
        return None if found is None else tuple(found.ravel())

    def parts(self, x: Expr) -> list[Expr]:
        """What the vector `x` was put together of, in order."""
        found: list[Expr] = []
        stack = [x]
        while stack:
            node = stack.pop()
            is_joined = isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == "concatenate"
            if isinstance(node, Call) and is_joined and isinstance(node.args[0], Tuple):
                stack += reversed(node.args[0].fields)
            else:
                found.append(node)
        return found

    # ------------------------------------------------------------------ folding of small constants

    def _fold(self, x: Expr) -> Any:
        """The value of an expression over small constants, by the operators' references; iterative."""
        stack = [x]
        while stack:
            node = stack[-1]
            if id(node) in self._folded:
                stack.pop()
                continue
            waiting = [a for a in _operands(node) if id(a) not in self._folded]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            self._folded[id(node)] = (node, self._evaluate(node))
        return self._folded[id(x)][1]

    def _evaluate(self, node: Expr) -> Any:
        """An array; of a tuple, a tuple of arrays; None if it is not known."""
        if isinstance(node, Constant):
            return node.data if node.data.size <= _FOLD else None
        value = self.value_of(node)
        if value is not None and isinstance(node.ty, TensorType) and all(isinstance(d, Const) for d in value):
            flat = [d.value for d in value if isinstance(d, Const)]
            return np.array(flat, node.ty.dtype.numpy).reshape(node.ty.static_shape())
        args = [self._folded[id(a)][1] for a in _operands(node)]
        if any(a is None for a in args):
            return None
        if isinstance(node, Tuple):
            return tuple(args)
        if isinstance(node, Call) and isinstance(node.op, Op) and _is_foldable(node):
            return evaluate_op(node.op, args, node.attrs)
        return None

    # ------------------------------------------------------------------ what converters often write

    def prelude(self, name: str, *args: Expr) -> Expr:
        """A call of a function of the library's file `sequence`."""
        functions = library("sequence").functions
        gv = next(gv for gv in functions if gv.name == name)
        func = functions[gv]
        assert isinstance(func, Function)
        return replace(self.apply(replace(gv, ty=func.ty), args), op=gv)

    def is_scalar(self, x: Expr, value: float) -> bool:
        """True if `x` has one element, which is known to be `value`."""
        if any(not self.is_one(d) for d in self.dims_of(x)):
            return False
        found = self.array(x)
        return found is not None and found.size == 1 and bool(found.reshape(()) == value)


def _counts(dtype: DType) -> bool:
    """Whether elements are integers, of few bits or more."""
    return dtype.is_int or (dtype.is_storage and isinstance(dtype.format, IntFormat))


def _operands(node: Expr) -> Sequence[Expr]:
    """What the value of a small tensor is computed from."""
    if isinstance(node, Tuple):
        return node.fields
    return node.args if isinstance(node, Call) and _is_foldable(node) else ()


def _is_foldable(node: Call) -> bool:
    """Calls of operators whose result is a small tensor of known shape."""
    ty = node.ty
    if not isinstance(node.op, Op) or node.op.stateful or not isinstance(ty, TensorType) or not ty.is_static:
        return False
    if is_symbolic(node.op, node.attrs):
        return False
    count = 1
    for d in ty.static_shape():
        count *= d
    return count <= _FOLD
