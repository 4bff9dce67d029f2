"""Programs that are compiled for sizes of their dims: bodies, how one is chosen, what they have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato.arith.expr import Var
from legato.base.errors import CompileError, LegatoError, RunError
from legato.infer.builder import Builder
from legato.ir.expr import constant
from legato.ir.module import Module
from legato.ops.linalg import matmul
from legato.runtime.executable import Executable
from legato.runtime.leaves import flat
from tools.models.record import Array

TEXT = """#[version = "0.0.5"]
def @main[n: ShapeVar(1, 600), m: ShapeVar](%x: Tensor[(n, 4), float32], %y: Tensor[(m, 4), float32]) {
  (nn.relu(%x), add(%x, sum(%y, axis=[0])))
}
"""


def compiled(**sizes: Any) -> Executable:
    return legato.compile(legato.parse(TEXT), shapes=sizes)


def floats(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def in_pair(exe: Executable, *inputs: Array) -> tuple[Array, Array]:
    """Both outputs."""
    first, second = flat(exe(*inputs))
    return first, second


def message(kind: type[LegatoError], run: Any, *args: Any, **sizes: Any) -> str:
    with pytest.raises(kind) as caught:
        run(*args, **sizes)
    return str(caught.value).removeprefix("error: ")


def test_functions_may_be_called_like_bodies() -> None:
    text = (
        TEXT.replace("@main[", "@main_for_sizes[")
        + """
def @main_for_sizes_1(%x: int32) -> int32 { %x }
def @main[n: ShapeVar(1, 600), m: ShapeVar](%x: Tensor[(n, 4), float32], %y: Tensor[(m, 4), float32]) {
  if (mean(%x) > 9f) { @main_for_sizes_1(1) } else { 0 }; @main_for_sizes(%x, %y)
}
"""
    )
    exe = legato.compile(legato.parse(text), shapes={"n": [1, 8, "1..512"]})
    for n in (1, 8, 9):
        np.testing.assert_array_equal(in_pair(exe, np.ones((n, 4), "float32"), floats(3, 4))[0], np.ones((n, 4)))


@pytest.mark.parametrize("sizes", [[8], [1, 8], [1, "1..512"]])
def test_a_main_that_calls_itself_with_other_sizes(sizes: list[int | str], tmp_path: Path) -> None:
    text = """#[version = "0.0.5"]
def @main[n: ShapeVar](%x: Tensor[(n, 4), float32], %k: int32) -> Tensor[(n, 4), float32] {
  if (%k < 1) { %x + 1f } else {
    strided_slice(@main(concatenate((%x, %x)), %k - 1), begin=[0], end=[n], axes=[0]) + @main(%x, 0)
  }
}
"""
    path = tmp_path / "program.relay"
    path.write_text(text)
    exe = legato.compile(path, shapes={"n": sizes})
    x, k = floats(8, 4), np.array(3, "int32")
    if len(sizes) == 1:
        assert legato.verify(path, [x, k], shapes={"n": 8})
    np.testing.assert_allclose(np.asarray(exe(x, k)), 4 * (x + 1), rtol=1e-6)


def test_a_main_without_dims() -> None:
    text = '#[version = "0.0.5"]\nkernel @main(x: Buffer[(4), float32]) { x[0] = 1.0f; }'
    assert "@main is a loop-level function" in message(
        CompileError, legato.compile, legato.parse(text), shapes={"n": 4}
    )


def test_bodies_for_sizes(tmp_path: Path) -> None:
    exe = compiled(n=[1, 8, "1..512"])
    assert list(exe.program.functions) == ["main", "main for n = 1", "main for n = 8", "main for 1 <= n <= 512"]
    exe.save(tmp_path / "program.legato")
    for run in (exe, legato.load(tmp_path / "program.legato"), exe.with_threads(1)):
        assert [str(tensor) for tensor in run.inputs] == [
            "x: float32[n, 4] where n = 1 or n = 8 or 1 <= n <= 512",
            "y: float32[m, 4]",
        ]
        for n in (1, 2, 8, 512):
            x, y = floats(n, 4), floats(3, 4)
            relu, total = in_pair(run, x, y)
            assert np.array_equal(relu, np.maximum(x, 0))
            np.testing.assert_allclose(total, x + y.sum(axis=0), atol=1e-5)
            named = run.run({"x": x, "y": y}, out={"output0": np.empty_like(x)})
            assert np.array_equal(named["output0"], relu)


def test_one_size_is_no_choice() -> None:
    assert [str(tensor) for tensor in compiled(n=8, m="2..").inputs] == [
        "x: float32[8, 4]",
        "y: float32[m, 4] where 2 <= m",
    ]


def test_memory_is_that_of_the_body() -> None:
    text = TEXT.replace("(nn.relu(%x), add", "(nn.softmax(nn.softmax(%x, axis=0), axis=1), add")
    exe = legato.compile(legato.parse(text), shapes={"n": [4, "1..600"]})
    assert exe.peak_memory.formula.startswith("select(n == 4, ")
    static = legato.compile(legato.parse(text), shapes={"n": 4})
    assert exe.peak_memory(n=4, m=1) == static.peak_memory(m=1)


def test_sizes_that_there_is_no_body_for() -> None:
    exe = compiled(n=[1, 8], m=["2..4", 7])
    assert [tensor.where for tensor in exe.inputs] == ["n = 1 or n = 8", "2 <= m <= 4 or m = 7"]
    assert message(RunError, exe, floats(5, 4), floats(5, 4)) == (
        "the program was not compiled for these sizes\n"
        '  got:    n = 5 (dimension 0 of input "x"), m = 5 (dimension 0 of input "y")\n'
        "  wanted: n = 1, 2 <= m <= 4; n = 1, m = 7; n = 8, 2 <= m <= 4; n = 8, m = 7"
    )
    assert message(RunError, exe, floats(9, 4), floats(5, 4)) == (
        'input "x": dimension 0 is out of range\n  got:    9\n  wanted: 1 <= n <= 8'
    )


def test_weights_are_there_once() -> None:
    """Each body's kernels want them packed in the same way."""
    weight, b = floats(300, 256), Builder()
    x = b.var("x", (Var("n", lo=0), 300))
    mod = Module.from_expr(b.function([x], b.call(matmul, x, constant(weight))))
    plain, several = legato.compile(mod), legato.compile(mod, shapes={"n": [64, "1..512"]})
    assert several.weight_bytes == plain.weight_bytes
    a = floats(64, 300)
    np.testing.assert_array_equal(several(a), plain(a))


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        (
            {"k": 3},
            "shapes: the program has no input and no dim 'k'\n  hint: its dims: n, m",
        ),
        ({"n": 700}, "shapes['n']: 700 is out of the program's own range, 1 <= n <= 600"),
        ({"n": "700..800"}, "shapes['n']: 700..800 is out of the program's own range, 1 <= n <= 600"),
        ({"n": "9..3"}, "shapes['n']: the range '9..3' is empty"),
        (
            {"n": []},
            "shapes['n']: no size is given\n  hint: give sizes and ranges, as in shapes={'n': [1, 8, '1..512']}",
        ),
        (
            {"n": list(range(1, 9)), "m": list(range(1, 9))},
            "shapes: 64 combinations of sizes, but 32 at most are compiled into one program\n"
            "  hint: a range serves all sizes in it",
        ),
        (
            {"n": ["h", 4]},
            "shapes are given for ONNX models; a program in Relay has its own\n"
            "  hint: sizes of its dims can be given: shapes={'n': [1, 8, '1..512']}",
        ),
    ],
)
def test_sizes_that_are_refused(sizes: dict[str, Any], expected: str) -> None:
    assert message(CompileError, compiled, **sizes) == expected


def test_sizes_that_constraints_exclude() -> None:
    text = """#[version = "0.0.5"]
def @main(%x: Tensor[(n, 4), float32], %positions: Tensor[(512, 4), float32]) {
  add(%x, strided_slice(%positions, begin=[0], end=[n], axes=[0]))
}
"""
    exe = legato.compile(legato.parse(text))
    assert exe.inputs[0].where == "0 <= n <= 512"  # what the sum asks for
    wrong = message(CompileError, lambda: legato.compile(legato.parse(text), shapes={"n": [1, 513]}))
    assert wrong == "shapes['n']: 513 is out of the program's own range, 0 <= n <= 512"


def test_data_of_tensors_with_the_dims(tmp_path: Path) -> None:
    """Bodies differ in the sizes of what values hold, given and returned."""
    text = """
    def @main(%l: List[Tensor[(n, 2), float32]], %x: Tensor[(n, 2), float32]) {
      match (%l) { Cons(%y, _) => Cons(%x + %y, %l), Nil => Cons(%x, Nil) }
    }
    """
    exe = legato.compile(legato.parse('#[version = "0.0.5"]' + text), shapes={"n": [1, 3]})
    exe.save(tmp_path / "a.legato")
    for program in (exe, legato.load(tmp_path / "a.legato")):
        nil, cons = program.constructors["Nil"](), program.constructors["Cons"]
        for n in (1, 3):
            x = np.full((n, 2), n, np.float32)
            first, rest = program(cons(x, nil), x).fields
            assert (first == 2 * n).all()
            assert first.shape == rest.fields[0].shape == (n, 2)
