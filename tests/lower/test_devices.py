"""Compiled programs on several devices: an arena for each, copies between them, and no kernel that reads of two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import legato
from legato.base.errors import UnsupportedError, VerifyError
from legato.base.node import transform
from legato.base.target import host
from legato.driver import CompileOptions, compile_module, lower_module
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.devices import DEVICE_COPY
from legato.ir.expr import Call, Expr, Function
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.lower.hosts.program import HostProgram
from legato.ops import table
from legato.pipelines import DEFAULT
from legato.tir.buffer import Buffer
from legato.tir.stmt import Func, HostOp, Launch, View
from legato.tir.walk import statements
from legato.transform.pass_ import Observer, run
from legato.transform.plan_devices import PlanDevices
from tests.graphs import Program, compare, leaves, programs
from tests.lower.test_whole_programs import REFUSED, agrees, flat, passable
from tests.placed import placed
from tests.programs import strategy as language
from tests.programs.settings import examples


def module(text: str) -> Module:
    return infer(parse(f'#[version = "0.0.5"]\n{text}', ops=table()))


def lowered(mod: Module) -> HostProgram:
    return lower_module(run(mod, DEFAULT), CompileOptions(host()), Observer())[1]


def arenas(func: Func) -> dict[Buffer, str]:
    """In which arena buffers lie, through all views."""
    found: dict[Buffer, str] = {}
    for stmt in statements(func.body):
        if isinstance(stmt, View):
            name = found.get(stmt.base, stmt.base.name)
            if name.startswith("arena"):
                found[stmt.buffer] = name
    return found


def require_apart(program: HostProgram) -> int:
    """Every kernel has its buffers in one arena, but those that copy between devices; the number of these launches."""
    count = 0
    for func in program.functions.values():
        inside = arenas(func)
        for stmt in statements(func.body):
            if not isinstance(stmt, Launch | HostOp):
                continue
            if isinstance(stmt, Launch) and stmt.kernel.startswith("device_copy"):
                count += 1
                source, target = (inside.get(b) if isinstance(b, Buffer) else None for b in stmt.args[:2])
                assert source is None or source != target
                continue
            used = {inside[b] for b in stmt.args if isinstance(b, Buffer) and b in inside}
            assert len(used) < 2, f"{stmt} of {used}"
    return count


@examples(10)
@given(programs(steps=10, limit=256), st.integers(0, 1 << 30))
def test_compiled_is_interpreted(program: Program, seed: int) -> None:
    said, planned = placed(infer(program.module), seed)
    require_apart(lowered(planned))
    args = program.arguments()
    executable = compile_module(planned, CompileOptions(host())).executable
    compare(executable(*args), replace(program, module=said), args)


@examples(25)
@given(language.programs(size=40), st.integers(0, 1 << 30))
def test_language_programs_are_lowered(program: language.Program, seed: int) -> None:
    assume(not program.gives_functions)
    require_apart(lowered(placed(program.module, seed)[1]))


@examples(8)
@given(language.programs(20, smooth=True), st.integers(0, 1 << 30))
def test_compiled_language_programs(program: language.Program, seed: int) -> None:
    said, planned = placed(infer(passable(program)), seed)
    try:
        executable = compile_module(planned, CompileOptions(host())).executable
    except UnsupportedError as error:
        assume(not any(what in str(error) for what in REFUSED))
        raise
    assert agrees(executable(*flat(program.args)), evaluate(said, program.args))


CHAIN = """
def @main(%x: Tensor[(30,), float32], %y: Tensor[(30,), float32]) {
  %0 = on_device(multiply(%x, %y), virtual_device="cuda:1");
  %1 = on_device(exp(add(%0, %0)), virtual_device="cpu");
  nn.softmax(on_device(sqrt(%1), virtual_device="cuda:1"))
}"""
X, Y = (np.linspace(a, b, 30, dtype=np.float32) for a, b in ((0, 1), (2, 3)))


def test_each_device_has_an_arena() -> None:
    program = lowered(PlanDevices(primary="cuda")(module(CHAIN)))
    assert require_apart(program) == 3
    sizes = {str(device): str(size) for device, size in program.plans["main"].arenas.items()}
    assert sizes == {"cuda:0": "128", "cpu:0": "128", "cuda:1": "128"}
    assert str(program.plans["main"].size) == "384"
    text = str(program.functions["main"])
    assert all(f"alloc {name}: Buffer[(128,), uint8]" in text for name in ("arena", "arena_cuda_0", "arena_cuda_1"))


def test_without_a_plan_the_default_passes_make_one() -> None:
    mod = module(CHAIN)
    wanted = evaluate(mod, [X, Y])
    for one in (mod, PlanDevices(primary="cuda")(mod)):
        np.testing.assert_allclose(legato.compile(one)(X, Y), wanted, rtol=1e-5)
    others = tuple(p for p in DEFAULT if not isinstance(p, PlanDevices))
    with pytest.raises(UnsupportedError, match="on_device, which the pass plan-devices takes away"):
        legato.compile(mod, passes=others)


def test_constants_are_where_they_are_read() -> None:
    weight = np.arange(30, dtype=np.float32)
    mod = module(
        """def @main(%x: Tensor[(30,), float32]) {
          %0 = on_device(add(%x, meta[relay.Constant][0]), virtual_device="cuda");
          multiply(on_device(exp(%0), virtual_device="cpu"), meta[relay.Constant][0])
        }
        #[metadata]
        {"relay.Constant": [{"dtype": "float32", "shape": [30], "data": """
        + f"{weight.tolist()}"
        + "}]}"
    )
    program = lowered(mod)
    func = program.functions["main"]
    read = [stmt for stmt in statements(func.body) if isinstance(stmt, Launch)]
    constants = dict(func.constants)
    names = [constants[b] for stmt in read for b in stmt.args if isinstance(b, Buffer) and b in constants]
    assert len(names) == len(set(names)) == 2
    assert set(program.constants) == set(names)
    np.testing.assert_allclose(legato.compile(mod)(X), evaluate(mod, [X]), rtol=1e-5)


PROGRAMS: Mapping[str, tuple[str, list[Any]]] = {
    "closures of one type on two devices": (
        """def @main(%c: bool, %x: Tensor[(30,), float32], %y: Tensor[(30,), float32]) {
          let %f = if (%c) { fn (%a: Tensor[(30,), float32]) { on_device(negative(%a), virtual_device="cuda") } }
                   else { fn (%a: Tensor[(30,), float32]) { on_device(exp(%a), virtual_device="cuda") } };
          let %g = if (%c) { fn (%a: Tensor[(30,), float32]) { on_device(sqrt(%a), virtual_device="cuda:1") } }
                   else { fn (%a: Tensor[(30,), float32]) { on_device(abs(%a), virtual_device="cuda:1") } };
          (%f(%x), %g(%y), %f(%f(%x)))
        }""",
        [np.array(False), X, Y],
    ),
    "constants in branches": (
        """def @main(%c: bool, %x: Tensor[(2,), float32]) {
          let %y = on_device(negative(%x), virtual_device="cuda:1");
          let %t = if (%c) { (%y, meta[relay.Constant][0]) } else { (meta[relay.Constant][0], %y) };
          (%t.0, on_device(exp(%t.1), virtual_device="cuda:1"))
        }
        #[metadata]
        {"relay.Constant": [{"dtype": "float32", "shape": [2], "data": [1.0, 2.0]}]}""",
        [np.array(True), X[:2]],
    ),
    "a loop": (
        """def @loop(%n: int32, %x: Tensor[(30,), float32]) -> Tensor[(30,), float32] {
          if (less_equal(%n, 0)) { %x } else {
            %0 = on_device(add(%x, %x), virtual_device="cuda");
            @loop(subtract(%n, 1), on_device(sqrt(on_device(%0, virtual_device="cpu")), virtual_device="cpu")) }
        }
        def @main(%n: int32, %x: Tensor[(30,), float32]) { @loop(%n, %x) }""",
        [np.int32(3), X],
    ),
    "a list": (
        """type List[A] { Cons(A, List[A]), Nil }
        def @sum(%xs: List[Tensor[(30,), float32]]) -> Tensor[(30,), float32] {
          match (%xs) {
            Cons(%x, %rest) => on_device(add(%x, @sum(%rest)), virtual_device="cuda:1", constrain_result=True),
            Nil => zeros(shape=[30], dtype="float32") }
        }
        def @main(%x: Tensor[(30,), float32], %y: Tensor[(30,), float32]) {
          let %ys = Cons(on_device(%y, virtual_device="cpu"), Nil);
          let %xs = Cons(on_device(negative(%x), virtual_device="cuda"), %ys);
          on_device(@sum(%xs), virtual_device="cuda:1", constrain_result=False)
        }""",
        [X, Y],
    ),
    "a cell and a closure": (
        """def @main(%x: Tensor[(30,), float32], %y: Tensor[(30,), float32], %c: bool) {
          let %r = ref(on_device(negative(%x), virtual_device="cuda"));
          let %f = fn (%a: Tensor[(30,), float32]) { ref_write(%r, %a); on_device(exp(%a), virtual_device="cuda") };
          let %z = %f(on_device(sqrt(%y), virtual_device="cpu"));
          if (%c) { (on_device(ref_read(%r), virtual_device="cuda"), %z) }
          else { (%z, on_device(%y, virtual_device="cpu")) }
        }""",
        [X, Y, np.array(True)],
    ),
    "extents": (
        """def @main(%x: Tensor[(n,), float32]) {
          let %y = on_device(greater(%x, 0.5f), virtual_device="cuda");
          let %i = on_device(argwhere(%y), virtual_device="cuda");
          %0 = cast(on_device(take(shape_of(%i), 0), virtual_device="cpu"), dtype="float32");
          (%i, add(%0, on_device(negative(%x), virtual_device="cuda")))
        }""",
        [X],
    ),
    "views": (
        """def @main(%x: Tensor[(2, 30), float32], %y: Tensor[(3, 30), float32]) {
          %0 = on_device(concatenate((exp(%x), negative(%y))), virtual_device="cuda");
          %1 = split(%0, indices_or_sections=[1, 4]);
          (add(%1.0, %1.0), on_device(sqrt(on_device(%1.1, virtual_device="cuda:1")), virtual_device="cuda:1"), %1.2)
        }""",
        [np.stack([X, Y]), np.stack([X, Y, X])],
    ),
    "nothing but a copy": (
        """def @main(%x: Tensor[(30,), float32]) { on_device(%x, virtual_device="cuda", constrain_result=False) }""",
        [X],
    ),
    "a parameter for two": (
        """def @main(%x: Tensor[(30,), float32]) {
          %0 = on_device(%x, virtual_device="cuda/shared");
          (exp(%0), on_device(add(on_device(%x, virtual_device="cuda/shared"), %0), virtual_device="cuda:1"))
        }""",
        [X],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, tmp_path: Path) -> None:
    text, args = PROGRAMS[name]
    mod = module(text)
    wanted = evaluate(mod, args)
    program = lowered(mod)
    require_apart(program)
    executable = legato.compile(mod)
    executable.save(tmp_path / "m.legato")
    for run_it in (executable, legato.load(tmp_path / "m.legato")):
        for got, one in zip(leaves(run_it(*args)), leaves(wanted), strict=True):
            np.testing.assert_allclose(got, one, rtol=1e-5)


@pytest.mark.parametrize("n", range(3))
def test_a_copy_less_is_found(n: int) -> None:
    """The last check, of what is lowered, finds what a pass behind the plan does wrong."""
    mod = run(PlanDevices(primary="cuda")(module(CHAIN)), DEFAULT)
    seen = 0

    def drop(node: Expr) -> Expr | None:
        nonlocal seen
        if not isinstance(node, Call) or node.op is not DEVICE_COPY:
            return None
        seen += 1
        return node.args[0] if seen == n + 1 else None

    main = transform(mod["main"], drop)  # type: ignore[type-var, arg-type]  # a function
    assert isinstance(main, Function)
    wrong = mod.with_function(mod.var("main"), main)
    with pytest.raises(VerifyError, match=r"lies on .*, wanted on "):
        lower_module(wrong, CompileOptions(host()), Observer())
