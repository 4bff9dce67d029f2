"""Random well-typed programs: tensors of odd sizes through operators of every fusion class, shared values, lets, …

Values stay moderate and functions smooth, so that rounding stays rounding; integer programs are exact. A program may
have one symbolic dim, the first one of some inputs. A seed and a number of steps decide everything, so a failure is
shrunk by leaving out what came last, and nearly every step counts: what nothing else reads is an output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

import legato.ops  # noqa: F401  # gives operators their names
from legato.arith.evaluate import evaluate as evaluate_dim
from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.arith.substitute import variables
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import Call, Expr, Function, GlobalVar, Var
from legato.ir.module import Module
from legato.ir.types import TensorType

Array = np.ndarray[Any, Any]
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33)
BATCHES = (3, 1, 8)
EPSILON = 4e-5  # of the largest value in the program: what rounding in float32 may add up to here


@dataclass(frozen=True, slots=True)
class Program:
    """A module with its parameters' types, and a value for its symbolic dim where it has one."""

    module: Module
    params: tuple[Var, ...]
    exact: bool
    dim: DimVar | None
    seed: int

    def arguments(self, batch: int = BATCHES[0]) -> list[Array]:
        """Arrays for the parameters."""
        rng = np.random.default_rng(self.seed)
        return [random_array(rng, concrete(p, {self.dim: batch} if self.dim else {}), _dtype(p)) for p in self.params]


def concrete(e: Expr, dims: Mapping[DimVar, int]) -> tuple[int, ...]:
    """The shape of a tensor for these dims."""
    assert isinstance(e.ty, TensorType)
    return tuple(int(evaluate_dim(d, dims)) for d in e.ty.shape)


def concrete_type(ty: TensorType, size: int) -> tuple[int, ...]:
    """The shape of a tensor of type `ty` with all its dims `size`."""
    return tuple(int(evaluate_dim(d, dict.fromkeys(variables(d), size))) for d in ty.shape)


def _dtype(e: Expr) -> np.dtype[Any]:
    assert isinstance(e.ty, TensorType)
    return e.ty.dtype.numpy


def random_array(rng: np.random.Generator, shape: Sequence[int], dtype: Any, scale: float = 1.0) -> Array:
    """Normal floats, small integers, fair bools."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.kind == "f":
        return np.asarray(rng.standard_normal(shape) * scale).astype(dtype)
    return np.asarray(rng.integers(-9, 10, shape)).astype(dtype)


def compare(got: Any, program: Program, args: Sequence[Array]) -> None:
    """Requires `got` to be the program's value: exactly, or within rounding of its largest intermediate value."""
    largest = 1.0

    def observe(_: Expr, value: Any) -> None:
        nonlocal largest
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            largest = max(largest, float(np.abs(value[np.isfinite(value)]).max(initial=0.0)))

    wanted = evaluate(program.module, args, float64=not program.exact, observe=observe)
    for g, w in zip(leaves(got), leaves(wanted), strict=True):
        assert g.shape == w.shape
        if g.dtype.kind != "f":
            np.testing.assert_array_equal(g, w)
        else:
            finite = np.isfinite(w)
            np.testing.assert_array_equal(g[~finite], w[~finite])  # the maximum of nothing
            error = float(np.abs(g[finite] - w[finite]).max(initial=0.0))
            assert error <= EPSILON * largest, f"off by {error}, the largest value is {largest}"


def leaves(value: Any) -> list[Array]:
    """The arrays in nested tuples."""
    return [x for v in value for x in leaves(v)] if isinstance(value, tuple) else [np.asarray(value)]


# ------------------------------------------------------------------ the generator


@dataclass(eq=False)
class _Maker:
    """A program being drawn: `pool` holds the tensors that may be used where we are."""

    random: Random
    rng: np.random.Generator
    dtype: str
    limit: int
    dim: DimVar | None
    b: Builder = field(default_factory=Builder)
    pool: list[Expr] = field(default_factory=list)
    unused: list[Expr] = field(default_factory=list)
    params: list[Var] = field(default_factory=list)
    depth: int = 0

    # Choices

    def one_of(self, options: Sequence[Any]) -> Any:
        return self.random.choice(list(options))

    def maybe(self) -> bool:
        return self.random.random() < 0.5

    def shape(self, e: Expr) -> tuple[int, ...]:
        return concrete(e, {self.dim: BATCHES[0]} if self.dim else {})

    def pick(self, ok: Callable[[tuple[int, ...]], bool] = lambda _: True) -> Expr | None:
        """A tensor of the program's dtype; recent ones, and those that nothing reads yet, more often."""
        fit = [e for e in self.pool if _dtype(e) == np.dtype(self.dtype) and ok(self.shape(e))]
        fresh_ones = [e for e in self.unused if e in fit]
        if not fit:
            return None
        found: Expr = self.one_of(fresh_ones if fresh_ones and self.maybe() else [*fit, *fit[-3:]])
        self.unused = [e for e in self.unused if e is not found]
        return found

    def static(self, e: Expr, axis: int) -> bool:
        """True if the extent of `axis` is a literal."""
        assert isinstance(e.ty, TensorType)
        return TensorType((e.ty.shape[axis],), e.ty.dtype).is_static

    def leaf(self, shape: Sequence[int], scale: float = 1.0) -> Expr:
        """A constant, or now and then a parameter."""
        if self.depth == 0 and self.random.randint(0, 3) == 0:
            var = self.b.var(f"w{len(self.params)}", tuple(shape), self.dtype)
            self.params.append(var)
            return var
        return self.b.constant(random_array(self.rng, shape, self.dtype, scale))

    def fits(self, *shape: int) -> bool:
        return math.prod(shape) <= self.limit

    # Steps: a new tensor from those in the pool, or None where nothing fits

    def unary(self) -> Expr | None:
        x = self.pick()
        if x is None:
            return None
        names = ["abs", "negative", "nn.relu", "copy"]
        if self.dtype == "float32":
            names += ["tanh", "sigmoid", "nn.hard_sigmoid", "nn.leaky_relu", "cos"]
        return self.b.op(self.one_of(names))(x)

    def binary(self) -> Expr | None:
        x, y = self.pick(), self.pick()
        if x is None or y is None:
            return None
        shapes = self.shape(x), self.shape(y)
        try:
            joint = np.broadcast_shapes(*shapes)
        except ValueError:
            return None
        symbolic = not (_is_static(x) and _is_static(y))
        if not self.fits(*joint) or (symbolic and x.ty != y.ty):
            return None
        name = self.one_of(["add", "subtract", "maximum", "minimum", "multiply"])
        if name == "multiply" and self.dtype == "float32":
            y = self.b.tanh(y)
        return self.b.op(name)(x, y)

    def scaled(self) -> Expr | None:
        x = self.pick(lambda s: len(s) > 0)
        if x is None:
            return None
        shape = self.shape(x)
        axis = self.one_of(range(len(shape)))
        if not self.static(x, axis):
            return None
        c = random_array(self.rng, [n if d == axis else 1 for d, n in enumerate(shape)], self.dtype)
        operands = [x, self.b.constant(c)]
        return self.b.op(self.one_of(["add", "multiply", "subtract"]))(*(operands if self.maybe() else operands[::-1]))

    def select(self) -> Expr | None:
        x = self.pick()
        if x is None:
            return None
        condition = [p for p in self.params if _dtype(p) == np.bool_ and p.ty.rank == 0]  # type: ignore[union-attr]  # tensors
        if not condition:
            return None
        return self.b.where(self.one_of(condition), x, self.b.negative(x))

    def reduction(self) -> Expr | None:
        x = self.pick(lambda s: len(s) > 0)
        if x is None:
            return None
        axes = self.random.sample(range(len(self.shape(x))), self.random.randint(1, len(self.shape(x))))
        names = ["sum", "max", "min"] + (["mean"] if self.dtype == "float32" else ["prod"])
        name = self.one_of(names)
        if name != "sum" and not all(self.static(x, a) for a in axes):
            return None
        return self.b.op(name)(x, axis=tuple(axes), keepdims=self.maybe())

    def softmax(self) -> Expr | None:
        x = self.pick(lambda s: len(s) > 0)
        if x is None or self.dtype != "float32":
            return None
        axis = self.one_of(range(-1, len(self.shape(x))))
        return self.b.op(self.one_of(["nn.softmax", "nn.log_softmax"]))(x, axis=axis)

    def norm(self) -> Expr | None:
        x = self.pick(lambda s: len(s) > 1)
        if x is None or self.dtype != "float32" or not self.static(x, -1):
            return None
        n = self.shape(x)[-1]
        return self.b.nn.layer_norm(x, self.leaf((n,)), self.leaf((n,)), epsilon=0.1)

    def reshape(self) -> Expr | None:
        x = self.pick()
        if x is None:
            return None
        if not _is_static(x):
            return self.b.reshape(x, newshape=self.one_of([(-1,), (0, -1), (1, -1), (-1, 1)]))
        sizes = list(self.shape(x))
        for _ in range(self.random.randint(1, 3)):
            n = self.random.randint(0, max(0, len(sizes) - 1))
            if len(sizes) > 1 and n + 1 < len(sizes) and self.maybe():
                sizes[n : n + 2] = [sizes[n] * sizes[n + 1]]
            elif sizes and sizes[n] > 1:
                factor = self.one_of([f for f in range(1, sizes[n] + 1) if sizes[n] % f == 0])
                sizes[n : n + 1] = [factor, sizes[n] // factor]
            else:
                sizes.insert(n, 1)
        return self.b.reshape(x, newshape=tuple(sizes[:6])) if len(sizes) <= 6 else None

    def transpose(self) -> Expr | None:
        x = self.pick(lambda s: len(s) > 1)
        if x is None:
            return None
        return self.b.transpose(x, axes=tuple(self.random.sample(range(len(self.shape(x))), len(self.shape(x)))))

    def join(self) -> Expr | None:
        x = self.pick(lambda s: len(s) > 0)
        if x is None:
            return None
        axis = self.one_of(range(len(self.shape(x))))
        rest = [e for e in self.pool if e.ty == x.ty or (_is_static(e) and _is_static(x) and _dtype(e) == _dtype(x)
                and _without(self.shape(e), axis) == _without(self.shape(x), axis))]  # fmt: skip
        parts = [x, *(self.one_of(rest) for _ in range(self.random.randint(1, 2)) if rest)]
        if not self.fits(sum(math.prod(self.shape(p)) for p in parts)):
            return None
        if all(p.ty == x.ty for p in parts) and self.maybe():
            return self.b.stack(parts, axis=axis)
        return self.b.concatenate(parts, axis=axis)

    def slice(self) -> Expr | None:
        x = self.pick(lambda s: len(s) > 0)
        if x is None:
            return None
        axis = self.one_of(range(len(self.shape(x))))
        n = self.shape(x)[axis]
        if not self.static(x, axis) or n < 2:
            return None
        begin = self.random.randint(0, n - 1)
        end = self.random.randint(begin + 1, n)
        step = self.one_of([1, 1, 2, 3])
        return self.b.strided_slice(x, begin=(begin,), end=(end,), strides=(step,), axes=(axis,))

    def split(self) -> Expr | None:
        x = self.pick(lambda s: len(s) > 0 and s[-1] % 2 == 0)
        if x is None or not self.static(x, -1) or not self.shape(x)[-1]:
            return None
        both = self.b.split(x, indices_or_sections=2, axis=-1)
        self.pool.append(self.b.get(both, 1))
        return self.b.get(both, 0)

    def pad(self) -> Expr | None:
        x = self.pick(lambda s: 0 < len(s) <= 4)
        if x is None:
            return None
        widths = tuple((self.random.randint(0, 2), self.random.randint(0, 2)) for _ in self.shape(x))
        if not self.fits(*(n + a + b for n, (a, b) in zip(self.shape(x), widths, strict=True))):
            return None
        return self.b.nn.pad(x, self.one_of([0, 1]), pad_width=widths)

    def take(self) -> Expr | None:
        x = self.pick(lambda s: len(s) > 0)
        if x is None:
            return None
        axis = self.one_of(range(len(self.shape(x))))
        indices = self.b.constant(self.rng.integers(-3, 40, self.one_of([(), (3,), (2, 2)])).astype(np.int64))
        return self.b.take(x, indices, axis=axis, mode=self.one_of(["clip", "wrap"]))

    def repeat(self) -> Expr | None:
        x = self.pick(lambda s: 0 < len(s) <= 4 and self.fits(2 * math.prod(s)))
        if x is None:
            return None
        return self.b.repeat(x, repeats=2, axis=self.one_of(range(len(self.shape(x)))))

    def dense(self) -> Expr | None:
        x = self.pick(lambda s: len(s) >= 1)
        if x is None or not self.static(x, -1) or not self.shape(x)[-1]:
            return None
        k, units = self.shape(x)[-1], self.one_of(SIZES)
        scale = 1 / math.sqrt(k)
        if not self.fits(*self.shape(x)[:-1], units):
            return None
        if self.maybe():
            return self.b.nn.dense(x, self.leaf((units, k), scale))
        return self.b.matmul(x, self.leaf((k, units), scale))

    def batch_matmul(self) -> Expr | None:
        x = self.pick(lambda s: len(s) == 3)
        if x is None or not all(self.static(x, d) for d in (0, 1, 2)):
            return None
        n, m, _ = self.shape(x)
        if not self.fits(n, m, m):
            return None
        return self.b.multiply(self.b.nn.batch_matmul(x, x), self.b.constant(np.array(1, self.dtype)))

    def conv(self) -> Expr | None:
        x = self.pick(lambda s: len(s) == 4)
        if x is None or not self.static(x, 1):
            return None
        _, c, h, w = self.shape(x)
        kernel = self.one_of([(1, 1), (3, 3), (3, 3), (2, 3)])
        padding, strides = self.one_of([(0, 0), (1, 1), (1, 0, 2, 1)]), self.one_of([(1, 1), (1, 1), (2, 2), (2, 1)])
        dilation = self.one_of([(1, 1), (1, 1), (2, 1)])
        pads = padding * 2 if len(padding) == 2 else padding
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        if h + pads[0] + pads[2] < reach[0] or w + pads[1] + pads[3] < reach[1] or not c:
            return None
        groups = self.one_of([g for g in (1, c, 2) if c % g == 0])
        out = groups * self.one_of([1, 3, 4] if groups > 1 else SIZES)
        if not self.fits(self.shape(x)[0], out, h + 3, w + 3):
            return None
        weight = self.leaf((out, c // groups, *kernel), 1 / math.sqrt(c // groups * kernel[0] * kernel[1]))
        y = self.b.nn.conv2d(x, weight, padding=padding, strides=strides, dilation=dilation, groups=groups)
        if self.maybe():
            y = self.b.nn.bias_add(y, self.leaf((out,)))
        return self.b.nn.relu(y) if self.maybe() else y

    def conv_transpose(self) -> Expr | None:
        x = self.pick(lambda s: len(s) == 4)
        if x is None or not self.static(x, 1) or not self.shape(x)[1]:
            return None
        n, c, h, w = self.shape(x)
        out = self.one_of([1, 3, 8])
        if not self.fits(n, out, 2 * h + 3, 2 * w + 3):
            return None
        weight = self.leaf((c, out, 2, 3), 1 / math.sqrt(6 * c))
        return self.b.nn.conv2d_transpose(x, weight, strides=self.one_of([(1, 1), (2, 2)]))

    def pool2d(self) -> Expr | None:
        x = self.pick(lambda s: len(s) == 4 and min(s[2:]) >= 2)
        if x is None:
            return None
        name = self.one_of(["nn.max_pool2d"] + (["nn.avg_pool2d"] if self.dtype == "float32" else []))
        padding, strides = self.one_of([(0, 0), (1, 1), (0, 1, 1, 0)]), self.one_of([(1, 1), (2, 2)])
        return self.b.op(name)(x, pool_size=(2, 2), strides=strides, padding=padding)

    def global_pool(self) -> Expr | None:
        x = self.pick(lambda s: len(s) == 4 and min(s) >= 1)
        return None if x is None or self.dtype != "float32" else self.b.nn.global_avg_pool2d(x)

    def batch_norm(self) -> Expr | None:
        x = self.pick(lambda s: len(s) == 4)
        if x is None or self.dtype != "float32" or not self.static(x, 1):
            return None
        gamma, beta, mean, var = (random_array(self.rng, (self.shape(x)[1],), "float32") for _ in range(4))
        statistics = [self.b.constant(c) for c in (gamma, beta, mean, np.abs(var) + 0.5)]
        return self.b.get(self.b.nn.batch_norm(x, *statistics), 0)

    def cumsum(self) -> Expr | None:
        x = self.pick(lambda s: len(s) > 0)
        return None if x is None else self.b.cumsum(x, axis=self.one_of(range(len(self.shape(x)))))

    def arg(self) -> Expr | None:
        x = self.pick(lambda s: len(s) > 0 and min(s) > 0)
        if x is None or self.dtype == "float32":
            return None
        return self.b.op(self.one_of(["argmax", "argmin"]))(x, axis=self.one_of(range(len(self.shape(x)))))

    def bound(self) -> Expr | None:
        """A let."""
        x = self.pick()
        return None if x is None or isinstance(x, Var) else self.b.let(f"v{len(self.pool)}", x)

    def branch(self) -> Expr | None:
        """An If whose branches use what is outside, and compute something of their own."""
        x = self.pick()
        condition = [p for p in self.params if _dtype(p) == np.bool_ and p.ty.rank == 0]  # type: ignore[union-attr]  # tensors
        if x is None or not condition or self.depth > 1:
            return None

        def inner() -> Expr:
            kept, unused, self.depth = list(self.pool), self.unused, self.depth + 1
            self.pool, self.unused = [*self.pool, x], []
            for _ in range(self.random.randint(0, 4)):
                self.step()
            same = [e for e in self.pool if e.ty == x.ty]
            self.pool, self.unused, self.depth = kept, unused, self.depth - 1
            return self.one_of([*same, same[-1], same[-1], same[-1]])  # type: ignore[no-any-return]  # expressions

        return self.b.if_(self.one_of(condition), inner, inner)

    STEPS = (unary, unary, binary, binary, scaled, scaled, select, reduction, softmax, norm, reshape, transpose, join,
             slice, split, pad, take, repeat, dense, dense, batch_matmul, conv, conv, conv_transpose, pool2d,
             global_pool, batch_norm, cumsum, arg, bound, branch)  # fmt: skip

    def step(self) -> None:
        """Adds one tensor, if a few tries find a step that fits."""
        for _ in range(8):
            made = self.one_of(self.STEPS)(self)
            if made is not None and self.fits(*self.shape(made)):
                self.pool.append(made)
                self.unused.append(made)
                return

    def inputs(self) -> None:
        for n in range(self.random.randint(1, 3)):
            rank = self.one_of([4, 4, 4, 3, 2, 1, 0])
            shape: list[Any] = [self.one_of(SIZES) for _ in range(rank)]
            while math.prod(shape) > self.limit:
                shape[shape.index(max(shape))] //= 2
            if self.dim is not None and shape and (n == 0 or self.maybe()):
                shape[0] = self.dim
            self.params.append(self.b.var(f"x{n}", tuple(shape), self.dtype))
        self.pool += self.params
        self.params.append(self.b.var("flag", (), "bool"))


def _is_static(e: Expr) -> bool:
    return isinstance(e.ty, TensorType) and e.ty.is_static


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...] | None:
    return (*shape[:axis], *shape[axis + 1 :]) if axis < len(shape) else None


def make_program(seed: int, steps: int, limit: int, symbolic: bool) -> Program:
    """The program of `seed`: `steps` operators on tensors of up to `limit` elements."""
    random = Random(seed)
    dtype = random.choice(["float32", "float32", "int32"])
    maker = _Maker(random, np.random.default_rng(seed), dtype, limit, fresh("n", 1) if symbolic else None)
    maker.inputs()
    for _ in range(steps):
        maker.step()
    outputs = [*maker.unused[-4:], random.choice(maker.pool)]
    b = maker.b
    if len(outputs) == 1:
        body = outputs[0]
    else:
        body = b.tuple_([outputs[0], b.tuple_(outputs[1:])]) if maker.maybe() else b.tuple_(outputs)
    func = b.function(maker.params, body)
    return Program(Module.from_expr(func), tuple(maker.params), dtype == "int32", maker.dim, seed)


def called(program: Program) -> Program:
    """`program` whose @main calls what was its @main."""
    inner = program.module["main"]
    assert isinstance(inner, Function)
    others = {gv: f for gv, f in program.module.functions.items() if gv.name != "main"}
    gv, params = GlobalVar(f"f{len(others)}"), [Var(p.name, ty=p.ty) for p in inner.params]
    main = Function(tuple(params), Call(gv, tuple(params)))
    module = infer(Module({**others, gv: inner, GlobalVar("main"): main}))
    return replace(program, module=module, params=tuple(params))


def programs(*, steps: int = 24, limit: int = 4096) -> st.SearchStrategy[Program]:
    """Random programs of up to `steps` operators on tensors of up to `limit` elements."""
    return st.builds(make_program, st.integers(0, 1 << 32), st.integers(1, steps), st.just(limit), st.booleans())
