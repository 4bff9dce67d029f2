"""The memory plan: while a buffer's value is still to be read, nothing else is written where it lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato.arith.evaluate import evaluate
from legato.arith.expr import Binary, Expr, Op, Var, const
from legato.arith.substitute import nodes
from legato.base import dtype as dt
from legato.interp import evaluate as interpret
from legato.lower.flow import Flow
from legato.lower.hosts.program import HostProgram
from legato.lower.lives import Lives, Sharing, buffer_bytes
from legato.lower.plan import plan_memory
from legato.tir.buffer import Buffer
from legato.tir.expr import Address, Load
from legato.tir.stmt import Alloc, Block, Check, Func, HostOp, If, Invoke, Launch, Stmt, Store, View, While
from legato.tir.walk import buffers_written, statements
from tests.graphs import BATCHES, Program, leaves, programs
from tests.lower.programs import lowered
from tests.lower.test_programs import LOOP
from tests.lower.test_random import examples

Call = Launch | Invoke | HostOp


class RefusedError(Exception):
    """A Check of the program failed."""


def conjuncts(cond: Expr) -> list[Expr]:
    """What must hold for `cond`, part by part."""
    if isinstance(cond, Binary) and cond.op is Op.AND:
        return [*conjuncts(cond.a), *conjuncts(cond.b)]
    return [cond]


def is_whole(e: Expr) -> bool:
    """True if no float is in `e`: those bound sizes that machine integers might not hold, which is not simulated."""
    return not any(n.dtype.is_float for n in nodes(e))


@dataclass(eq=False)
class Simulation:
    """Runs a host function's statements without computing: to which buffer does each byte of the arena belong?

    Every branch is taken both ways and every loop body twice: what is read must be there whatever happened before.
    """

    program: HostProgram
    dims: Mapping[Var, int]
    owner: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    place: dict[Buffer, tuple[str, int, np.ndarray[Any, Any]]] = field(
        default_factory=dict
    )  # and the bytes from there on
    number: dict[Buffer, int] = field(default_factory=dict)

    def value(self, e: Expr) -> int:
        return int(evaluate(e, self.dims))

    def run(self, s: Stmt) -> None:
        match s:
            case Block():
                for inner in s.stmts:
                    self.run(inner)
            case Alloc():
                self.owner[s.buffer.name] = np.zeros(self.value(s.buffer.elements()), np.int64)
                self.run(s.body)
            case View():
                self.view(s)
                self.run(s.body)
            case If():
                self.branch(s)
            case While():
                for _ in range(2):
                    self.read_in(s.cond)
                    self.run(s.body)
                self.read_in(s.cond)
            case Check():
                if not all(evaluate(c, self.dims) for c in conjuncts(s.cond) if is_whole(c)):
                    raise RefusedError
            case Store():
                self.write(s.buffer)
            case Launch() | Invoke() | HostOp():
                self.call(s)
            case _:
                raise AssertionError(f"unexpected {type(s).__name__}")

    def branch(self, s: If) -> None:
        match s.cond:
            case Binary(a=Address(buffer=a), b=Address(buffer=b)) if self.same_place(a, b):
                self.read(a)  # and left where it is, as `b`
                self.write(b)
            case Binary(a=Address(), b=Address()):
                self.run(s.then)
            case _:
                self.read_in(s.cond)
                self.branches(s)

    def share(self, a: Any, b: Any) -> None:
        """Parameters `a` and `b` are the same memory, which holds `a`."""
        for buffer in (a, b):
            self.place[buffer] = (a.name, 0, self.bytes_of(a))
            self.number[buffer] = len(self.number) + 1
        self.owner[a.name] = np.full(self.value(buffer_bytes(a)), self.number[a])

    def branches(self, s: If) -> None:
        before = {name: array.copy() for name, array in self.owner.items()}
        self.run(s.then)
        after_then, self.owner = self.owner, dict(before)  # what a branch allocates ends with it
        if s.orelse is not None:
            self.run(s.orelse)
        self.owner = {name: array for name, array in self.owner.items() if name in after_then and name in before}
        for name, array in self.owner.items():
            array[array != after_then[name]] = -1  # whose it is depends on the branch: nobody may read it

    def view(self, s: View) -> None:
        start, size = self.value(s.offset), self.value(buffer_bytes(s.buffer))
        if s.base in self.place:
            return self.inner_view(s, start)
        if s.base.name not in self.owner:
            return None  # what lies in a parameter or a constant is nobody else's
        assert start % 64 == 0
        assert start + size <= len(self.owner[s.base.name]), f"{s.buffer.name} does not fit into the arena"
        self.place[s.buffer] = (s.base.name, start, self.bytes_of(s.buffer))
        self.number[s.buffer] = len(self.number) + 1
        return None

    def inner_view(self, s: View, start: int) -> None:
        """A part of another buffer has the number of that one: it may be read when all of its parts are written."""
        arena, first, whole = self.place[s.base]
        own = self.bytes_of(s.buffer) + start
        assert np.isin(own, whole).all(), f"{s.buffer.name} does not lie in {s.base.name}"
        self.place[s.buffer] = (arena, first, own)
        self.number[s.buffer] = self.number[s.base]

    def bytes_of(self, b: Buffer) -> np.ndarray[Any, Any]:
        """The bytes of the elements of `b` and its halo, from its start on."""
        found = np.zeros((), np.int64)
        for d, stride in enumerate(b.strides()):
            extent = self.value(b.shape[d]) + sum(b.layout.halo_of(d))
            found = found[..., None] + np.arange(extent) * self.value(stride)
        return (found.reshape(-1, 1) * b.dtype.bytes + np.arange(b.dtype.bytes)).reshape(-1)

    def call(self, s: Call) -> None:
        buffers = [a for a in s.args if isinstance(a, Buffer)]
        written = written_args(s, self.program)
        read = [b for b in buffers if b not in written]
        for b in read:
            self.read(b)
        for b in written:
            self.write(b)
        shared = () if isinstance(s, HostOp) else self.program.in_place(s.kernel if isinstance(s, Launch) else s.func)
        replaced = [s.args[i] for i, o in shared if self.same_place(s.args[i], s.args[o])]
        for b in read:
            if b not in replaced:
                self.read(b)  # a kernel may write before it has read everything

    def same_place(self, a: Any, b: Any) -> bool:
        """Whether two buffers lie in the arena and at the same place."""
        if a not in self.place or b not in self.place:
            return False
        (name, start, own), (other, begin, its) = self.place[a], self.place[b]
        return name == other and np.array_equal(start + own, begin + its)

    def read_in(self, e: Expr) -> None:
        assert isinstance(e, Load)
        self.read(e.buffer)

    def read(self, b: Buffer) -> None:
        if b in self.place:
            name, start, own = self.place[b]
            owners = set(self.owner[name][start + own].tolist())
            assert owners <= {self.number[b]}, f"{b.name} is read, but its memory is not its own"

    def write(self, b: Buffer) -> None:
        if b in self.place:
            name, start, own = self.place[b]
            self.owner[name][start + own] = self.number[b]


def written_args(s: Call, program: HostProgram) -> list[Buffer]:
    """The buffers that a call writes."""
    if isinstance(s, HostOp):
        buffers = [a for a in s.args if isinstance(a, Buffer)]
        return buffers[len(program.host_ops[s.op].inputs) :]
    name = s.kernel if isinstance(s, Launch) else s.func
    callee = {**program.kernels, **program.functions}[name]
    stored = written_params(callee, program, frozenset())
    return [a for p, a in zip(callee.params, s.args, strict=True) if isinstance(a, Buffer) and p in stored]


def written_params(func: Func, program: HostProgram, above: frozenset[str]) -> set[Any]:
    """The parameters that a function stores to, itself or in what it calls."""
    found: set[Any] = set(buffers_written(func.body))
    for s in statements(func.body):
        if isinstance(s, Launch | HostOp) or (isinstance(s, Invoke) and s.func not in above | {func.name}):
            found |= set(written_args(s, program))
    return found & set(func.params)


def simulate(loops: HostProgram, size: int) -> None:
    """Simulates every host function with all its dims `size`, on memory that it shares with its caller or does not."""
    for name, func in loops.functions.items():
        shared = [(func.params[i], func.params[o]) for i, o in loops.in_place(name)]
        for pairs in ((), shared) if shared else ((),):
            simulation = Simulation(loops, {v: size for v in func.params if isinstance(v, Var)})
            for a, b in pairs:
                simulation.share(a, b)
            simulation.run(func.body)
            for _, result in pairs:
                assert isinstance(result, Buffer)
                simulation.read(result)


@examples(40)
@given(programs(), st.sampled_from(BATCHES))
def test_nothing_alive_is_overwritten(program: Program, batch: int) -> None:
    try:
        simulate(lowered(program.module), batch)
    except RefusedError:
        return  # dims that the program does not take


CALLS = """
    def @pair(%c: bool, %x: Tensor[(n, 4), float32]) {
      let %a = tanh(%x);
      let %b = if (%c) { (nn.softmax(%a), %a) } else { (%a, nn.softmax(nn.softmax(%x, axis=0), axis=0)) };
      (nn.softmax(%b.0, axis=0), %a, %b.1)
    }
    def @main(%c: bool, %x: Tensor[(m, 4), float32]) {
      let %p = @pair(%c, %x);
      let %q = @pair(%c, nn.softmax(add(%p.0, %p.2), axis=0));
      (nn.softmax(%q.2, axis=0), nn.softmax(%p.1, axis=0))
    }"""
SWAP = """
    def @loop(%i: int32, %x: Tensor[(n,), float32], %y: Tensor[(n,), float32]) -> (Tensor[(n,), float32], int32) {
      if (less(%i, 3)) { @loop(add(%i, 1), %y, nn.softmax(add(nn.softmax(%x), %y))) } else { (%x, %i) }
    }
    def @main(%x: Tensor[(n,), float32]) { @loop(0, %x, %x) }"""


@pytest.mark.parametrize("text", [LOOP, CALLS, SWAP])
def test_calls_branches_and_loops(text: str) -> None:
    simulate(lowered(legato.parse(f'#[version = "0.0.5"]\n{text}')), 3)


def test_a_bad_plan_is_noticed() -> None:
    loops = lowered(legato.parse(f'#[version = "0.0.5"]\n{CALLS}'))

    def flattened(s: Stmt) -> Stmt:
        """`s` with every buffer at the start of the arena."""
        s = s.with_children(tuple(map(flattened, s.children())))
        return View(s.buffer, s.base, const(0), s.body) if isinstance(s, View) and s.base.name == "arena" else s

    loops.functions = {name: f.with_body(flattened(f.body)) for name, f in loops.functions.items()}
    with pytest.raises(AssertionError, match="its memory is not its own"):
        simulate(loops, 3)


def test_memory_is_shared() -> None:
    """A chain of tensors needs the room of two."""
    buffers = [Buffer(f"b{n}", (const(100),), dt.float32) for n in range(20)]
    steps = [Launch((a, b), "k") for a, b in pairwise(buffers)]
    func = Func("f", (), Block(tuple(steps)))
    _, plan = plan_memory(func, buffers)
    assert plan.size is const(2 * 448)


RESIDUAL = """
    def @main(%x: Tensor[(n, 16, 5, 5), float32], %w: Tensor[(16, 16, 1, 1), float32]) {
      let %a = nn.relu(nn.conv2d(%x, %w));
      let %b = nn.relu(add(nn.conv2d(%a, %w), %a));
      let %c = nn.relu(add(nn.conv2d(nn.conv2d(%b, %w), %w), %b));
      let %d = add(nn.conv2d(nn.conv2d(%c, %w), %w), %x);
      (nn.conv2d(%d, %w), %a, nn.softmax(%b))
    }"""


def test_what_dies_is_written_over() -> None:
    """`%c` is not: `%b` is read again. `%d` is not: `%x` is the caller's."""
    mod = legato.parse(f'#[version = "0.0.5"]\n{RESIDUAL}')
    chain = legato.parse(f'#[version = "0.0.5"]\n{RESIDUAL.replace("(nn.conv2d(%d, %w), %a, nn.softmax(%b))", "%d")}')
    for module, expected in ((mod, 0), (chain, 1)):
        program = lowered(module)
        simulate(program, 3)
        assert len(written_over(program)) == expected
        exe = legato.compile(module)
        random = np.random.default_rng(0)
        x, w = (random.standard_normal(shape).astype("float32") / 4 for shape in ((3, 16, 5, 5), (16, 16, 1, 1)))
        before, wanted = x.copy(), leaves(interpret(module, [x, w]))
        for threads in (1, 4):
            for got, want in zip(leaves(exe.with_threads(threads)(x, w)), wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(x, before)


def written_over(program: HostProgram) -> list[str]:
    """The kernels that are given the same memory for an input and an output."""
    func = program.functions["main"]
    places: dict[object, tuple[Buffer, Expr]] = {
        s.buffer: (s.base, s.offset) for s in statements(func.body) if isinstance(s, View)
    }
    launches = [s for s in statements(func.body) if isinstance(s, Launch)]
    pairs = [(s.kernel, s.args[i], s.args[o]) for s in launches for i, o in program.facts[s.kernel].in_place]
    return [name for name, a, b in pairs if a in places and places[a] == places.get(b)]


def test_copies_of_copies_take_steps_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of copies, each of which is changed before the next, is one buffer, found in steps for each."""
    steps: dict[Any, int] = {Lives._is_shared: 0, Flow.reaches: 0}
    for cls, counted in ((Lives, Lives._is_shared), (Flow, Flow.reaches)):

        def count(*args: Any, counted: Any = counted) -> Any:
            steps[counted] += 1
            return counted(*args)

        monkeypatch.setattr(cls, counted.__name__, count)
    found = []
    for length in (50, 100):
        buffers = [Buffer(f"b{n}", (const(100),), dt.float32) for n in range(length)]
        chain = [Launch((a, b), "copy") for a, b in pairwise(buffers)]
        body = Block(tuple(s for copy in chain for s in (copy, Launch((copy.args[1],), "changed"))))
        func, plan = plan_memory(Func("f", (), body), buffers, sharing=Sharing(lambda _: (), {"copy"}))
        assert plan.size is const(448)
        assert all(s.kernel == "changed" for s in statements(func) if isinstance(s, Launch))
        found.append(sum(steps.values()))
    assert found[1] - found[0] < 2.1 * found[0]
