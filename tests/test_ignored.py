"""Nothing that is given is ignored: parameters, arguments of the command line, settings, attributes of functions."""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import legato
from legato import cli, relay
from legato.base.arrays import as_array
from legato.base.config import TOOLS, Config
from legato.base.errors import CompileError, LegatoError, RunError, TypeCheckError, UnsupportedError
from legato.base.precision import Precision
from legato.cli import _main
from legato.cli._code import take_code, take_ops
from legato.interp import evaluate
from legato.pipelines import DEFAULT, for_precision
from legato.transform.to_graph import ToGraph

SOURCE = Path(legato.__file__).parent
ROOT = SOURCE.parents[1]

# ------------------------------------------------------------------ parameters

# The packages whose functions users call, and those of their parameters that have nothing to say, with the reason.
FACES = (
    "__init__.py",
    "relay",
    "script/__init__.py",
    "script/decorate.py",
    "testing",
    "compare",
    "bench/run.py",
    "profile",
)
SILENT = {
    "bound_type_vars": {"mod"},  # all is in the expression
    "all_type_vars": {"mod"},
    "transform": {"context"},  # of a pass: those who override it may want it
    "define_tensor_array_scatter": {"force_update"},  # its name has all that it depends on: there is one
    "process_params": {"reg_task_input"},  # nothing is tuned
    "from_pytorch": {"preserve_pytorch_scopes"},  # spans are the lines of PyTorch's program, whatever it says
    "should_run": {"mod", "info"},  # of an instrument, likewise
    "run_before_pass": {"mod", "info"},
    "run_after_pass": {"mod", "info"},
    "rewrite_call": {"pre"},
    "rewrite_tuple": {"pre"},
    "rewrite_tuple_getitem": {"pre"},
    "visit_pattern_wildcard": {"pattern"},
}


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The public functions and methods of a file, and what `__call__` and the like of its classes take."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from (f for f in node.body if isinstance(f, ast.FunctionDef))
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node


def unread(function: ast.FunctionDef) -> set[str]:
    """The parameters that the body never reads. A body that only raises, or says nothing, reads none."""
    body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    if all(isinstance(s, ast.Raise) for s in body) or function.name == "__exit__":
        return set()
    a = function.args
    named = [*a.posonlyargs, *a.args, *a.kwonlyargs, *(v for v in (a.vararg, a.kwarg) if v is not None)]
    read = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)}
    return {p.arg for p in named} - read - {"self", "cls"}


def faces() -> Iterator[Path]:
    for name in FACES:
        path = SOURCE / name
        yield from [path] if path.suffix else sorted(path.rglob("*.py"))


def test_every_parameter_of_a_public_function_is_read() -> None:
    found = {
        f"{path.relative_to(SOURCE)}::{f.name}": left
        for path in faces()
        for f in functions(ast.parse(path.read_text()))
        if (left := unread(f) - SILENT.get(f.name, set()))
    }
    assert found == {}


# ------------------------------------------------------------------ the command line


class Watched(argparse.Namespace):
    """Arguments that note what is read."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            object.__getattribute__(self, "__dict__").setdefault("_read", set()).add(name)
        return super().__getattribute__(name)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, the same compiled, and inputs."""
    folder = tmp_path_factory.mktemp("files")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ("n", 4)) for name in ("x", "y"))
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), folder / "m.onnx")
    legato.compile(str(folder / "m.onnx")).save(folder / "m.legato")
    np.savez(folder / "x.npz", x=np.ones((3, 4), "float32"))
    np.save(folder / "x.npy", np.ones((3, 4), "float32"))
    own = "from legato.transform import module_pass\n\n\n@module_pass\ndef same(mod):\n    return mod\n"
    (folder / "passes.py").write_text(own)
    own = "from legato.ops._families import unary\nsame = unary('my.same', lambda x: x, lambda x: x, doc='Itself.')\n"
    (folder / "ops.py").write_text(own)
    return folder


def _stop(*args: Any, **keywords: Any) -> Any:
    raise RunError("-o, --trace, --html, --all follow the measurement")


GIVEN = {  # arguments in their shortest form, with another value than by default
    "shape": "--shape x=3,4", "constant": "--constant x=x.npy", "target": "--target x86-64-v2",
    "precision": "--precision exact",
    "threads": "--threads 1", "input": "-i x.npz", "fill": "--fill ones", "seed": "--seed 3", "dim": "--dim n=3",
    "output": "-o out.npz", "against": "--against interpreter", "bisect": "--bisect", "after": "--after simplify",
    "trust": "--trust", "script": "--script",
    "types": "--types", "spans": "--spans", "brief": "--brief", "emit": "--emit ir", "rounds": "--rounds 1",
    "max_rounds": "--max-rounds 1",
    "block": "--block 0.001", "vs": "--vs legato-exact", "seconds": "--seconds 0.01",
    "best": "--best", "bounds": "--bounds", "all": "--all", "on": "--on ssh://127.0.0.1:1",
    "trace": "--trace out.trace", "html": "--html out.html",
    "passes": "-p simplify", "list": "--list", "print_after": "--print-after simplify", "time": "--time",
    "print_before": "--print-before simplify", "dump": "--dump stages", "rules": "--rules", "use": "--use passes.py",
    "generators": "--generators c", "ops": "--ops ops.py",
    "tree": "--tree", "dot": "--dot out.dot", "svg": "--svg out.svg", "profile": "--profile", "text": "--text",
}  # fmt: skip
VERBS = {  # what each verb is called with beside the argument
    "check": "m.onnx", "compile": "m.onnx -o out.legato", "run": "m.onnx --fill random", "verify": "m.onnx",
    "show": "m.onnx", "opt": "m.onnx -p simplify", "profile": "m.onnx --seconds 0.01",
    "bench": "m.onnx --rounds 1 --block 0.001",
}  # fmt: skip
CASES = [
    (verb, given, kind)
    for verb in VERBS
    for given in GIVEN
    for kind in ("onnx", "legato")
    if kind == "onnx" or verb not in ("check", "compile", "opt")
]


def options(verb: str) -> set[str]:
    """The arguments that a verb has, by name."""
    parser = argparse.ArgumentParser()
    next(v for v in cli.VERBS if v.__name__.endswith(f".{verb}")).add_arguments(parser)
    return {a.dest for a in parser._actions} - {"help", "model"}


@pytest.mark.parametrize("verb", VERBS)
def test_every_argument_has_a_case(verb: str) -> None:
    assert options(verb) <= set(GIVEN)


@pytest.mark.parametrize(("verb", "given", "kind"), [c for c in CASES if c[1] in options(c[0])])
def test_an_argument_is_read_or_refused(
    verb: str, given: str, kind: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a model, and with a compiled program in its place. Nothing is measured."""
    for measures in ("legato.bench.bench", "legato.profile.profile", "legato.compare.verify"):
        monkeypatch.setattr(measures, _stop)
    for name in ("m.onnx", "m.legato", "x.npz", "x.npy", "passes.py", "ops.py"):
        (tmp_path / name).symlink_to(files / name)
    monkeypatch.chdir(tmp_path)
    usual = VERBS[verb].replace("m.onnx", f"m.{kind}").split()
    if given == "input":
        usual = [word for word in usual if word not in ("--fill", "random")]
    args = Watched()
    _main.make_parser(False).parse_args([verb, *usual, *GIVEN[given].split()], args)
    args.__dict__["_read"] = set()
    refused = ""
    try:
        take_code(args)
        take_ops(args)
        args.run(args, lambda what: None)
    except LegatoError as error:
        refused = str(error)
    assert GIVEN[given].split()[0] in refused or given in args.__dict__["_read"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run m.onnx -i x.npz --dim n=3", "inputs come from -i: --dim would have no effect"),
        ("run m.onnx -i x.npz --seed 3", "inputs come from -i: --seed would have no effect"),
        ("profile m.onnx --fill ones --seed 3", "nothing is random: --seed would have no effect"),
        ("verify m.onnx -o out.relay", "without --bisect there is no reproducer: -o would have no effect"),
        (
            "verify m.legato --precision exact",
            "of a .legato file its bytes are checked: --precision would",
        ),
        ("show m.onnx --precision exact", "a model as it was imported is for no machine yet: --precision would"),
        ("bench m.legato --target x86-64-v2", "m.legato is compiled already: --target would"),
        ("compile m.onnx --emit ir --threads 1", "text is not run: --threads would"),
    ],
)
def test_arguments_without_effect(
    arguments: str, message: str, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    assert cli.main(arguments.split()) == 2
    assert message in capsys.readouterr().err


# ------------------------------------------------------------------ settings


def environment(**settings: str) -> subprocess.CompletedProcess[str]:
    code = "from legato.base.config import config; config()"
    return subprocess.run([sys.executable, "-c", code], env={"PATH": "", **settings}, capture_output=True, text=True)


def test_a_setting_that_there_is_not_is_an_error() -> None:
    assert environment(LEGATO_THREADS="2", LEGATO_MODELS=".").returncode == 0
    wrong = environment(LEGATO_TREADS="2").stderr
    assert "environment variable LEGATO_TREADS: there is no such setting\n  hint: did you mean LEGATO_THREADS?" in wrong
    assert "hint: there are LEGATO_" in environment(LEGATO_X9="").stderr


def test_every_setting_that_the_repository_names_is_known() -> None:
    texts = [
        p.read_text() for d in ("tests", "tools", "docs", "examples", "src") for p in (ROOT / d).rglob("*.[pm][yd]")
    ]
    named = set(re.findall(r"\bLEGATO_([A-Z]+(?:_[A-Z]+)*)\b", "\n".join([*texts, (ROOT / "Makefile").read_text()])))
    known = {name.upper() for name in Config.__dataclass_fields__} | set(TOOLS)
    assert named - known - {"TREADS", "THREDS", "X", "RT_H", "H", "INTERNAL_H"} == set()


# ------------------------------------------------------------------ precision, contexts, code generators


def test_a_precision_that_passes_cannot_follow() -> None:
    mod = legato.parse("def @main(%x: Tensor[(2, 2), float32]) { nn.dense(%x, %x) }")
    passes = tuple(p for p in DEFAULT[:9] if not isinstance(p, ToGraph))
    with pytest.raises(CompileError, match="precision bfloat16 needs a pass"):
        for_precision(passes, Precision.BFLOAT16)
    with pytest.raises(CompileError, match="precision bfloat16 needs a pass"):
        legato.compile(mod, passes=passes, precision="bfloat16")


def test_a_stage_that_there_is_not_cannot_be_kept() -> None:
    mod = legato.parse("def @main(%x: Tensor[(2,), float32]) { exp(%x) }")
    assert "exp" in legato.compile(mod, keep="fuse").module_after("fuse")
    for keep in ("fusee", ("lower", "fusee"), ("low-precision",)):
        with pytest.raises(CompileError, match=r"keep: there is no stage .(fusee|low-precision)"):
            legato.compile(mod, keep=keep)
    assert "exp" in legato.compile(mod, keep="low-precision", precision="bfloat16").module_after("low-precision")


def test_a_function_for_another_code_generator_is_refused(tmp_path: Path) -> None:
    text = 'def @main(%x: float32) { fn (%y: float32, Compiler="dnnl") { %y + 1f }(%x) }'
    with pytest.raises(UnsupportedError, match="@main has a function for the compiler 'dnnl', and there is none"):
        legato.compile(legato.parse(text))
    (tmp_path / "m.relay").write_text(text)
    assert cli.main(["check", str(tmp_path / "m.relay")]) == 1
    assert float(evaluate(legato.parse(text), [np.float32(1)])) == 2
    assert float(legato.compile(legato.parse(text.replace("dnnl", "default")))(np.float32(1))) == 2


def program() -> relay.IRModule:
    """What each of the optional passes changes: a constant sum, a scale, a sum that is there twice, x * 1."""
    x = relay.var("x", shape=(2, 3))
    three = relay.add(relay.const(1.0), relay.const(2.0))
    y = relay.multiply(relay.nn.dense(x, relay.const(np.ones((3, 3), "float32"))), relay.const([2.0, 2.0, 2.0]))
    return relay.IRModule.from_expr(relay.Function([x], relay.add(relay.add(y, three), relay.add(y, three))))


class Instrument:
    """Notes the passes that run."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run_before_pass(self, mod: Any, info: Any) -> None:
        assert isinstance(mod, relay.IRModule)
        self.ran.append(info.name)


def ran(**context: Any) -> list[str]:
    """The passes of `relay.build` in a context; what it builds computes what the module means."""
    seen, mod = Instrument(), program()
    with relay.transform.PassContext(instruments=[seen], **context):
        exe = relay.build(mod)
    x = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(exe(x), relay.create_executor("debug", mod).evaluate()(x))
    return seen.ran


def test_build_runs_the_passes_that_the_context_enables() -> None:
    everything = ran(opt_level=3)
    optional = ["SimplifyExpr", "FoldConstant", "EliminateCommonSubexpr", "FoldScaleAxis"]
    assert set(optional) < set(everything)
    assert [p for p in optional if p in ran(opt_level=2)] == optional[:2]
    assert [p for p in optional if p in ran(opt_level=0)] == optional[:1]
    assert [p for p in optional if p in ran(opt_level=0, required_pass=["FoldScaleAxis"])] == [optional[0], optional[3]]
    for name in (*optional, "SimplifyInference", "FuseOps"):
        assert set(everything) - set(ran(opt_level=3, disabled_pass=[name, "AlterOpLayout"])) == {name}


def test_groups_are_as_large_as_the_context_says() -> None:
    def kernels(**context: Any) -> int:
        with relay.transform.PassContext(opt_level=3, **context):
            return int(relay.build(program()).stats["kernels"])

    alone = kernels(disabled_pass=["FuseOps"])
    assert alone == kernels(config={"relay.FuseOps.max_depth": 1}) > kernels()


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"disabled_pass": ["InferType"]}, "pass InferType cannot be disabled"),
        ({"required_pass": ["ConvertLayout"]}, "relay.build runs no pass ConvertLayout"),
    ],
)
def test_contexts_that_build_cannot_follow(context: dict[str, Any], message: str) -> None:
    with relay.transform.PassContext(**context), pytest.raises(CompileError, match=message):
        relay.build(program())


def test_an_instrument_may_forbid_what_code_can_do_without() -> None:
    class Forbids(Instrument):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def should_run(self, mod: Any, info: Any) -> bool:
            return bool(info.name != self.name)

    with relay.transform.PassContext(opt_level=3, instruments=[seen := Forbids("FoldConstant")]):
        relay.build(program())
    assert "FoldConstant" not in seen.ran
    context = relay.transform.PassContext(instruments=[Forbids("ToANormalForm")])
    with context, pytest.raises(CompileError, match="an instrument forbids pass ToANormalForm"):
        relay.build(program())


# ------------------------------------------------------------------ arrays

MASKED = np.ma.masked_array(np.ones(3, "float32"), [True, False, False])


class Refuses:
    """An array of another library that cannot be converted."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("cannot convert a device array")


IDENTITY = "def @main(%x: Tensor[(3,), float32]) { %x }"
TAKES: dict[str, Callable[[Any], Any]] = {
    "const": lambda v: relay.const(v).data,
    "Constant": lambda v: relay.Constant(v).data,
    "an operand": lambda v: relay.add(relay.var("x", shape=(3,)), v).args[1].data,
    "a parameter": lambda v: relay.build_module.bind_params_by_name(legato.parse(IDENTITY)["main"], {"x": v}).body.data,
    "the interpreter": lambda v: evaluate(legato.parse(IDENTITY), [v]),
    "saved parameters": lambda v: relay.load_param_dict(relay.save_param_dict({"x": v}))["x"],
    "an array": as_array,
}


@pytest.mark.parametrize("take", TAKES.values(), ids=TAKES)
def test_arrays_keep_what_they_say_or_are_refused(take: Callable[[Any], Any], torch: Any) -> None:
    for value in (MASKED, Refuses()):
        with pytest.raises((RunError, TypeCheckError, LegatoError)):
            take(value)
    nothing_masked = np.ma.masked_array(np.ones(3, "float32"), [False] * 3)
    np.testing.assert_array_equal(take(nothing_masked), np.ones(3, "float32"))
    negative = torch.complex(torch.zeros(3), torch.full((3,), -2.0)).conj().imag
    assert negative.is_neg()
    np.testing.assert_array_equal(take(negative), np.full(3, 2, "float32"))
