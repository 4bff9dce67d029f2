"""Legato: deep-learning models become fast native programs.

    exe = legato.compile("model.onnx")
    y = exe(x)
    exe.save("model.legato");  exe = legato.load("model.legato")

Everything is imported on use: `import legato` costs no more than NumPy. Loading and running takes NumPy alone; the rest
is a MissingError where the packages of `legato[compiler]` are not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from legato._version import __version__
from legato.base import sources as _sources  # noqa: F401  # notes when this process began to read the package

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Protocol, TypedDict, Unpack

    import numpy as np
    from torch.export import ExportedProgram
    from torch.nn import Module as TorchModule

    from legato import autodiff as autodiff
    from legato import contrib as contrib
    from legato import errors as errors
    from legato import nd as nd
    from legato import optim as optim
    from legato import relax as relax
    from legato import relay as relay
    from legato import runtime as runtime
    from legato import target as target
    from legato.autodiff import grad as grad
    from legato.autodiff import hessian as hessian
    from legato.autodiff import jacobian as jacobian
    from legato.autodiff import value_and_grad as value_and_grad
    from legato.compare import Report
    from legato.ir.expr import Function
    from legato.ir.module import Module
    from legato.ir.op import Op
    from legato.ir.types import Type
    from legato.runtime.engines import Engine
    from legato.runtime.executable import Executable
    from legato.runtime.fill import Fill
    from legato.runtime.ndarray import cpu as cpu
    from legato.runtime.ndarray import device as device
    from legato.runtime.packed import Packed
    from legato.runtime.program import HostOpInfo
    from legato.torch.compiled import CompiledModule
    from legato.transform.pass_ import Pass

    class _Message(Protocol):
        """An onnx.ModelProto."""

        def SerializeToString(self) -> bytes: ...

    class _Options(TypedDict, total=False):
        """What `compile` takes besides the model."""

        target: str
        shapes: Mapping[str, int | str | Sequence[int | str | None]] | None
        constants: Mapping[str, Any] | None
        threads: int | None
        keep: Iterable[str]
        ops: Iterable[Op]
        custom: Mapping[str, Callable[..., Any]] | None
        passes: Iterable[Pass | str] | str | None
        memory_limit: int
        progress: Callable[[str], None] | None
        precision: str | None
        packed: Mapping[str, object] | None
        generators: Iterable[Any]
        bounds: bool | None
        donate: Iterable[str]

    class _Verification(TypedDict, total=False):
        """What `verify` takes besides the model and the inputs."""

        shapes: Mapping[str, Sequence[int | str | None]] | None
        constants: Mapping[str, Any] | None
        dims: Mapping[str, int] | None
        how: Fill
        seed: int
        target: str
        threads: int | None
        against: str | None
        bisect: bool
        ops: Iterable[Op]
        custom: Mapping[str, Callable[..., Any]] | None
        progress: Callable[[str], None] | None
        precision: str | None
        packed: Mapping[str, object] | None
        generators: Iterable[Any]
        bounds: bool | None
        passes: Iterable[Pass | str] | str | None

    class _TorchOptions(_Options, total=False):
        """And of PyTorch's models."""

        args: Sequence[Any]
        kwargs: Mapping[str, Any] | None
        dynamic_shapes: Any
        frozen: bool

else:

    def __getattr__(name: str) -> Any:
        """`grad` and its kin, `cpu()` and `device(…)`, and the parts of the package that scripts name."""
        from importlib import import_module

        if name in ("grad", "hessian", "jacobian", "value_and_grad"):
            return getattr(import_module("legato.autodiff"), name)
        if name in ("autodiff", "contrib", "errors", "nd", "optim", "relax", "relay", "runtime", "target"):
            return import_module(f"legato.{name}")
        if name in ("cpu", "device"):
            return getattr(import_module("legato.runtime.ndarray"), name)
        raise AttributeError(f"module 'legato' has no attribute {name!r}")


__all__ = ["__version__", "compile", "from_onnx", "from_torch", "load", "packed", "parse", "verify"]


@overload
def compile(model: str | Path | bytes | Module | Function | _Message, **options: Unpack[_Options]) -> Executable: ...
@overload
def compile(model: TorchModule | ExportedProgram, **options: Unpack[_TorchOptions]) -> CompiledModule: ...
@overload
def compile(model: object, **options: Unpack[_TorchOptions]) -> Any: ...
def compile(  # the name that users look for
    model: object,
    *,
    target: str = "host",
    shapes: Mapping[str, int | str | Sequence[int | str | None]] | None = None,
    constants: Mapping[str, Any] | None = None,
    threads: int | None = None,
    keep: Iterable[str] = (),
    ops: Iterable[Op] = (),
    custom: Mapping[str, Callable[..., Any]] | None = None,
    passes: Iterable[Pass | str] | str | None = None,
    memory_limit: int = 0,
    progress: Callable[[str], None] | None = None,
    precision: str | None = None,
    packed: Mapping[str, object] | None = None,
    generators: Iterable[Any] = (),
    bounds: bool | None = None,
    donate: Iterable[str] = (),
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    frozen: bool = True,
) -> Any:
    """The executable of `model`.

    model:   a path to a .onnx, .pt2, .pt, .relay or .json file, an onnx.ModelProto, or a Module; or a torch.nn.Module
             or ExportedProgram, of which comes a `legato.torch.CompiledModule` (docs/pytorch.md).
    target:  "host", or a level of x86-64 ("x86-64-v2", "x86-64-v3", "x86-64-v4").
    shapes:  shapes of inputs by name, replacing the model's; strings name symbolic dims. By the name of a dim: the
             sizes to compile for, as in {"n": [1, 8, "1..512"]}. There is a body for each, the first that takes the
             sizes of a call runs it, and all have the same weights; other sizes are a RunError.
    constants: values that inputs have for good, by name: they are no inputs of the executable.
    threads: default number of threads of calls; it does not enter the code, and results do not depend on it.
    keep:    stages whose text `exe.module_after(stage)` shall give: names of passes, "lower", "tir"; "*": all.
    ops:     operators of your own; custom: converters of your own, by "domain::Op": of ONNX operators, or of
             PyTorch's (docs/pytorch.md).
    passes:  what is done to the program before it is lowered, as passes and texts that name them (docs/passes.md):
             `[my_pass, "default"]`; None: "default", which is `legato.pipelines.DEFAULT`.
             `legato.pipelines.without` leaves out what code can do without.
    memory_limit: of the workspace of one call, in bytes; 0: none.
    progress: a function that is told, in a word or two, what is being done.
    precision: None: algorithms that round about as much as the sums as they stand; "exact": those sums only, and
             subnormal numbers do not count as 0; "fast": also algorithms with somewhat larger errors; "bfloat16":
             matrix products and convolutions of bfloat16 with float32 sums (docs/precision.md).
    packed:  the functions outside of the program that it calls, by name: Python functions, or what `legato.packed`
             declares (docs/packed.md). They are no part of the executable's file.
    generators: what compiles, and runs, functions with the attribute Compiler="NAME" (docs/generators.md).
    bounds:  every access to memory is tested when the program runs, which is slow; one that is out of bounds ends the
             call with an InternalError. None: as LEGATO_BOUNDS says.
    donate:  names of inputs whose arrays calls give up unless they say otherwise: outputs may be computed in their
             memory (docs/running.md).
    args, kwargs, dynamic_shapes: of a torch.nn.Module, as for torch.export.export. frozen: the weights of a
             torch.nn.Module are constants.

    Raises CompileError (with what was wrong, where, and a hint) and PlatformError.
    """
    from dataclasses import replace

    from legato.base.config import config
    from legato.base.precision import precision as as_precision
    from legato.base.target import target as as_target
    from legato.driver import CompileOptions, compile_module, is_torch, load_model, split_shapes
    from legato.pipelines import as_passes
    from legato.runtime.engines import by_name

    traced = {"args": len(args) > 0, "kwargs": bool(kwargs), "dynamic_shapes": dynamic_shapes is not None}
    _require_meant(model, traced, constants=bool(constants), frozen=frozen)
    chosen = as_passes(passes)
    exactness = as_precision(precision)
    kept = frozenset((keep,) if isinstance(keep, str) else keep)
    own, sizes = split_shapes(model, shapes)
    options = CompileOptions(
        as_target(target),
        threads,
        kept,
        tuple(ops),
        progress,
        memory_limit,
        chosen,
        exactness,
        sizes,
        packed,
        tuple(by_name(generators).values()),
        config().bounds if bounds is None else bounds,
        (donate,) if isinstance(donate, str) else tuple(donate),
    )
    if is_torch(model):
        from legato.torch import compile_module as compile_torch

        def build(mod: Module, donated: tuple[str, ...]) -> Executable:
            return compile_module(mod, replace(options, donate=(*options.donate, *donated))).executable

        return compile_torch(
            model, args, kwargs, dynamic_shapes=dynamic_shapes, custom=custom, frozen=frozen, build=build
        )
    mod = load_model(model, shapes=own, ops=options.ops, custom=custom, constants=constants)
    return compile_module(mod, options).executable


def _require_meant(model: object, traced: Mapping[str, bool], *, constants: bool, frozen: bool) -> None:
    """CompileError where something is given that says nothing of `model`: of a module of PyTorch, what to trace it with
    and whether its weights are constants, of an ExportedProgram the latter, of all others neither."""
    from legato.base.errors import CompileError
    from legato.driver import is_torch

    given = [name for name, is_given in traced.items() if is_given]
    if not is_torch(model):
        given += [] if frozen else ["frozen"]
        if given:
            raise CompileError(f"{', '.join(given)}: given for a model that is no module of PyTorch")
    elif constants:
        raise CompileError("constants are given for a model of PyTorch", hint="buffers of a module are constants")
    elif given and hasattr(model, "graph_signature"):
        raise CompileError(f"{', '.join(given)}: given for an ExportedProgram, which has been traced")


def packed(function: Callable[..., Any], type: str | Type, *, pure: bool | None = None) -> Packed:
    """What is declared of a function that programs call by name: `packed={"name": legato.packed(f, …)}`.

    function: Python's, or one of a shared library, as ctypes has it: `int f(DLTensor **args, int n)` (docs/packed.md).
    type:     in Relay's text, "fn (Tensor[(n, 4), float32], int64) -> Tensor[(n,), float32]"; dims that are names
              get their values from the tensors of each call. Calls that cannot fit are errors when they are compiled.
    pure:     whether it has no effects; None: as the calls say.
    """
    from legato.ir.parser import parse_type
    from legato.lower.signature import declared_type
    from legato.runtime.packed import Packed as Record

    return Record(function, declared_type(parse_type(type) if isinstance(type, str) else type), pure)


def load(
    path: str | Path,
    *,
    threads: int | None = None,
    memory_limit: int = 0,
    ops: Iterable[Op] = (),
    packed: Mapping[str, object] | None = None,
    generators: Iterable[Any] = (),
    mapped: bool = False,
) -> Executable:
    """The executable in an artifact file; ArtifactError for a damaged or foreign one.

    Nothing of the compiler is imported, unless the program has operators without native code: their references run
    them, `ops` being those of your own. packed: the packed functions that it calls, as for `compile`; PackedError where
    one is missing, or does not fit. generators: those that `compile` was given: they run what the file has for them,
    and nobody else does; GeneratorError where one is missing.
    mapped: its weights are not read but stay the file's pages, which all processes that map it share; the file may be
    replaced by another then, and must not be written to (docs/scaling.md).
    """
    from legato.runtime.executable import load as load_artifact

    own = tuple(ops)
    return load_artifact(
        path,
        threads=threads,
        memory_limit=memory_limit,
        host_ops=partial(_by_reference, own),
        packed=packed,
        generators=generators,
        compiled=partial(_compiled_again, own),
        mapped=mapped,
    )


def _compiled_again(ops: tuple[Op, ...], generator: Any, symbol: str, data: bytes) -> Engine:
    from legato.driver import operators
    from legato.generators.external import engine_of

    return engine_of(generator, symbol, data, operators(ops))


def _by_reference(ops: tuple[Op, ...], info: HostOpInfo, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    from legato.ops._by_reference import ByReference

    return ByReference(ops)(info, inputs)


def verify(
    model: object, inputs: Mapping[str, Any] | Sequence[Any] | None = None, **options: Unpack[_Verification]
) -> Report:
    """Whether `model`, compiled, computes what it means: see `legato.compare.verify`, which has the options.

    The report is true where every output holds; it has the error of each, and what was allowed. Nothing is raised for
    wrong results; CompileError and RunError are, for a model that cannot be compiled and inputs that do not fit.
    """
    from legato.compare import verify as compare

    return compare(model, inputs, **options)


def from_onnx(model: Any, **options: Any) -> Module:
    """The module of an ONNX model (a path, bytes or an onnx.ModelProto); see `legato.frontend.onnx.from_onnx`."""
    from legato.frontend.onnx import from_onnx as convert

    return convert(model, **options)


def from_torch(model: Any, *args: Any, **options: Any) -> Module:
    """The module of a `torch.nn.Module` or of an ExportedProgram; see `legato.frontend.torch.from_torch`."""
    from legato.frontend.torch import from_torch as convert

    return convert(model, *args, **options)


def parse(text: str, *, ops: Iterable[Op] = ()) -> Module:
    """The typed module that `text` in Relay's format describes, with what it names of the prelude (`List`, `@map`, …).

    ParseError or TypeCheckError with the place.
    """
    from legato.base.errors import quoting
    from legato.driver import operators
    from legato.infer.infer import infer_text
    from legato.prelude import parse as read

    with quoting(text):
        return infer_text(read(text, ops=operators(ops)))
