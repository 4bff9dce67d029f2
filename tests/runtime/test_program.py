"""Descriptions of programs: JSON and consistency."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from legato.base.errors import ArtifactError, InternalError
from legato.runtime import Constraint, DimInfo, FunctionInfo, HostOpInfo, Program, TensorInfo
from legato.runtime.program import program_from_json
from legato.runtime.reader import Reader, parse_json

X = TensorInfo("x", "float32", ("n", 3, ("*", 2, "n")))
S = TensorInfo("s", "int64", (), value="n")
MAIN = FunctionInfo(
    offset=64,
    inputs=(X,),
    outputs=(TensorInfo("a", "bool", ()), TensorInfo("b", "bfloat16", (("+", "n", 1),))),
    structure=(1, (0,)),
    dims=(DimInfo("n", 1, 8),),
    words=(("dim", "n"), ("output", 1), ("output", 0), ("input", 0)),
    workspace=("*", 64, "n"),
    constraints=(Constraint(("%", "n", 2), 0, "add"),),
)
PROGRAM = Program(
    target="x86-64-v3",
    functions={"main": MAIN},
    checks=("index out of range",),
    host_ops=(HostOpInfo("sort", '{"axis": 1}', (X,), (X,), ("n",)),),
    stats={"kernels": 3, "seconds": {"fuse": 0.5}},
    source="text",
    stages={"fuse": "more text"},
    precision="bfloat16",
    version="0.1.0",
)


def test_round_trip_through_json() -> None:
    text = json.dumps(PROGRAM.to_json())
    assert program_from_json(parse_json(text, "manifest"), PROGRAM.source, PROGRAM.stages) == PROGRAM


def test_a_value_that_alone_tells_a_dim_survives() -> None:
    program = replace(PROGRAM, functions={"main": replace(MAIN, inputs=(S,), outputs=(), structure=(), words=())})
    assert program_from_json(parse_json(json.dumps(program.to_json()), "manifest")).functions == program.functions
    assert program.functions["main"].data_dims == ()


def test_bodies_have_values_where_the_function_has_some() -> None:
    plain = replace(MAIN, inputs=(X, TensorInfo("s", "int64", ())), words=())
    own = replace(plain, inputs=(X, replace(S, value=3)))
    for body, fits in ((own, True), (plain, False)):
        main = replace(own, inputs=(X, S), bodies=("body",))
        assert (Program("x86-64-v3", {"main": main, "body": body}).problem() is None) == fits


def test_text() -> None:
    assert (str(X), MAIN.dims[0].range, DimInfo("n").range) == ("x: float32[n, 3, 2*n]", "1 <= n <= 8", "0 <= n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"structure": (0, 0)}, "the output structure (0, 0) does not list each of 2 outputs once"),
        ({"words": (("input", 1),)}, "argument word (input, 1) refers to nothing"),
        ({"words": (("dim", "m"),)}, "argument word (dim, m) refers to nothing"),
        ({"words": (("weight", 0),)}, "argument word (weight, 0) refers to nothing"),
        ({"dims": ()}, "n mentions unknown dim 'n'"),
        ({"dims": (DimInfo("n"), DimInfo("n"))}, "two dims have the same name: n, n"),
        ({"dims": (DimInfo("n"), DimInfo("m"))}, "dim 'm' is not the plain size of any input"),
        ({"inputs": (X, replace(S, value="m"))}, "m mentions unknown dim 'm'"),
        ({"inputs": (X, replace(S, shape=(1,)))}, "s: int64[1] = n is no int64 scalar of the inputs"),
        ({"inputs": (X, replace(S, dtype="int32"))}, "s: int32[] = n is no int64 scalar of the inputs"),
        ({"outputs": (MAIN.outputs[0], S)}, "s: int64[] = n is no int64 scalar of the inputs"),
        ({"inputs": (X, X)}, "two inputs have the same name: x, x"),
        ({"inputs": (replace(X, dtype="complex64"),)}, "input 'x' has unknown dtype 'complex64'"),
    ],
)
def test_inconsistent_function(change: dict[str, object], message: str) -> None:
    program = replace(PROGRAM, functions={"main": replace(MAIN, **change)})  # type: ignore[arg-type]
    assert program.problem() == f"function 'main': {message}"
    with pytest.raises(ArtifactError) as error:
        program_from_json(parse_json(json.dumps(program.to_json()), "manifest"))
    assert str(error.value) == f"manifest: function 'main': {message}"


def test_unknown_precision() -> None:
    program = replace(PROGRAM, precision="int4")
    with pytest.raises(ArtifactError) as error:
        program_from_json(parse_json(json.dumps(program.to_json()), "manifest"))
    assert str(error.value) == "manifest: unknown precision 'int4'"


MAIN_JSON = ["functions", "main"]
WORD = "integer from 0 to 9223372036854775807"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["target"], 3, "target: got 3, wanted a string"),
        (["functions"], [], "functions: got [], wanted an object"),
        ([*MAIN_JSON, "offset"], -1, f"functions.main.offset: got -1, wanted an {WORD}"),
        ([*MAIN_JSON, "offset"], True, f"functions.main.offset: got True, wanted an {WORD}"),
        (
            [*MAIN_JSON, "inputs", 0, "shape", 1],
            ["?"],
            "functions.main.inputs[0].shape[1]: unknown operator '?' on 0 operands",
        ),
        ([*MAIN_JSON, "words", 0], ["dim"], "functions.main.words[0]: got ['dim'], wanted an array of 2"),
        (["host_ops", 0, "dims"], ["m"], "host_ops[0]: x: float32[n, 3, 2*n] mentions unknown dim 'n'"),
        (["checks"], "x" * 99, f"checks: got '{'x' * 56}..., wanted an array"),
    ],
)
def test_bad_json(path: list[str | int], value: object, message: str) -> None:
    data = json.loads(json.dumps(PROGRAM.to_json()))
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ArtifactError) as error:
        program_from_json(Reader(data, "manifest"))
    assert str(error.value) == f"manifest.{message}"


def test_missing_member() -> None:
    with pytest.raises(ArtifactError, match=r"manifest: got \{\}, wanted an object with a member 'stats'"):
        program_from_json(Reader({}, "manifest"))


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "nul", b"\xff\xfe\xfd"])
def test_no_json(text: str | bytes) -> None:
    with pytest.raises(ArtifactError, match=r"^manifest: not readable as JSON: "):
        parse_json(text, "manifest")


def test_an_inconsistent_program_of_the_compiler_is_our_bug() -> None:
    from legato.runtime import Executable

    program = replace(PROGRAM, functions={"main": replace(MAIN, structure=0)})
    with pytest.raises(InternalError, match="the compiled program is inconsistent: function 'main': the output"):
        Executable.from_parts(program, b"\xc3", 1, [], [])
