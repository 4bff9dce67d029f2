"""Scripts for TVM that run programs: what they do with graph executors, virtual machines, debuggers and tensors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato import nd, relay
from legato.base.errors import ArtifactError, CompileError, RunError
from legato.compare.dump import MANIFEST
from legato.contrib import graph_executor, graph_runtime, utils
from legato.contrib.debugger import debug_executor
from legato.interp import evaluate
from legato.runtime.profiler_vm import VirtualMachineProfiler
from legato.runtime.profiling import Report
from legato.runtime.vm import Executable, VirtualMachine
from legato.target import Target

RNG = np.random.default_rng(0)
W = RNG.standard_normal((4, 3), dtype="float32")
X = RNG.standard_normal((2, 3), dtype="float32")
TEXT = """
#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) {
  %0 = nn.relu(nn.dense(%x, %w));
  (nn.softmax(%0), %0 + 1f)
}
def @twice(%v: Tensor[(n), float32], %by: float32) -> Tensor[(n), float32] { %v * %by + %v }
"""
MOD = relay.parse(TEXT)
LIB = relay.build(MOD, "llvm", params={"w": W})
WANT = evaluate(MOD.module, [X, W])


def results_of(m: graph_executor.GraphModule) -> list[Any]:
    return [m.get_output(n).numpy() for n in range(m.get_num_outputs())]


def require_right(got: Any) -> None:
    for a, b in zip(got, WANT, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------ the graph executor


def test_a_graph_module_keeps_inputs_and_outputs() -> None:
    m = graph_executor.GraphModule(LIB["default"](legato.cpu(0)))
    assert (m.get_num_inputs(), m.get_num_outputs(), m.get_input_index("x"), m.get_input_index("w")) == (1, 2, 0, -1)
    assert m.get_input_info() == ({"x": (2, 3)}, {"x": "float32"})
    with pytest.raises(RunError, match="missing: x: float32"):
        m.run()
    with pytest.raises(RunError, match="no outputs yet"):
        m.get_output(0)
    m.set_input("x", X.astype("float64"))
    m.run()
    require_right(results_of(m))
    m.run(x=nd.array(X))
    out = nd.empty((2, 4))
    assert m.get_output(0, out) is out
    np.testing.assert_array_equal(out.numpy(), m.get_output(0).numpy())
    m.set_input(x=np.zeros((2, 3), "float32"), nobody=X)
    assert not m.get_input("x").numpy().any()
    m.get_input(0)[...] = X
    m["run"]()
    require_right(results_of(m))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("y", X, "there is no input 'y'; there are x: float32"),
        (1, X, "there is no input 1"),
        (0.0, X, r"there is no input 0\.0"),
        ([0], X, r"there is no input \[0\]"),
        (False, X, "there is no input False"),
        ("x", X[0], r"wrong shape\n  got float32\[3\], wanted float32\[2, 3\]"),
        ("x", X.astype("complex64"), "got complex64, wanted"),
    ],
)
def test_inputs_that_do_not_fit(key: Any, value: Any, message: str) -> None:
    m = graph_executor.GraphModule(LIB["default"](legato.cpu()))
    with pytest.raises(RunError, match=message):
        m.set_input(key, value)


def test_inputs_are_copied_unless_told_otherwise() -> None:
    m, x, y = graph_executor.GraphModule(LIB["default"](legato.cpu())), X.copy(), np.empty((2, 4), "float32")
    m.set_input("x", x)
    x[...] = 0
    m.run()
    require_right(results_of(m))
    m.set_input_zero_copy("x", x)
    m.set_output_zero_copy(1, y)
    x[...] = X
    m.run()
    require_right(results_of(m))
    np.testing.assert_array_equal(y, m.get_output(1))
    with pytest.raises(RunError, match="got float64, wanted float32"):
        m.set_input_zero_copy("x", X.astype("float64"))


def test_parameters_come_as_bytes_and_are_shared() -> None:
    lib = relay.build(MOD)
    a, b = (graph_executor.GraphModule(lib["default"](legato.cpu())) for _ in range(2))
    saved = relay.save_param_dict({"w": W, "nobody": X})
    a.load_params(saved)
    b.share_params(a, saved)
    assert np.shares_memory(a.get_input("w"), b.get_input("w"))
    for m in (a, b):
        m.run(x=X)
        require_right(results_of(m))


def test_what_build_gives_is_taken_apart() -> None:
    graph, lib, params = LIB
    assert params == LIB.get_params() == {}
    m = graph_runtime.create(graph, lib, legato.cpu())
    m.set_input(**params)
    m.run(x=X)
    require_right(results_of(m))
    require_right(LIB(X))
    require_right(LIB(x=X))
    assert isinstance(LIB(X)[0].numpy(), np.ndarray)
    other = relay.build(relay.parse("fn (%y: Tensor[(2, 3), float32]) { nn.relu(%y) }"))
    with pytest.raises(RunError, match="the graph takes x and gives 2 outputs; the library takes y and gives 1"):
        graph_executor.create(graph, other, legato.cpu())
    for text in ("", "[]", '{"nodes": []}', "[" * 100_000):
        with pytest.raises(RunError, match="no graph in JSON"):
            graph_executor.create(text, lib, legato.cpu())


def test_the_graph_describes_the_kernels() -> None:
    graph = json.loads(LIB.get_graph_json())
    assert [(n["op"], n["name"], n["inputs"]) for n in graph["nodes"]] == [
        ("null", "x", []), ("tvm_op", "x2", [[0, 0, 0]]), ("tvm_op", "x3", [[1, 0, 0]]), ("tvm_op", "x4", [[1, 0, 0]]),
    ]  # fmt: skip
    assert graph["nodes"][1]["attrs"]["func_name"] == "fused_nn_dense_nn_relu"
    assert (graph["arg_nodes"], graph["heads"], graph["node_row_ptr"]) == ([0], [[2, 0, 0], [3, 0, 0]], [0, 1, 2, 3, 4])
    assert graph["attrs"]["shape"] == ["list_shape", [[2, 3], [2, 4], [2, 4], [2, 4]]]
    assert graph["attrs"]["dltype"] == ["list_str", ["float32"] * 4]


def test_graphs_of_tuples_constants_and_control_flow() -> None:
    mod = relay.parse("""#[version = "0.0.5"]
def @main(%x: Tensor[(n, 4), float32], %c: bool) {
  %0 = split(%x, indices_or_sections=2, axis=1);
  let %y = if (%c) { nn.relu(%0.0) } else { %0.1 };
  ((%y, %0.1), 2f, %x)
}""")
    graph = json.loads(relay.build(mod).get_graph_json())
    assert [n["op"] for n in graph["nodes"][:2]] == ["null", "null"]
    assert graph["heads"][-1] == [0, 0, 0]
    assert len(graph["heads"]) == 4
    assert graph["attrs"]["shape"][1][0] == ["n", 4]
    made = {name: n for n, name in enumerate(node["name"] for node in graph["nodes"])}
    assert graph["heads"][2] == [made["constant"], 0, 0]
    assert len(graph["attrs"]["dltype"][1]) == graph["node_row_ptr"][-1]


def test_libraries_are_files(tmp_path: Path) -> None:
    temp = utils.tempdir()
    path = temp.relpath("net.so")
    relay.build(MOD, params={"w": W}, mod_name="net").export_library(path)
    loaded = legato.runtime.load_module(path)
    for name in ("default", "net"):
        m = graph_executor.GraphModule(loaded[name](legato.cpu()))
        m.run(x=X)
        require_right(results_of(m))
    assert legato.load(path).inputs == loaded.inputs
    assert temp.listdir() == ["net.so"]
    temp.remove()
    assert not Path(temp.temp_dir).exists()
    with pytest.raises(RunError, match="no function 'other'; it has net"):
        loaded["other"]
    with pytest.raises(CompileError, match="no option fcompile"):
        loaded.export_library(tmp_path / "x.tar", fcompile=print)
    with pytest.raises(RunError, match="has no intermediate tensors"):
        debug_executor.create(LIB.get_graph_json(), loaded, legato.cpu())
    (tmp_path / "x.so").write_bytes(b"\x7fELF")
    with pytest.raises(ArtifactError):
        legato.runtime.load_module(tmp_path / "x.so")


def test_calls_are_timed() -> None:
    m = graph_executor.GraphModule(LIB["default"](legato.cpu()))
    m.set_input("x", X)
    times = m.module.time_evaluator("run", legato.cpu(), number=2, repeat=3)()
    assert len(times.results) == 3
    assert 0 < times.min <= times.median <= times.max
    for end_to_end in (False, True):
        assert len(m.benchmark(legato.cpu(), repeat=2, number=1, end_to_end=end_to_end, x=X).results) == 2
    assert str(times).split()[:5] == ["mean", "median", "max", "min", "std"]
    with pytest.raises(RunError, match="no option f_preproc"):
        m.module.time_evaluator("run", legato.cpu(), f_preproc=1)
    with pytest.raises(RunError, match="at least one of each"):
        m.benchmark(legato.cpu(), number=0)
    with pytest.raises(RunError, match="there is no function 'stop'"):
        m["stop"]


def test_shapes_with_dims_are_known_when_inputs_are() -> None:
    lib = relay.build(
        relay.parse("def @main(%x: Tensor[(n, 3), float32], %y: Tensor[(n), float32]) { sum(%x, axis=[1]) + %y }")
    )
    m = graph_executor.GraphModule(lib["default"](legato.cpu()))
    assert m.get_input_info()[0] == {"x": ("n", 3), "y": ("n",)}
    with pytest.raises(RunError, match=r"input x: .* is not set"):
        m.get_input("x")
    for n in (2, 5):
        m.run(x=np.ones((n, 3)), y=np.arange(n))
        np.testing.assert_array_equal(m.get_output(0), 3 + np.arange(n, dtype="float32"))
    m.set_input("x", np.ones((4, 3)))
    with pytest.raises(RunError):
        m.run()


def test_options_of_build() -> None:
    executor = relay.backend.Executor("aot", {"link-params": True})
    lib = relay.build(MOD, executor=executor, runtime=relay.backend.Runtime("cpp"), constant_memory_pools=None)
    require_right(lib(X, W))
    with pytest.raises(CompileError, match="option unpacked-api=True cannot be followed"):
        relay.backend.Executor("graph", {"unpacked-api": True})
    with pytest.raises(CompileError, match="no runtime 'crt'"):
        relay.backend.Runtime("crt")


def test_a_script_from_before() -> None:
    """As TVM's first tutorials had it."""
    net = relay.nn.softmax(relay.nn.dense(relay.var("data", shape=(2, 3)), relay.var("weight", shape=(4, 3))))
    func = relay.Function(relay.analysis.free_vars(net), net)
    assert [legato.runtime.enabled(target) for target in ("llvm -mcpu=skylake", "cuda")] == [True, False]
    with relay.build_config(opt_level=3):
        graph, lib, params = relay.build(relay.IRModule.from_expr(func), "llvm", params={"weight": W})
    m = graph_runtime.create(graph, lib, legato.cpu(0))
    m.set_input("data", legato.nd.array(X))
    m.set_input(**params)
    m.run()
    exps = np.exp(X @ W.T)
    np.testing.assert_allclose(m.get_output(0).asnumpy(), exps / exps.sum(1, keepdims=True), rtol=1e-5)
    with pytest.raises(CompileError, match="no option trace"):
        relay.build_config(trace=print)


# ------------------------------------------------------------------ the debugger


def test_a_debug_executor_has_every_tensor(tmp_path: Path) -> None:
    m = debug_executor.create(LIB.get_graph_json(), LIB, legato.cpu(), dump_root=tmp_path)
    with pytest.raises(RunError, match="no tensors yet"):
        m.debug_get_output(0)
    m.run(x=X)
    require_right(results_of(m))
    hidden = np.maximum(X @ W.T, 0)
    for node in (0, "x2"):
        np.testing.assert_allclose(m.debug_get_output(node), hidden, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(m.debug_get_output("x"), X)
    graph = json.loads(m.graph_json)
    assert list(m.get_output_tensors()) == [n["name"] for n in graph["nodes"] if n["op"] != "null"]
    with pytest.raises(RunError, match="there is no tensor 'x9'; there are x2, x3, x4"):
        m.debug_get_output("x9")
    m.run()
    folder = tmp_path / "_tvmdbg_device_cpu_0"
    assert sorted(p.name for p in folder.iterdir()) == ["_tvmdbg_graph_dump.json", "run-0000", "run-0001"]
    manifest = json.loads((folder / "run-0001" / MANIFEST).read_text())
    for entry in manifest["tensors"]:
        np.testing.assert_array_equal(np.load(folder / "run-0001" / entry["file"]), m.debug_get_output(entry["name"]))
    plain = graph_executor.GraphModule(LIB["default"](legato.cpu()))
    with pytest.raises(RunError, match="no intermediate tensors"):
        plain.debug_get_output(0)
    with pytest.raises(RunError, match="debug_create"):
        debug_executor.GraphModuleDebug(plain.module)


def test_a_debug_executor_times_kernels() -> None:
    m = debug_executor.GraphModuleDebug(LIB["debug_create"]("default", legato.cpu()), [legato.cpu()])
    m.set_input("x", X)
    assert len(m.run_individual(1)) == 3
    assert m.run_individual_node(0).mean > 0
    report = m.profile(x=X)
    assert [row["Operators"] for row in report.calls] == ["nn.dense, nn.relu", "nn.softmax", "add"]
    assert report.total >= sum(row["Duration (us)"] for row in report.calls) > 0
    lines = report.table().splitlines()
    assert (lines[0].split()[:2], [line.split()[0] for line in lines[-2:]]) == (["Name", "Operators"], ["Sum", "Total"])
    assert len(report.csv().splitlines()) == 4
    assert json.loads(report.json())["calls"] == report.calls
    with pytest.raises(RunError, match="no collectors"):
        m.profile(collectors=[1])
    with pytest.raises(RunError, match="no launch 3; there are 3"):
        m.run_individual_node(3)


def test_a_virtual_machine_is_profiled() -> None:
    vm = VirtualMachineProfiler(relay.vm.compile(MOD, params={"w": W}), legato.cpu())
    v = np.arange(5, dtype="float32")
    assert len(vm.profile(v, 3.0, func_name="twice").calls) == 1
    vm.set_input("main", X)
    loops = [row for row in vm.profile().rows(aggregate=True) if row["Count"] != 1]
    assert loops == []


def test_rows_of_one_kernel_are_put_together() -> None:
    report = Report((("f", "add", 1.0), ("g", "exp", 3.0), ("f", "add", 1.5)), 10.0)
    assert [(row["Name"], row["Duration (us)"], row["Percent"], row["Count"]) for row in report.rows()] == [
        ("g", 3.0, 30.0, 1), ("f", 2.5, 25.0, 2),
    ]  # fmt: skip
    assert [row["Name"] for row in report.rows(sort=False, aggregate=False)] == ["f", "g", "f"]


# ------------------------------------------------------------------ the virtual machine


def test_a_virtual_machine_calls_functions_by_name() -> None:
    exe = relay.vm.compile(MOD, target="llvm", params={"w": W})
    vm = VirtualMachine(exe, legato.cpu())
    require_right(vm.run(X))
    require_right(vm.invoke("main", x=X))
    v = np.arange(3, dtype="float32")
    np.testing.assert_array_equal(vm.invoke("twice", v, 2.0).numpy(), v * 3)
    vm.set_input("twice", v, by=4.0)
    vm.invoke_stateful("twice")
    np.testing.assert_array_equal(vm.get_outputs()[0].numpy(), v * 5)
    assert (vm.get_input_index("by", "twice"), vm.get_input_index("x"), vm.get_input_index("y")) == (1, 0, -1)
    fresh = VirtualMachine(exe, [legato.cpu()])
    with pytest.raises(RunError, match="no outputs yet"):
        fresh.get_outputs()
    fresh.set_one_input("twice", "by", 1.0)
    with pytest.raises(RunError, match="not all inputs of twice are set; missing: v"):
        fresh.invoke("twice")
    fresh.set_one_input("twice", v=v)
    np.testing.assert_array_equal(fresh.invoke("twice"), v * 2)
    assert fresh.benchmark(legato.cpu(), v, 2.0, func_name="twice", repeat=2, number=1).min > 0
    with pytest.raises(RunError, match="no function 'thrice'; it has main, twice"):
        vm.invoke("thrice")
    with pytest.raises(RunError, match="there is no bytecode"):
        exe.bytecode  # noqa: B018
    with pytest.raises(AttributeError, match=r"no relay\.backend\.te_compiler: kernels and host functions"):
        relay.backend.te_compiler  # noqa: B018
    assert exe.get_function_params("main") == ("x",)
    assert exe.globals == ("main", "twice")


def test_executables_of_virtual_machines_are_saved(tmp_path: Path) -> None:
    code, lib = relay.vm.compile(MOD, params={"w": W}).save()
    path = tmp_path / "lib.so"
    lib.export_library(path)
    loaded = Executable.load_exec(code, legato.runtime.load_module(path))
    require_right(VirtualMachine(loaded, legato.cpu()).run(X))
    with pytest.raises(ArtifactError, match="not those of one program"):
        Executable.load_exec(code[:-1], lib)


def test_the_steps_of_a_compiler() -> None:
    compiler = relay.vm.VMCompiler()
    with pytest.raises(CompileError, match="nothing was compiled yet"):
        compiler.get_exec()
    compiler.set_params({"w": W})
    compiler.lower(MOD, "llvm")
    compiler.codegen()
    require_right(VirtualMachine(compiler.get_exec(), legato.cpu()).run(X))
    assert compiler.optimize(MOD, "llvm")[1] == {}


@pytest.mark.parametrize("kind", ["debug", "graph", "vm", "aot"])
def test_executors_evaluate(kind: str) -> None:
    run = relay.create_executor(kind, MOD, legato.cpu(), "llvm", params={"w": W}).evaluate()
    require_right([out.numpy() for out in run(X)])
    require_right(run(x=X))


def test_values_of_data_types() -> None:
    p = relay.prelude.Prelude()
    _, cons, nil = p.mod.get_type("List")
    make = relay.backend.interpreter.ConstructorValue
    value = make(cons.tag, [np.int32(3), make(nil.tag, [], nil)], cons)
    assert isinstance(value, make)
    run = relay.backend.interpreter.Interpreter(p.mod).evaluate(p.length)
    assert int(run(value)) == 1
    with pytest.raises(RunError, match="got tag 1 and 0 fields, wanted 0 and 2 fields"):
        make(nil.tag, [], cons)


def test_values_of_data_types_have_tensors_in_them() -> None:
    mod = relay.parse("""#[version = "0.0.5"]
def @main(%n: int32, %x: Tensor[(2), float32]) -> List[(Tensor[(2), float32], int32)] {
  if (%n == 0) { Nil } else { Cons((%x, %n), @main(%n - 1, %x)) }
}""")
    x = np.float32([1, 2])
    for kind in ("debug", "vm"):
        run = relay.create_executor(kind, mod).evaluate()
        value = run(3, x)
        numbers = []
        while value.constructor.name_hint == "Cons":
            head, value = value.fields
            np.testing.assert_array_equal(head[0].numpy(), x)
            numbers.append(int(head[1].numpy()))
        assert (numbers, value.tag, value.fields) == ([3, 2, 1], 1, ())
    deep = run(20_000, x)
    count = VirtualMachine(
        relay.vm.compile(
            relay.parse("""#[version = "0.0.5"]
def @main(%xs: List[(Tensor[(2), float32], int32)]) -> int32 { @length(%xs) }""")
        )
    )
    assert int(count.run(deep)) == 20_000


# ------------------------------------------------------------------ tensors, devices, targets


def test_tensors() -> None:
    a = legato.nd.array([[1.0, 2.0]])
    assert (a.shape, a.dtype, str(a.device), a.device.device_id) == ((1, 2), "float64", "cpu(0)", 0)
    b = legato.nd.empty((1, 2), "float64")
    assert a.copyto(b) is b
    assert a.copyto(legato.cpu(0)).asnumpy().tolist() == [[1, 2]]
    with pytest.raises(RunError, match="shape"):
        b.copyfrom(np.zeros(3))
    with pytest.raises(CompileError, match="there is no device 'cuda"):
        legato.nd.array([1], legato.device("cuda", 0))


def test_devices() -> None:
    assert legato.device("llvm") == legato.cpu() == legato.device(1)
    assert legato.cpu().exist
    assert not legato.device("cuda", 1).exist
    with pytest.raises(CompileError, match="no kind of device 'abacus'"):
        legato.device("abacus")
    with pytest.raises(CompileError, match="there is no device"):
        LIB["default"](legato.device("vulkan"))


def test_targets() -> None:
    target = Target("llvm -mcpu=core-avx2", host="llvm -mcpu=haswell")
    assert (str(target), target.kind.name, target.mcpu) == ("llvm -mcpu=core-avx2", "llvm", "x86-64-v3")
    assert target == Target("x86-64-v3") == Target(target.export()) == target.host
    assert Target.current() is None
    with target as entered:
        assert Target.current() is entered
        assert relay.build(MOD).target == "x86-64-v3"
    with pytest.raises(CompileError, match="no current target"):
        Target.current(allow_none=False)
    with pytest.raises(CompileError, match="-mattr cannot be followed"):
        Target("llvm -mattr=+avx")


def test_running_takes_no_compiler(tmp_path: Path) -> None:
    path = str(tmp_path / "net.so")
    LIB.export_library(path)
    code = (
        "import sys, legato, numpy as np; from legato.contrib import graph_executor; from legato.runtime import vm; "
        f"lib = legato.runtime.load_module({path!r}); x = np.ones((2, 3), 'float32'); "
        "vm.VirtualMachine(lib, legato.cpu()).run(x); m = graph_executor.GraphModule(lib['default'](legato.cpu())); "
        "m.run(x=x); print(*sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    compiler = ("legato.driver", "legato.ir", "legato.relay", "legato.transform", "legato.tir", "llvmlite", "onnx")
    assert [name for name in found if name.startswith(compiler)] == []
