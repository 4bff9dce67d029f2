"""Hints of errors, tried: what is refused, what the error says would work instead, and that it does.

Where the hint is written as code (shapes={…}, x.astype(…), --shape …), that text itself is what is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import legato
from legato import cli
from legato.errors import LegatoError
from legato.ops._families import unary
from legato.te import math as te

# By their texts in the sources, hints that the tests below try, and no case of `tried/`.
TRIED = frozenset(
    {
        "give what decides it for good, as in {}",
        "say what {} is, as in {}",
        "give one: {}",
        "{}: {} ({})",
        "a converter of your own for each: {}; or {}",
        'torch.compile(module, backend="legato"), which leaves them to PyTorch',
    }
)
HEAD = '#[version = "0.0.5"]\n'
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)
RELU = "def @main(%x: Tensor[(n, 2), float32]) { nn.relu(%x) }"
thrice = unary("my.thrice", lambda x: x * 3, lambda x: x * te.literal(3, x), doc="Three times.")


def parsed(text: str, **options: Any) -> Any:
    return legato.parse(HEAD + text, **options)


def compiled(text: str, **options: Any) -> Any:
    return legato.compile(parsed(text), **options)


def said(refused: Callable[[], object]) -> str:
    """What the error says."""
    with pytest.raises(LegatoError) as error:
        refused()
    return str(error.value)


# ------------------------------------------------------------------ programs in Relay


@dataclass(frozen=True)
class Program:
    """A program that is refused, the hint, and what the program is when the hint is followed."""

    refused: str
    hint: str
    followed: tuple[str, ...]
    run: Callable[..., Any] = parsed
    options: Any = None

    def attempt(self, text: str) -> Any:
        return self.run(text, **(self.options or {}))


F = "let %f = fn (%y: Tensor[(n, 2), float32]{}) {{ nn.relu(%y) }};"
PROGRAMS = [
    Program("def @main(%x: float32) { %x + 1 }", "write 1f, or use cast on one of them",
            ("def @main(%x: float32) { %x + 1f }", 'def @main(%x: float32) { %x + cast(1, dtype="float32") }')),
    Program("def @main(%x: Tensor[(2,), float32]) { nn.rleu(%x) }", "did you mean `nn.relu`",
            ("def @main(%x: Tensor[(2,), float32]) { nn.relu(%x) }",)),
    Program("def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(3, 2), float32]) { nn.dense(%x, %w) }",
            "transpose it, or use matmul",
            ("def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(3, 2), float32]) { nn.dense(%x, transpose(%w)) }",
             "def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(3, 2), float32]) { nn.matmul(%x, %w) }")),
    Program("type C { Red, Blue }\ndef @main(%c: C[]) { match (%c) { Red => 1f } }",
            "add clauses, or `_ => …` for all of them; match? need not cover every case",
            ("type C { Red, Blue }\ndef @main(%c: C[]) { match (%c) { Red => 1f, Blue => 2f } }",
             "type C { Red, Blue }\ndef @main(%c: C[]) { match (%c) { Red => 1f, _ => 2f } }",
             "type C { Red, Blue }\ndef @main(%c: C[]) { match? (%c) { Red => 1f } }")),
    Program("def @main(%f: fn (float32) -> float32, %x: float32) { %f(%x) }",
            "call them inside, or let @main take and give what they take and give",
            ("def @main(%x: float32) { let %f = fn (%y: float32) { %y }; %f(%x) }",
             "def @main(%y: float32) -> float32 { %y }"), compiled),
    Program("def @main(%x) { %x }", "annotate its parameters and its result",
            ("def @main(%x: Tensor[(n,), float32]) -> Tensor[(n,), float32] { %x }",), compiled),
    Program("def @main(%r: ref(float32)) { ref_read(%r) }",
            "read references inside, and let @main take and give what they hold",
            ("def @main(%x: float32) { ref_read(ref(%x)) }",), compiled),
    Program(f"def @main(%x: Tensor[(n, 2), float32]) {{ {F.format('')} %f(%x) }}",
            "the default passes (passes=None) take away what is none of compiled code",
            (), compiled, {"passes": []}),
    Program("def @main(%x: Tensor[(n, 2), float32]) { "
            + F.format(', Compiler="c", Primitive=1, global_symbol="g"') + " %f(%x) }",
            "without the attribute Compiler Legato compiles it",
            (f"def @main(%x: Tensor[(n, 2), float32]) {{ {F.format('')} %f(%x) }}",), compiled),
    Program(RELU, "did you mean fuse or defuse?", (), compiled, {"passes": "fusee"}),
    Program(RELU, "one of default, exact, fast, bfloat16", (), compiled, {"precision": "fats"}),
    Program(RELU, "one of host, x86-64-v2, x86-64-v3, x86-64-v4", (), compiled, {"target": "z80"}),
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.hint[:40])
def test_programs(program: Program) -> None:
    assert program.hint in said(lambda: program.attempt(program.refused)).split("hint: ")[1]
    for text in program.followed:
        program.attempt(text)


def test_options_that_hints_name() -> None:
    """Each of the names that stand in the hint is taken."""
    text = said(lambda: compiled(RELU, precision="fats"))
    for name in text.split("one of ")[1].split(", "):
        compiled(RELU, precision=name)
    text = said(lambda: compiled(RELU, passes="fusee"))
    for name in text.split("did you mean ")[1].rstrip("?").split(" or "):
        compiled(RELU, passes=["default", name])
    text = said(lambda: compiled(RELU, keep=["lunch"]))
    names = text.split("one of ")[1].split(";")[0].split(", ")
    exe = compiled(RELU, keep=names)
    assert all(exe.module_after(name) for name in names)
    text = said(lambda: compiled(f"def @main(%x: Tensor[(n, 2), float32]) {{ {F.format('')} %f(%x) }}", passes=[]))
    assert "passes=None" in text
    compiled(f"def @main(%x: Tensor[(n, 2), float32]) {{ {F.format('')} %f(%x) }}", passes=None)


def test_generators_that_hints_ask_for() -> None:
    text = "def @main(%x: Tensor[(n, 2), float32]) { "
    text += F.format(', Compiler="c", Primitive=1, global_symbol="g"') + " %f(%x) }"
    assert "give it, generators=[…]" in said(lambda: compiled(text))
    from legato.generators import CSource

    np.testing.assert_array_equal(compiled(text, generators=[CSource()])(X), np.maximum(X, 0))


def test_operators_that_hints_ask_for(tmp_path: Path) -> None:
    from dataclasses import replace

    own = replace(thrice, compute=None)
    exe = legato.compile(parsed("def @main(%x: Tensor[(3, 2), float32]) { my.thrice(%x) }", ops=[own]), ops=[own])
    exe.save(tmp_path / "a.legato")
    assert "hint: load it with ops=[…]" in said(lambda: legato.load(tmp_path / "a.legato")(X))
    np.testing.assert_array_equal(legato.load(tmp_path / "a.legato", ops=[own])(X), X * 3)


def test_ways_around_an_operator_without_a_gradient() -> None:
    text = "def @main(%x: Tensor[(n, 2), float32]) { sum(%x * my.thrice(%x)) }"
    hint = said(lambda: legato.grad(parsed(text, ops=[thrice])))
    assert "or keep gradients from it with stop_gradient" in hint
    legato.grad(parsed(text.replace("my.thrice(%x)", "stop_gradient(my.thrice(%x))"), ops=[thrice]))
    assert "give its record a rule (Op.grad)" in hint
    from dataclasses import replace

    ruled = replace(thrice, grad=lambda b, call, dy: [b.multiply(dy, 3)])
    legato.grad(parsed(text, ops=[ruled]))


# ------------------------------------------------------------------ models in ONNX


def model(node: onnx.NodeProto, *inputs: tuple[str, Any, int]) -> onnx.ModelProto:
    """A model of one node; inputs by name, shape and element type."""
    values = [helper.make_tensor_value_info(name, kind, shape) for name, shape, kind in inputs]
    graph = helper.make_graph([node], "g", values, [onnx.ValueInfoProto(name=name) for name in node.output])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64
make = helper.make_node
MODELS = {  # what is known too little of, and what `…` in the hint stands for
    "Squeeze": (model(make("Squeeze", ["x"], ["y"]), ("x", ("n", 4), FLOAT)), ""),
    "Reshape": (model(make("Reshape", ["x", "s"], ["y"]), ("x", ("n", 4), FLOAT), ("s", ("k",), INT)), ""),
    "Det": (model(make("Det", ["x"], ["y"]), ("x", ("n", "n"), FLOAT)), ""),
    "shape": (model(make("Relu", ["r"], ["y"]), ("r", None, FLOAT)), "3"),
    "ExpandDims": (
        model(make("ExpandDims", ["x", "axis"], ["y"], domain="com.microsoft"), ("x", ("n", 4), FLOAT),
              ("axis", (), TensorProto.INT32)), "np.array(1, np.int32)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_what_a_hint_says_of_sizes_and_values_is_enough(name: str) -> None:
    """Each `shapes={…}` and `constants={…}` of the hint, as it stands, makes a module of the model."""
    proto, value = MODELS[name]
    text = said(lambda: legato.from_onnx(proto))
    found = re.findall(r"(?:shapes|constants)=\{.*?\}(?= or |\)|$)", text, re.MULTILINE)
    assert found, text
    for way in found:
        options = eval(f"dict({way.replace('…', value)})", {"np": np})
        assert str(legato.from_onnx(proto, **options))


def test_converters_that_hints_ask_for() -> None:
    proto = model(make("Frob", ["x"], ["y"]), ("x", ("n", 4), FLOAT))
    text = said(lambda: legato.from_onnx(proto))
    (way,) = re.findall(r"custom=(\{.*?\})", text)
    converters = eval(way, {"function": lambda b, x: b.negative(x)})
    assert "negative" in str(legato.from_onnx(proto, custom=converters))


@pytest.mark.parametrize(
    "node",
    [
        make("MaxPool", ["x"], ["y"], kernel_shape=[1, 1, 1, 1]),
        make("ATen", ["x"], ["y"], operator="frob"),
        make("LpPool", ["x"], ["y"], kernel_shape=[1, 1, 1, 1]),
    ],
    ids=lambda node: node.op_type,
)
def test_a_converter_helps_with_every_node_that_is_refused(node: onnx.NodeProto) -> None:
    """Of the standard's operators as well, where one use of them is refused."""
    proto = model(node, ("x", (1, 1, 2, 2, 2, 2), FLOAT))
    (way,) = re.findall(r"custom=(\{.*?\})", said(lambda: legato.from_onnx(proto)))
    converters = eval(way, {"function": lambda b, x, **rest: b.negative(x)})
    assert "negative" in str(legato.from_onnx(proto, custom=converters))


@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.`:FutureWarning")  # PyTorch's own
def test_ways_around_an_operator_of_pytorch() -> None:
    torch = pytest.importorskip("torch")

    class Bessel(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return torch.special.bessel_j0(x) + 1

    module, x = Bessel(), torch.zeros(3)
    text = said(lambda: legato.compile(module, args=(x,)))
    (way,) = re.findall(r"custom=(\{.*?\})", text)
    own = eval(way, {"function": lambda b, self: b.multiply(self, 5.0)})
    assert legato.compile(module, args=(x + 1,), custom=own)(x + 1).tolist() == [6, 6, 6]
    (way,) = re.findall(r"torch\.compile\(.*?\)", text)
    assert eval(way, {"torch": torch, "module": module})(x).tolist() == [2, 2, 2]


# ------------------------------------------------------------------ calls


@dataclass(frozen=True)
class Wrong:
    """An argument that is refused; the code of the hint, in which `x` is the argument."""

    x: Any
    code: str


def read_only() -> Any:
    x = X.copy()
    x.flags.writeable = False
    return x


WRONG = [
    Wrong(X.astype(np.float64), "x.astype('float32')"),
    Wrong(X.tolist(), "numpy.asarray(x, dtype=…)"),
    Wrong(X[0], "x[None]"),
    Wrong(X[None], "x.squeeze(0)"),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.code)
def test_arguments(wrong: Wrong) -> None:
    exe = compiled(RELU)
    assert f"hint: {wrong.code}" in said(lambda: exe(wrong.x))
    y = exe(eval(wrong.code.replace("…", "'float32'"), {"x": wrong.x, "numpy": np}))
    assert y.shape[1] == 2


def test_arrays_that_calls_write_into() -> None:
    exe = compiled(RELU)
    assert "hint: x.copy() is one" in said(lambda: exe.run({"x": read_only()}, donate=["x"]))
    exe.run({"x": read_only().copy()}, donate=["x"])
    shared = X.copy()
    assert "give an array of its own" in said(lambda: exe.run({"x": shared}, out={"output": shared}))
    exe.run({"x": shared}, out={"output": np.empty_like(shared)})
    assert "called as a function, it takes them in order" in said(lambda: exe.run([X]))
    exe(X)


def test_tensors_that_require_gradients() -> None:
    torch = pytest.importorskip("torch")
    exe = compiled(RELU)
    x = torch.ones(3, 2, requires_grad=True)
    assert "tensor.detach()" in said(lambda: exe(x))
    exe(x.detach())


# ------------------------------------------------------------------ the command line


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """`command("check", …)`: the exit code, and what is said."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        code = cli.main(arguments)
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


@pytest.mark.parametrize("name", ["Squeeze", "Reshape", "Det", "shape", "ExpandDims"])
def test_flags_that_hints_write_are_enough(name: str, command: Any) -> None:
    proto, value = MODELS[name]
    onnx.save(proto, "m.onnx")
    if name == "ExpandDims":
        np.save("axis.npy", np.array(1, np.int32))
        value = "axis.npy"
    code, text = command("show", "m.onnx")
    assert code == 1
    found = re.findall(r"(--(?:shape|constant) \S+?)(?= or |\)|$)", text, re.MULTILINE)
    assert found, text
    for way in found:
        assert command("show", "m.onnx", *way.replace("…", value).split(" "))[0] == 0, way


def test_files_that_hints_ask_for(command: Any) -> None:
    onnx.save(model(make("Frob", ["x"], ["y"]), ("x", ("n", 4), FLOAT)), "m.onnx")
    (made,) = re.findall(r"--ops FILE.py that has (custom = \{.*?\})", command("check", "m.onnx")[1])
    Path("own.py").write_text(f"def function(b, x):\n    return b.negative(x)\n\n{made}\n")
    assert command("check", "m.onnx", "--ops", "own.py")[0] == 0


def test_flags_that_hints_name(command: Any) -> None:
    Path("m.relay").write_text(HEAD + RELU)
    assert command("compile", "m.relay")[0] == 0
    code, text = command("compile", "m.relay")
    assert code == 2
    assert "-o m.legato replaces it" in text
    assert command("compile", "m.relay", "-o", "m.legato")[0] == 0
    code, text = command("run", "m.legato")
    assert (code, "hint: -i FILE.npz, or --fill random" in text) == (2, True)
    np.savez("x.npz", x=X)
    assert command("run", "m.legato", "-i", "x.npz")[0] == command("run", "m.legato", "--fill", "random")[0] == 0
    Path("m.py").write_text(f"import legato\nmade = legato.parse({HEAD + RELU!r})\n")
    code, text = command("check", "m.py")
    assert (code, "hint: --trust runs it" in text) == (2, True)
    assert command("check", "m.py", "--trust")[0] == 0
    code, text = command("check", "m.relay", "--shape", "x=1,2")
    assert (code, "hint: its dims: n" in text or "sizes of its dims" in text) == (2, True)
    assert command("check", "m.relay", "--shape", "n=1")[0] == 0


def test_settings_that_hints_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from legato.base import config

    monkeypatch.setenv("LEGATO_TREADS", "2")
    config.config.cache_clear()
    text = said(config.config)
    (name,) = re.findall(r"did you mean (\w+)\?", text)
    monkeypatch.delenv("LEGATO_TREADS")
    monkeypatch.setenv(name, "2")
    config.config.cache_clear()
    assert config.config().threads == 2
    monkeypatch.undo()
    config.config.cache_clear()


# ------------------------------------------------------------------ scripts

SCRIPT = """
@I.ir_module
class Module:
    @T.prim_func
    def double(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in {loop}:
            with T.sblock("y"):
                vi = T.axis.spatial(4, i)
                y[vi] = x[vi] * 2.0
"""


def test_scripts() -> None:
    from legato.script import parse

    refused = SCRIPT.format(loop="T.serial(4, annotations={'pragma': 1})")
    assert "hint: T.parallel, T.vectorized and T.unroll say how it runs" in said(lambda: parse(refused))
    for loop in ("T.parallel(4)", "T.vectorized(4)", "T.unroll(4)", "range(4)"):
        parse(SCRIPT.format(loop=loop))


@pytest.mark.parametrize(
    ("refused", "hint", "followed"),
    [
        ('T.func_attr({"odd": 1})', "leave it out; global_symbol, ", 'T.func_attr({"global_symbol": "double"})'),
        ("T.call_extern('int32', 'f')", "R.call_packed calls a function of Python", ""),
    ],
)
def test_tensor_programs(refused: str, hint: str, followed: str) -> None:
    from legato.script import parse

    at = '    @T.prim_func\n    def double(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):\n'
    text = SCRIPT.format(loop="range(4)")
    assert at in text
    assert hint in said(lambda: parse(text.replace(at, f"{at}        {refused}\n")))
    parse(text.replace(at, f"{at}        {followed}\n"))


def test_loops_and_operators_of_scripts() -> None:
    from legato.script import parse

    assert "count from 0 by 1" in said(lambda: parse(SCRIPT.format(loop="range(0, 4, -1)")))
    graph = (
        '@R.function\ndef main(x: R.Tensor((4, 4), "float32"), y: R.Tensor((4, 4), "float32")):\n    return x {} y\n'
    )
    hint = said(lambda: parse(graph.format("<<")))
    for name in re.findall(r"hint: (.*) have one", hint)[0].split(", "):
        parse(graph.format(name))
    options = graph.replace("@R.function", "@R.function({})").format("{}", "+")
    assert "hint: leave fancy out" in said(lambda: parse(options.format("fancy=True")))
    parse(options.format(""))


def test_te_has_programs_in_place_of_schedules() -> None:
    from legato.te import names

    assert "te.create_prim_func makes a program" in said(lambda: names.create_schedule)  # type: ignore[attr-defined]
    a = names.placeholder((4,), "float32")
    assert names.create_prim_func([a, names.compute((4,), lambda i: a[i] * 2)])
