"""What passes are run by: their information, contexts, and sequences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self, SupportsIndex

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.base.kinds import require, require_integer, require_mapping, require_sequence
from legato.infer.infer import infer
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.relay.module import IRModule

if TYPE_CHECKING:
    from legato.transform.pass_ import Pass as Step

__all__ = ["FunctionPass", "ModulePass", "Pass", "PassContext", "PassInfo", "PrintIR", "build_config",
           "function_pass", "module_pass", "pass_of"]  # fmt: skip

CONFIGS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "relay.FuseOps.max_depth": int,
        "relax.FuseOps.max_depth": int,
        "relay.ToMixedPrecision.keep_orig_output_dtype": bool,
    }
)  # what has a meaning, and the type of its values
_DEPTHS: Final = ("relay.FuseOps.max_depth", "relax.FuseOps.max_depth")
_TVM_TYPES: Final[Mapping[type, str]] = MappingProxyType({int: "IntImm", bool: "Bool", str: "runtime.String"})
_SKIPPED: Final = ("Compiler", "Extern", "SkipOptimization")  # attributes of functions that function passes leave alone


@dataclass(frozen=True, slots=True)
class PassInfo:
    """What a pass is called, the level from which on `Sequential` runs it, and the names of passes to run before it."""

    opt_level: int
    name: str
    required: tuple[str, ...] = ()
    traceable: bool = False


@dataclass(slots=True)
class PassContext:
    """How passes are run: `with PassContext(opt_level=3, disabled_pass=["FoldConstant"]): …`.

    `Sequential` runs a pass whose level is at most `opt_level`, or that is in `required_pass`, and not in
    `disabled_pass`; so does `relay.build`, which has CompileError for passes that it cannot do without, or does not
    run. `instruments` are objects with some of the methods enter_pass_ctx(), exit_pass_ctx(), should_run(mod, info),
    run_before_pass(mod, info), run_after_pass(mod, info) and run_failed_pass(mod, info). CompileError for a
    configuration that is not known (`list_configs`).
    """

    opt_level: int = 2
    required_pass: Sequence[str] | None = None
    disabled_pass: Sequence[str] | None = None
    instruments: Sequence[Any] | None = None
    config: Mapping[str, Any] | None = None
    _tokens: list[Token[PassContext]] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        require_integer(self.opt_level, "opt_level")
        for what in ("required_pass", "disabled_pass", "instruments"):
            given = getattr(self, what)
            require(given is None or isinstance(given, list | tuple | set | frozenset), given, what, "a list")
        for name, value in require_mapping(self.config or {}, "config", "values by name").items():
            _require_config(name, value)

    def __enter__(self) -> Self:
        self._tokens.append(_current.set(self))
        try:
            self.tell("enter_pass_ctx")
        except BaseException:
            _current.reset(self._tokens.pop())
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.tell("exit_pass_ctx")
        finally:
            _current.reset(self._tokens.pop())

    @staticmethod
    def current() -> PassContext:
        """The innermost open context, or the default one."""
        return _current.get()

    @property
    def is_default(self) -> bool:
        """Whether this is the context outside of all."""
        return self is _DEFAULT

    @staticmethod
    def list_configs() -> Mapping[str, Any]:
        """The configurations that have a meaning, with the type of each."""
        return {name: {"type": _TVM_TYPES[kind]} for name, kind in CONFIGS.items()}

    def override_instruments(self, instruments: Sequence[Any] | None) -> None:
        """Other instruments from here on: those that there were leave the context, these enter it."""
        self.tell("exit_pass_ctx")
        self.instruments = instruments
        self.tell("enter_pass_ctx")

    def option(self, name: str, default: Any) -> Any:
        """What the configuration says under `name`, one of `CONFIGS`."""
        return (self.config or {}).get(name, default)

    def enables(self, info: PassInfo) -> bool:
        """Whether `Sequential` runs the pass."""
        if info.name in (self.disabled_pass or ()):
            return False
        return info.name in (self.required_pass or ()) or self.opt_level >= info.opt_level

    @property
    def max_depth(self) -> int | None:
        """How many operators a group of FuseOps has at most; None: as many as it has by itself."""
        found = [int(value) for name in _DEPTHS if (value := self.option(name, None)) is not None]
        return min(found, default=None)

    def tell(self, event: str, *args: Any) -> list[Any]:
        """Calls a method of every instrument that has it."""
        return [getattr(i, event)(*args) for i in self.instruments or () if hasattr(i, event)]


def _require_config(name: str, value: Any) -> None:
    """CompileError for a configuration that there is not, and for a value of another type."""
    if name not in CONFIGS:
        raise CompileError(f"there is no pass configuration {name!r}", hint=f"there are {', '.join(CONFIGS)}")
    kind = CONFIGS[name]
    if not isinstance(value, SupportsIndex if kind is int else kind):
        words = {int: "an integer", bool: "True or False", str: "a string"}
        raise CompileError(f"the configuration {name} is {words[kind]}, got {value!r}")


_DEFAULT: Final = PassContext()
_current: ContextVar[PassContext] = ContextVar("legato.relay.PassContext", default=_DEFAULT)


def build_config(
    opt_level: int = 2,
    required_pass: Sequence[str] | None = None,
    disabled_pass: Sequence[str] | None = None,
    trace: object = None,
) -> PassContext:
    """A PassContext, as scripts made it before that had its name. CompileError for a `trace`."""
    if trace is not None:
        raise CompileError("build_config has no option trace", hint="instruments of a PassContext are told of passes")
    return PassContext(opt_level, required_pass, disabled_pass)


class Pass(ABC):
    """A transformation of modules: `new = some_pass(mod)`. The module given is not changed."""

    info: PassInfo

    @property
    def name(self) -> str:
        """What the pass is called."""
        return self.info.name

    def __call__(self, mod: Any) -> Any:
        """The transformed module; of a function, what becomes of it as @main. Instruments of the current context are
        told, and may forbid it. CompileError for anything else."""
        if isinstance(mod, Function):
            made = IRModule.from_expr(mod)
            return self(made)[next(iter(made))]
        if not isinstance(mod, IRModule | Module):
            raise CompileError(f"{self.name} takes a module or a function, got {type(mod).__name__}")
        return self._run(mod if isinstance(mod, IRModule) else IRModule(mod))

    @property
    def step(self) -> Step:
        """This pass as one of the compiler's, as `legato.compile(passes=…)` takes them."""
        from legato.relay._as_step import AsStep  # on use: programs that build no pass need no compiler

        return AsStep(self)

    def _run(self, mod: IRModule) -> IRModule:
        context = PassContext.current()
        if not all(context.tell("should_run", mod, self.info)):
            return mod
        context.tell("run_before_pass", mod, self.info)
        try:
            found: Any = self.transform(mod, context)
        except BaseException:
            context.tell("run_failed_pass", mod, self.info)
            raise
        new = IRModule(found) if isinstance(found, Module) else found  # a function of one's own may give either
        context.tell("run_after_pass", new, self.info)
        return new

    @abstractmethod
    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        """What the pass does."""

    def __repr__(self) -> str:
        return f"<pass {self.info.name} at level {self.info.opt_level}>"


class ModulePass(Pass):
    """A pass made of a function (mod, context) -> mod."""

    def __init__(self, pass_func: Callable[[IRModule, PassContext], IRModule], info: PassInfo) -> None:
        self.pass_func, self.info = pass_func, info

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        return self.pass_func(mod, context)


class FunctionPass(Pass):
    """A pass made of a function (func, mod, context) -> func; types are inferred afterwards.

    Functions with the attribute Compiler, Extern or SkipOptimization are left alone.
    """

    def __init__(self, pass_func: Callable[[Function, IRModule, PassContext], Function], info: PassInfo) -> None:
        self.pass_func, self.info = pass_func, info

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        functions = dict(mod.functions)
        for gv, func in functions.items():
            if isinstance(func, Function) and not any(func.attrs.get(name) for name in _SKIPPED):
                functions[gv] = self.pass_func(func, mod, context)
        return IRModule(infer(mod.module.with_functions(functions)))


class PrintIR(Pass):
    """Prints the module, and gives it back."""

    def __init__(self, header: str = "", show_meta_data: bool = False) -> None:
        self.header, self.show_meta_data = header, show_meta_data
        self.info = PassInfo(0, "PrintIR")

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        print(f"{self.header}\n{mod.astext(self.show_meta_data)}")
        return mod


def module_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """A decorator: a function (mod, context) -> mod, or a class with such a method `transform_module`, as a pass."""
    return pass_of(ModulePass, "transform_module", pass_func, opt_level, name, required, traceable)


def function_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """A decorator: a function (func, mod, context) -> func, or a class with such a method `transform_function`."""
    return pass_of(FunctionPass, "transform_function", pass_func, opt_level, name, required, traceable)


def pass_of(
    kind: type[Any],
    method: str,
    pass_func: Any,
    opt_level: int | None,
    name: str | None,
    required: Sequence[str] | None,
    traceable: bool,
) -> Any:
    """`pass_func`, or a class with `method`, as a pass of this kind; without either, the decorator that makes one."""
    if opt_level is None:
        raise CompileError("a pass needs its opt_level", hint="write @function_pass(opt_level=1)")
    level = require_integer(opt_level, "opt_level")
    require(name is None or isinstance(name, str), name, "name", "the name of a pass")
    before = require_sequence(required or (), "required", "a list of names of passes")

    def make(target: Any) -> Any:
        require(callable(target), target, "a pass", "a function, or a class")
        called = name or getattr(target, "__name__", "")
        if not called:
            raise CompileError(f"{target!r:.80} has no name", hint="write @function_pass(opt_level=1, name=…)")
        info = PassInfo(level, called, before, traceable)
        if not isinstance(target, type):
            return kind(target, info)
        if not hasattr(target, method):
            raise CompileError(f"{target.__name__} has no method {method}", hint=f"a pass of this kind needs {method}")

        def create(*args: Any, **keywords: Any) -> Any:
            instance = target(*args, **keywords)
            made = kind(getattr(instance, method), info)
            made.instance = instance
            return made

        return create

    return make if pass_func is None else make(pass_func)
