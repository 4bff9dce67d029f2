"""compile(): the one module that knows every layer."""

from __future__ import annotations

import gc
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from threading import get_ident
from typing import Any, Final, cast

import numpy as np

from legato._version import __version__
from legato.assemble import KERNEL, Assembler, Objects, llvm_modules
from legato.base.config import config
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, UnsupportedError, quoting
from legato.base.lexer import has_half
from legato.base.precision import Precision
from legato.base.spelling import option, written
from legato.base.target import Target
from legato.codegen.link import Image, link
from legato.generators.external import taken_out
from legato.infer.infer import infer, infer_text
from legato.ir import expr as ir
from legato.ir.attrs_json import attrs_to_json
from legato.ir.contents import body_nodes
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import TensorType
from legato.lower.entries import Bodies, entries
from legato.lower.functions import LoweredModule, lower_functions
from legato.lower.host import lower_hosts
from legato.lower.hosts.program import HostProgram
from legato.lower.memory import peak_memory
from legato.lower.pack import Allocate
from legato.lower.reuse import Shelf
from legato.lower.signature import host_op_info, input_types
from legato.lower.strings import numbered
from legato.lower.supported import reachable, require_shallow, require_supported
from legato.ops import table
from legato.ops._by_reference import ByReference
from legato.ops._own import called, operators, own_operators
from legato.pipelines import DEFAULT, completed, for_bodies, for_precision
from legato.runtime.executable import Executable
from legato.runtime.floats import float_environment
from legato.runtime.kernels import kernel_from_work, kernels_to_text
from legato.runtime.parts import Segment
from legato.runtime.program import FunctionInfo, Program
from legato.tir.stmt import Func
from legato.transform._closures import Names
from legato.transform._constants import with_constants
from legato.transform._first_order import first_order
from legato.transform._sizes import combinations, for_sizes, hull, is_choice, without_calls_of_main
from legato.transform.outline_branches import OutlineBranches
from legato.transform.pass_ import Observer, Pass, run

__all__ = [
    "PROGRAMS",
    "CompileOptions",
    "Compiled",
    "compile_module",
    "is_torch",
    "llvm_modules",
    "load_model",
    "lower_module",
    "main_function",
    "operators",
    "require_path",
]

Progress = Callable[[str], None]
TEXTS: Final = (".relay", ".rly", ".txt")  # what programs in Relay are called
SCRIPTS: Final = (".relax",)  # what scripts are called that are only read
PROGRAMS: Final = (*TEXTS, *SCRIPTS, ".json")
TORCH: Final = (".pt2", ".pt", ".pth")  # what PyTorch's files are called
_TEXT: Final = re.compile(r"\n|#\[version|\bdef\s+@|\bfn\s*\(")  # what programs in Relay have, and hardly a path


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How to compile; `keep` names stages whose IR the executable shall hold as text ("*" for all); `sizes` of dims are
    those that the program shall have bodies for; `packed`: the packed functions that it calls, by name; `generators`
    of engines; `bounds`: every access is tested when the program runs; `donate` names the inputs that calls give up;
    `assign_layouts`: what kernels compute lies in memory as suits them, else all of it in row-major order.

    With precision `exact`, `target` is without the dot products of bfloat16, which count subnormal numbers as 0.
    """

    target: Target
    threads: int | None = None
    keep: frozenset[str] = frozenset()
    ops: tuple[Op, ...] = ()
    progress: Progress | None = None
    memory_limit: int = 0
    passes: tuple[Pass, ...] = DEFAULT
    precision: Precision = Precision.DEFAULT
    sizes: Mapping[str, object] = field(default_factory=dict)
    packed: Mapping[str, object] | None = None
    generators: tuple[Any, ...] = ()
    bounds: bool = field(default_factory=lambda: config().bounds)
    donate: tuple[str, ...] = ()
    assign_layouts: bool = True

    def __post_init__(self) -> None:
        if self.precision is Precision.EXACT:
            object.__setattr__(self, "target", self.target.without("avx512bf16"))

    @property
    def pipeline(self) -> tuple[Pass, ...]:
        """The passes, those that the precision asks for, and what code needs behind them."""
        return completed(for_precision(self.passes, self.precision))


def load_model(
    model: object,
    *,
    shapes: Mapping[str, Sequence[int | str | None]] | None = None,
    ops: Iterable[Op] = (),
    custom: Mapping[str, Callable[..., Any]] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> Module:
    """`model` as a module: a Module itself, what holds one as `module` (a relay.IRModule), the path of a .onnx, .pt2,
    .pt, .relay, .relax or .json file, or an onnx.ModelProto. `shapes` are those of inputs, by name, and sizes of dims;
    `constants` the values of inputs that are none in the module."""
    shapes, sizes = split_shapes(model, shapes)
    if sizes:
        only, *others = combinations(sizes)
        found = load_model(model, shapes=shapes, ops=ops, custom=custom, constants=constants)
        mod = without_calls_of_main(infer(found))
        made = for_sizes(main_function(mod), only)
        if others:
            message = f"{option('shapes')}: a dim has several sizes"
            raise CompileError(message, hint="these are for programs that are compiled")
        return mod.with_function(mod.var("main"), made)
    if constants and not is_onnx(model):
        return with_constants(load_model(model, shapes=shapes, ops=ops, custom=custom), constants)
    model = held if isinstance(held := getattr(model, "module", None), Module) else model
    suffix = Path(model).suffix if isinstance(model, str | Path) else ""
    if isinstance(model, Module):
        return model
    if isinstance(model, ir.Function):
        return Module.from_expr(model)
    if suffix in TEXTS:
        from legato.ir.files import load_text
        from legato.prelude import parse

        path = Path(str(model))
        module = load_text(path, ops=operators(ops), read=parse)
        with quoting(path, str(path)):
            return infer_text(module)
    if suffix in SCRIPTS:
        from legato.script import load

        return load(Path(str(model)))
    if suffix == ".json":
        from legato.ir.files import load_json_file

        return infer(load_json_file(Path(str(model)), ops=operators(ops)))
    if suffix in TORCH:
        from legato.frontend.torch.files import load_file

        return infer(load_file(Path(str(model)), shapes=shapes, custom=custom, ops=operators(ops)))
    if isinstance(model, str | Path | bytes) or type(model).__name__ == "ModelProto":
        from legato.frontend.onnx import from_onnx

        return from_onnx(cast("str | Path | bytes", model), shapes=shapes, custom=custom, constants=constants)
    raise CompileError(
        f"cannot compile a {type(model).__name__}",
        hint="give a path to a .onnx, .relay or .relax file, an onnx.ModelProto, or a legato Module",
    )


def split_shapes(model: object, shapes: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, object]]:
    """Of `shapes`: those of inputs of `model`, and sizes of dims. Programs in Relay have shapes of their own."""
    require_path(model)
    given = dict(shapes or {})
    if _is_script(model):
        return given, {}
    choices = {name for name, value in given.items() if is_choice(value)}
    if is_onnx(model) and choices:
        from legato.frontend.onnx.reader import read

        choices -= {value.name for value in read(cast("str | Path | bytes", model)).model.graph.input}
    if is_torch(model) and given:
        raise CompileError("shapes are given for ONNX models", hint=f"of PyTorch's: {option('dynamic_shapes')}")
    if not is_onnx(model) and len(choices) < len(given):
        raise CompileError(
            "shapes are given for ONNX models; a program in Relay has its own",
            hint=f"sizes of its dims can be given: {written('shapes', 'n', [1, 8, '1..512'])}",
        )
    sizes = {name: value for name, value in given.items() if name in choices}
    return {name: value for name, value in given.items() if name not in choices}, sizes


def is_onnx(model: object) -> bool:
    """Whether `model` is one of ONNX: a message, a file's content, or a path that is not named as programs are."""
    if isinstance(model, str | Path):
        return Path(model).suffix not in (*PROGRAMS, *TORCH)
    return isinstance(model, bytes) or type(model).__name__ == "ModelProto"


def _is_script(model: object) -> bool:
    """Whether `model` is the path of a module of TorchScript, which does not have its shapes."""
    return isinstance(model, str | Path) and Path(model).suffix in TORCH[1:]


def is_torch(model: object) -> bool:
    """Whether `model` is a module or an exported program of PyTorch, which is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module | torch.export.ExportedProgram)


def require_path(model: object) -> None:
    """CompileError for the text of a program where a path is wanted, and for code."""
    if isinstance(model, str | Path) and _TEXT.search(str(model)) and not os.path.exists(model):
        hint = "legato.parse(text) makes a module of it; or write it to a .relay file"
        raise CompileError("got the text of a program, wanted the path of a file", hint=hint)
    if isinstance(model, str | Path) and Path(model).suffix == ".py":
        hint = "import it, and give the module that it makes; a script in a .relax file is only read"
        raise CompileError(f"{model} is code: to have its model, it would be run", hint=hint)


@dataclass(slots=True)
class Compiled:
    """The executable and how it came about: modules of code that had to be compiled, seconds per stage, modules that
    were kept."""

    executable: Executable
    compiled: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    modules: dict[str, Module] = field(default_factory=dict)


def compile_module(mod: Module, options: CompileOptions) -> Compiled:
    """`mod`, whose function @main is the program, as an executable: the same, whatever this thread does to floats."""
    with _paused_collection(), float_environment():
        return _compiled(mod, options)


@contextmanager
def _paused_collection() -> Iterator[None]:
    """Python's search for cycles, paused: a compilation makes many objects that live to its end, and hardly a cycle."""
    was_enabled = gc.isenabled()
    gc.disable()
    if was_enabled:
        _pausing.append(get_ident())
    try:
        yield
    finally:
        if was_enabled:
            _pausing.remove(get_ident())
            gc.enable()


def _collect_again() -> None:
    """In a forked process, where the other threads, which would do so, are no more."""
    if any(thread != get_ident() for thread in _pausing):
        _pausing[:] = [thread for thread in _pausing if thread == get_ident()]
        gc.enable()


_pausing: Final[list[int]] = []  # threads that have paused it
os.register_at_fork(after_in_child=_collect_again)


def _require_stages(options: CompileOptions) -> None:
    """CompileError where a stage is to be kept that there is not."""
    stages = [*dict.fromkeys(p.name for p in options.pipeline), "lower", "tir", *["bounds"] * options.bounds]
    for name in sorted(options.keep - {*stages, "*"}):
        raise CompileError(f"keep: there is no stage {name!r}", hint=f"one of {', '.join(stages)}; * keeps all")


def _require_inputs(main: ir.Function, names: Sequence[str]) -> None:
    """CompileError where an input is to be donated that there is not, or that is no tensor."""
    known = [name for name, ty in input_types(main) if isinstance(ty, TensorType)]
    for name in names:
        if name not in known:
            raise CompileError(
                f"donate: no input that is a tensor is called {name!r}", hint=f"there are {', '.join(known)}"
            )


def _compiled(mod: Module, options: CompileOptions) -> Compiled:
    _require_stages(options)
    clock = _Clock(options.progress)
    source = str(mod)
    if has_half(source):
        raise CompileError("a name or string of the program has half a character", hint="names are Unicode text")
    observer = Observer(keep=options.keep, progress=clock.told("passes"))
    with clock("passes"):
        require_shallow(OutlineBranches()(mod))  # what it leaves: closures in closures, say
        mod, externals, packed = taken_out(mod, options.generators, options.packed)
        mod, bodies = _transformed(mod, options, observer)
        _require_inputs(main_function(mod) if bodies is None else bodies.main, options.donate)
    assembler = Assembler.default(options.target, "bounds-checked" if options.bounds else "")
    with clock("lower"):
        segment = Segment(_room(mod))
        roots = ("main",) if bodies is None else bodies.names
        lowered, program = _lowered(mod, options, observer, roots, assembler.shelf(table()), segment.empty)
        if options.bounds or program.written:
            from legato.lower.bounds import with_tests

            with_tests(program, every=options.bounds)
            _keep({"bounds": _as_module({**program.kernels, **program.functions})}, options, observer)
        stored = [(e.info.constant, np.frombuffer(e.data, np.uint8)) for e in externals]
        texts, arrays = numbered(program.constants)
        constants = segment.finished([*arrays, *stored])
    with clock("codegen"):
        emitted = assembler.emit(program, constants.offsets)
        objects = assembler.compile(emitted, lowered, program, clock.told("codegen"))
    with clock("link"):
        image = _linked(objects, [*program.functions, *program.facts])
        is_all = peak_memory(program.functions, program.plans)[1]
        by_reference = sum(not record.is_outside for record in program.host_ops)
        stats = {"host_operators": by_reference, "kernels": len(program.facts), "recursive": int(not is_all)}
        stats |= {"devices": len(program.devices)} if program.devices else {}
        stages = {name: str(m) for name, m in observer.kept.items()}
        functions = entries(lowered.module, program, image.exports, bodies)
        functions["main"] = replace(functions["main"], donated=options.donate)
        info = _program(program, functions, image.exports, options, stats, source, stages)
        executable = Executable.from_parts(
            replace(info.with_strings(texts), externals=tuple(e.info for e in externals)),
            image.data,
            image.code_size,
            image.relocations,
            constants,
            threads=options.threads,
            memory_limit=options.memory_limit,
            host_ops=_host_runner(mod, options, info),
            packed=packed,
        )
    return Compiled(executable, objects.compiled, clock.seconds, observer.kept)


def _transformed(mod: Module, options: CompileOptions, observer: Observer) -> tuple[Module, Bodies | None]:
    """`mod` through the passes. Where sizes are asked for, the function for each combination of them is made when
    constants are folded and are the same in all; the first is @main."""
    if not options.sizes:
        return run(mod, options.pipeline, observer), None
    found = combinations(options.sizes)
    before, after = for_bodies(options.pipeline)
    mod = without_calls_of_main(run(mod, before, observer))
    main, names = main_function(mod), Names(mod)
    made = {
        mod.var("main") if not n else ir.GlobalVar(names.new("main_for_sizes")): for_sizes(main, sizes)
        for n, sizes in enumerate(found)
    }
    mod = run(mod.with_functions({**mod.functions, **made}), after, observer)
    bodies = Bodies(for_sizes(main, hull(found)), tuple(gv.name for gv in made), found)
    return mod, bodies if len(found) > 1 else None


def lower_module(mod: Module, options: CompileOptions, observer: Observer) -> tuple[Module, HostProgram]:
    """`mod`, through the passes, with tensor programs for its groups (kept as "lower"), and those with the host
    functions around them (kept as "tir")."""
    lowered, program = _lowered(mod, options, observer)
    return lowered.module, program


def _room(mod: Module) -> int:
    """Bytes of address space that the constants of `mod` will do with, packed in all likelihood."""
    nodes = {node for _, func in mod.graph_functions() for node in body_nodes(func)}
    return 3 * sum(node.data.nbytes for node in nodes if isinstance(node, ir.Constant)) + (1 << 20)


def main_function(mod: Module) -> ir.Function:
    """@main of `mod`; UnsupportedError where it is a loop-level function, CompileError where there is none."""
    main = mod["main"]
    if not isinstance(main, ir.Function):
        raise UnsupportedError(
            "@main is a loop-level function", hint="compile a module whose @main is a graph function"
        )
    return main


def _lowered(
    mod: Module,
    options: CompileOptions,
    observer: Observer,
    roots: Sequence[str] = ("main",),
    shelf: Shelf | None = None,
    allocate: Allocate = np.empty,
) -> tuple[LoweredModule, HostProgram]:
    """`lower_module` of what the functions `roots` call; what the `shelf` has is not lowered again, unless somebody
    wants to see how it is."""
    mod = mod.with_functions({gv: f for name in roots for gv, f in reachable(mod, name).functions.items()})
    main_function(mod)
    require_supported(mod, first_order(mod))
    is_watched = options.bounds or observer.settings.verify or not options.keep.isdisjoint(("lower", "tir", "*"))
    shelf = None if is_watched else shelf
    lowered = lower_functions(
        mod, options.target, options.precision, shelf, allocate, assign_layouts=options.assign_layouts
    )
    program = lower_hosts(lowered, options.target)
    loops = {**program.kernels, **program.functions}
    if observer.settings.verify:
        from legato.tir.verify import verify_all  # only where it is asked for

        verify_all(loops, final=True)
    _keep({"lower": lowered.module, "tir": _as_module(loops)}, options, observer)
    return lowered, program


def _keep(stages: Mapping[str, Module], options: CompileOptions, observer: Observer) -> None:
    """Keeps those of `stages` that somebody wants to see."""
    for name, stage in stages.items():
        if name in options.keep or "*" in options.keep:
            observer.kept[name] = stage


def _as_module(functions: Mapping[str, Func]) -> Module:
    return Module({ir.GlobalVar(name): func for name, func in functions.items()})


class _Clock:
    def __init__(self, progress: Progress | None) -> None:
        self.seconds: dict[str, float] = {}
        self.progress = progress

    def __call__(self, stage: str) -> _Stage:
        if self.progress is not None:
            self.progress(stage)
        return _Stage(self, stage)

    def told(self, stage: str) -> Progress | None:
        """What takes how far a stage is; None where nobody wants to know."""
        tell = self.progress
        return None if tell is None else lambda part: tell(f"{stage}: {part}")


@dataclass(slots=True)
class _Stage:
    clock: _Clock
    name: str
    start: float = 0.0

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        self.clock.seconds[self.name] = time.perf_counter() - self.start


def _linked(objects: Objects, exports: Sequence[str]) -> Image:
    """The image of a program: its kernels, called as the program calls them, and its host functions."""
    return link([*objects.kernels.values(), *objects.hosts], exports, [{KERNEL: name} for name in objects.kernels])


def _program(
    program: HostProgram,
    functions: Mapping[str, FunctionInfo],
    exports: Mapping[str, int],
    options: CompileOptions,
    stats: Mapping[str, int],
    source: str,
    stages: Mapping[str, str],
) -> Program:
    return Program(
        target=options.target.name,
        precision=options.precision.value,
        functions=functions,
        checks=tuple(program.checks),
        tests=program.tests,
        kernels=_kernels(program, exports),
        host_ops=tuple(host_op_info(r, attrs_to_json(r.attrs)) for r in program.host_ops),
        stats=stats,
        source=source,
        stages=stages,
        version=__version__,
    )


def _kernels(program: HostProgram, exports: Mapping[str, int]) -> str:
    """What is known of every kernel, as text."""
    operators: dict[str, dict[str, None]] = {name: {} for name in program.facts}
    sites: dict[str, list[str]] = {name: [] for name in program.facts}
    for site in program.sites:
        operators[site.kernel].update(dict.fromkeys(site.operators))
        sites[site.kernel].append("" if site.span is None else str(site.span))
    return kernels_to_text(
        kernel_from_work(name, exports[name], facts.work, tuple(operators[name]), sites[name])
        for name, facts in program.facts.items()
    )


def _host_runner(mod: Module, options: CompileOptions, info: Program) -> ByReference | None:
    """What runs the operators of `mod` that have no native code."""
    own = own_operators((*options.ops, *called(mod, {record.op for record in info.host_ops})))
    return ByReference(tuple(own.values())) if info.host_ops else None
