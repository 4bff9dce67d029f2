"""Functions that engines run: compiled, interpreted, stored; and what fails or lies."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import legato
from legato import relay
from legato.base.errors import ArtifactError, CompileError, GeneratorError, UnsupportedError
from legato.contrib import graph_executor
from legato.generators import CSource, OnnxRuntime, partition
from legato.interp import evaluate
from legato.ir.module import Module
from legato.runtime import artifact
from tests.generators.samples import Changed, Interpreting, leaves

TEXT = """def @main(%x: Tensor[(n, 4), float32]) {
  %0 = exp(%x);
  %1 = negative(%0) + tanh(%x);
  (%1, log(%0), exp(sqrt(abs(%1))))
}"""
NESTED = """
def @main(%x: Tensor[(n, 2), float32], %y: Tensor[(3), int32]) { @f(((%x, %y), %x), 2f) }
def @f(%p: ((Tensor[(m, 2), float32], Tensor[(3), int32]), Tensor[(m, 2), float32]), %q: float32, Compiler="c") {
  ((%p.0.0 * %q, (%p.0.1,)), concatenate((%p.0.0, %p.1), axis=1))
}"""
X = np.array([[1, 2, 3, 4], [-1, 0, 0.5, 7]], np.float32)


def cut() -> Module:
    """A program with two functions for generator c."""
    return partition(legato.parse(TEXT), [Interpreting()])


def check(got: Any, wanted: Any) -> None:
    """Requires equal values, up to rounding."""
    for g, w in zip(leaves(got), leaves(wanted), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5)


def test_an_engine_runs_its_functions() -> None:
    ran: list[int] = []

    def note(result: Any) -> Any:
        ran.append(1)
        return result

    exe = legato.compile(cut(), generators=[Changed(note)])
    check(exe(X), evaluate(legato.parse(TEXT), [X]))
    check(exe(X[:1]), evaluate(legato.parse(TEXT), [X[:1]]))
    assert len(ran) == 4
    assert [(e.generator, e.function) for e in exe.program.externals] == [("c", "c_main_0"), ("c", "c_main_1")]
    assert "Compiler" in exe.program.source


def test_what_an_engine_gives_is_used() -> None:
    module = legato.parse(
        'def @main(%x: Tensor[(2), float32]) { fn (%y: Tensor[(2), float32], Compiler="c") { exp(%y) }(%x) }'
    )
    exe = legato.compile(module, generators=[Changed(lambda y: y + 1)])
    check(exe(X[0, :2]), np.exp(X[0, :2]) + 1)


def test_a_wrong_engine_is_to_blame() -> None:
    local = 'fn (%y: Tensor[(2), float32], Compiler="c") { exp(%y) }'
    module = legato.parse(f"def @main(%x: Tensor[(2), float32]) {{ let %a = sqrt(%x); {local}(%a) + %x }}")
    report = legato.verify(module, generators=[Changed(lambda y: y + 1)], how="ones", bisect=True)
    culprit = report.culprit
    assert culprit is not None
    assert (culprit.stage, culprit.what) == ("engine", "c")
    assert f"@{culprit.node}(" in culprit.text
    assert "sqrt" not in culprit.text
    assert not legato.verify(culprit.program, culprit.inputs, generators=[Changed(lambda y: y + 1)]).holds
    assert legato.verify(culprit.program, culprit.inputs, generators=[Interpreting("c", ("exp",))], bisect=True).holds


def test_values_nest() -> None:
    module = legato.parse(NESTED)
    y = np.arange(3, dtype=np.int32)
    check(legato.compile(module, generators=[Interpreting()])(X[:, :2], y), evaluate(module, [X[:, :2], y]))


@pytest.mark.parametrize("options", [{"precision": "exact"}, {"shapes": {"n": [1, "2..9"]}}, {"bounds": True}])
def test_options_of_compile(options: dict[str, Any]) -> None:
    exe = legato.compile(cut(), generators=[Interpreting()], **options)
    check(exe(X), evaluate(legato.parse(TEXT), [X]))


def turned(result: Any) -> Any:
    """The negative of each result."""
    return tuple(map(turned, result)) if isinstance(result, tuple) else -result


def test_verify_and_build() -> None:
    report = legato.verify(cut(), generators=[Interpreting()], against="interpreter")
    assert report
    wrong = legato.verify(cut(), generators=[Changed(turned)], against="interpreter")
    assert not wrong
    exe = relay.build(relay.IRModule(cut()), generators=[Interpreting()])
    check(exe(X), evaluate(legato.parse(TEXT), [X]))


def test_programs_are_stored_with_their_functions(tmp_path: Path) -> None:
    path = tmp_path / "p.legato"
    exe = legato.compile(cut(), generators=[Interpreting()])
    exe.save(path)
    with pytest.raises(GeneratorError, match=r"\(@c_main_0, @c_main_1\) need the generators 'c'"):
        legato.load(path)
    check(legato.load(path, generators=[Interpreting()])(X), exe(X))
    check(pickle.loads(pickle.dumps(exe))(X), exe(X))
    with pytest.raises(GeneratorError, match="@c_main_0: compile failed: ValueError: no"):
        legato.load(path, generators=[Failing("compile")])


class Stored(Interpreting):
    """An engine that is stored as what its generator likes."""

    __slots__ = ()
    made: ClassVar[list[bytes]] = []

    def compile(self, function: Any) -> Any:
        return Bytes(str(function.attrs["global_symbol"]).encode(), Interpreting.compile(self, function))

    def load(self, data: bytes) -> Any:
        """Those that were made are known by their names."""
        self.made.append(data)
        return lambda *arrays: (arrays[0], arrays[0]) if data == b"c_main_0" else arrays[0]


class Bytes:
    """An engine with bytes."""

    def __init__(self, data: bytes, run: Callable[..., Any]) -> None:
        self._data, self._run = data, run

    def __call__(self, *arrays: Any) -> Any:
        return self._run(*arrays)

    def to_bytes(self) -> bytes:
        """What `load` takes."""
        return self._data


def test_engines_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "p.legato"
    legato.compile(cut(), generators=[Stored()]).save(path)
    found = legato.load(path, generators=[Stored()])
    assert Stored.made == [b"c_main_0", b"c_main_1"]
    check(found(X)[0], X)
    check(pickle.loads(pickle.dumps(found))(X)[0], X)
    with pytest.raises(GeneratorError, match="its engine is stored, and this generator cannot load one"):
        legato.load(path, generators=[Interpreting()])


def test_libraries_have_engines(tmp_path: Path) -> None:
    path, x = tmp_path / "net.so", np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    module = legato.parse("def @main(%x: Tensor[(n, 4), float32]) { nn.relu(%x) }")
    for engine in (OnnxRuntime(), CSource()):
        legato.compile(partition(module, [engine]), generators=[engine]).save(path)
        with pytest.raises(GeneratorError, match=f"@{engine.name}_main_0.* need the generators '{engine.name}'"):
            legato.runtime.load_module(path)
        if isinstance(engine, CSource):  # has the function itself
            with pytest.raises(GeneratorError, match=r"needs the compiler\n  hint: .* with legato\.load"):
                legato.runtime.load_module(path, generators=[engine])
            lib = legato.runtime.Module.of(legato.load(path, generators=[engine]))
        else:
            lib = legato.runtime.load_module(path, generators=[engine])
        m = graph_executor.GraphModule(lib["default"](legato.cpu()))
        m.run(x=x)
        np.testing.assert_array_equal(m.get_output(0), np.maximum(x, 0))


def test_a_file_without_what_it_names(tmp_path: Path) -> None:
    from dataclasses import replace

    exe = legato.compile(cut(), generators=[Interpreting()])
    artifact.write(tmp_path / "p", replace(exe._parts, constants=()))
    with pytest.raises(ArtifactError, match="nothing for @c_main_0 of generator 'c'"):
        legato.load(tmp_path / "p", generators=[Interpreting()])


# ---------------------------------------------------------------------------------------------------- errors


class Failing(Interpreting):
    """Fails at one thing."""

    __slots__ = ("_at",)

    def __init__(self, at: str) -> None:
        Interpreting.__init__(self)
        object.__setattr__(self, "_at", at)

    def compile(self, function: Any) -> Any:
        if self._at == "compile":
            raise ValueError("no")
        return 3 if self._at == "engine" else self._run

    def _run(self, *arrays: Any) -> Any:
        raise ValueError("never")


def test_one_error_for_each_fault() -> None:
    where = "generator 'c', function @c_main_0"
    with pytest.raises(GeneratorError, match=f"^{where}: compile failed: ValueError: no$"):
        legato.compile(cut(), generators=[Failing("compile")])
    with pytest.raises(GeneratorError, match=f"^{where}: compile gave a int, wanted what can be called$"):
        legato.compile(cut(), generators=[Failing("engine")])
    with pytest.raises(GeneratorError, match=f"^{where} failed: ValueError: never$"):
        legato.compile(cut(), generators=[Failing("run")])(X)


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        (lambda r: (r[0][:, :3], *r[1:]), r": result 0 is float32\[2, 3\], wanted float32\[2, 4\]"),
        (lambda r: (r[0], r[1].astype(np.float64)), r": result 1 is float64\[2, 4\], wanted float32\[2, 4\]"),
        (lambda r: r[:1], ": gave 1 results, wanted 2"),
        (lambda r: None, ": gave None, wanted a tuple of 2 tensors"),
        (lambda r: (1, *r[1:]), r": result 0 is a int, wanted a tensor float32\[2, 4\]"),
    ],
)
def test_what_lies(lie: Callable[[Any], Any], message: str) -> None:
    exe = legato.compile(cut(), generators=[Changed(lambda r: lie(r) if isinstance(r, tuple) else r)])
    with pytest.raises(GeneratorError, match=f"^generator 'c', function @c_main_0{message}$"):
        exe(X)


def test_functions_without_a_generator() -> None:
    with pytest.raises(UnsupportedError, match="@c_main_0 has a function for the compiler 'c', and there is none"):
        legato.compile(cut())
    with pytest.raises(UnsupportedError, match="there is none"):
        legato.compile(cut(), generators=[Interpreting("d")])
    with pytest.raises(CompileError, match=r"packed: 'c\.c_main_0' is the name of a generator's function"):
        legato.compile(cut(), generators=[Interpreting()], packed={"c.c_main_0": len})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ('(%x: ref(float32), Compiler="c") { ref_read(%x) }', "takes or gives ref"),
        ('(%x: float32, Compiler="c") { () }', "gives no tensor"),
        ('(%x: Tensor[(n), float32], Compiler="c") { argwhere(%x) }', "gives a tensor whose extent"),
        ('(%x: float32, Compiler="c") { @g(%x) }', "calls @g"),
    ],
)
def test_functions_that_are_more(function: str, message: str) -> None:
    text = f"def @main{function}\ndef @g(%x: float32) {{ exp(%x) }}"
    with pytest.raises(UnsupportedError, match=message):
        legato.compile(legato.parse(text), generators=[Interpreting()])


def test_what_nothing_calls_is_not_compiled() -> None:
    text = 'def @main(%x: float32) { exp(%x) } def @f(%x: float32, Compiler="c") { exp(%x) }'
    exe = legato.compile(legato.parse(text), generators=[Failing("compile")])
    assert not exe.program.externals
    check(exe(X[0, 0]), np.exp(X[0, 0]))


def test_main_may_be_one() -> None:
    module = legato.parse('def @main(%x: Tensor[(n), float32], Compiler="c") { exp(%x) }')
    check(legato.compile(module, generators=[Interpreting()])(X[0]), np.exp(X[0]))


def test_what_fails_in_a_comprehension_keeps_nothing() -> None:
    """What its frames and closures hold of the arrays is let go: the failure is told, not that they are kept."""

    class Closing(Interpreting):
        __slots__ = ()

        def compile(self, function: Any) -> Any:
            def run(*arrays: np.ndarray) -> Any:
                known = dict(enumerate(arrays))
                return [known[n] for n in (0, 99)]

            return run

    with pytest.raises(GeneratorError, match="function @c_main_0 failed: KeyError: 99"):
        legato.compile(cut(), generators=[Closing()])(X)


def test_what_keeps_an_array_is_told() -> None:
    kept: list[np.ndarray] = []

    class Keeping(Interpreting):
        __slots__ = ()

        def compile(self, function: Any) -> Any:
            run = Interpreting.compile(self, function)

            def engine(*arrays: np.ndarray) -> Any:
                kept.extend(arrays)
                return run(*arrays)

            return engine

    with pytest.raises(GeneratorError, match="generator 'c', function @c_main_0: it keeps a tensor that it was given"):
        legato.compile(cut(), generators=[Keeping()])(X)
