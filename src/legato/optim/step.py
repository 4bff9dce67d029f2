"""The program of one whole training step.

    @main(w, x, y) -> loss    =>    @main(w, w_mean, w_square, step, x, y) -> (loss, w, w_mean, w_square, step)

What a step gives for the next one has the name of the input that it becomes: it lies in its array if that is donated.
Results are computed in their order: the loss comes first, then parameters in the order in which it uses them first.
Gradients arrive in the reverse order, so that the first update comes when all parameters have been read, and each can
be made where the parameter lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from legato import ops as _ops  # noqa: F401  # gives meaning to the builder's operator names
from legato.autodiff import value_and_grad
from legato.autodiff.program import as_module, main_of
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.base.kinds import require, require_sequence
from legato.base.node import post_order
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.ir.expr import Expr, Function, Var
from legato.ir.let import chain, lets
from legato.ir.module import Module
from legato.ir.types import TensorType, TupleType, tensor_type
from legato.optim.clipping import Clipping
from legato.optim.optimizers import Optimizer

__all__ = ["TrainingStep", "training_step"]


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """What `training_step` makes.

    module:  its @main takes `inputs` and gives `outputs`.
    params:  names of the parameters.
    slots:   what the optimizer keeps, by name: each with the parameter that it belongs to.
    carry:   names of what the loss hands on to the next step.
    batch:   names of what every step is given.
    results: names of what a step gives beside the things that it carries on: the loss, and what came with it.
    """

    module: Module
    params: tuple[str, ...]
    slots: Mapping[str, str]
    carry: tuple[str, ...]
    batch: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def held(self) -> tuple[str, ...]:
        """What a step takes and gives anew, by the same names: the number of steps done comes last."""
        return (*self.params, *self.slots, *self.carry, "step")

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs of @main, in order."""
        return (*self.held, *self.batch)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The results of @main, in order."""
        return (*self.results, *self.held)


def training_step(
    loss: object,
    optimizer: Optimizer,
    params: Iterable[str],
    *,
    carry: Iterable[str] = (),
    clip: Clipping | None = None,
) -> TrainingStep:
    """One program for a whole step: the loss forward, its gradients, and what they change.

    loss:      a Module, a Function or a decorated function. Its result is a float, or a tuple: a float, the new values
               of `carry` in their order, and what else the caller wants to see.
    optimizer: how parameters change.
    params:    the parameters of `loss` that are trained, by name.
    carry:     parameters that the loss itself computes anew: moving averages, the key of random numbers.
    clip:      a bound of the gradients.

    All other parameters of `loss` are the batch. CompileError where the loss does not fit, or has no gradient.
    """
    mod = as_module(loss)
    require(isinstance(optimizer, Optimizer), optimizer, "optimizer", "an Optimizer, as optim.SGD(0.1)")
    require(clip is None or isinstance(clip, Clipping), clip, "clip", "a Clipping, as optim.ByNorm(1.0), or None")
    names, carried = _names("params", params), _names("carry", carry)
    _check(mod, names, carried)
    names = _in_order(main_of(mod), names)
    has_aux = isinstance(main_of(mod).body.ty, TupleType)
    gradients = value_and_grad(mod, names, has_aux=has_aux)
    main = main_of(gradients)
    results = _result_names(main_of(mod), len(carried))
    batch = tuple(p.name for p in main.params if p.name not in {*names, *carried})
    slots = {f"{name}_{slot}": name for name in names for slot in optimizer.slots}
    made = TrainingStep(mod, names, slots, carried, batch, results)
    for side in (made.inputs, made.outputs):
        if twice := sorted({name for name in side if side.count(name) > 1}):
            raise CompileError(f"a training step has two values called {', '.join(twice)}", span=main.span,
                               hint="give parameters of the loss other names")  # fmt: skip
    step = _Writer(optimizer, clip, types=gradients.types.values()).written(main, made)
    return replace(made, module=infer(gradients.with_function(gradients.var("main"), step)))


def _names(what: str, given: Iterable[str]) -> tuple[str, ...]:
    wanted = "names of parameters"
    found = require_sequence(given, what, wanted)
    require(all(isinstance(name, str) for name in found), given, what, wanted)
    return found


def _check(mod: Module, params: Sequence[str], carry: Sequence[str]) -> None:
    """CompileError for names that are no parameters of @main, or not of the type that they must have."""
    main = main_of(mod)
    known = {p.name: p for p in main.params}
    for name in (*params, *carry):
        if name not in known:
            raise CompileError(f"the loss has no parameter {name!r}", span=main.span,
                               hint=f"there are {', '.join(known)}")  # fmt: skip
        if not isinstance(known[name].ty, TensorType):
            raise CompileError(f"{name!r} has type {known[name].ty}, wanted a tensor", span=main.span)
    if twice := sorted({name for name in (*params, *carry) if (*params, *carry).count(name) > 1}):
        raise CompileError(f"params and carry name {', '.join(twice)} twice")
    if not params:
        raise CompileError("there is nothing to train", hint="params has the names of parameters")
    ty = main.body.ty
    given = ty.fields[1:] if isinstance(ty, TupleType) else ()
    if len(given) < len(carry):
        raise CompileError(f"the loss gives {len(given)} values behind the float, wanted {len(carry)} to carry",
                           span=main.span, hint="(float, new values of carry in their order, others)")  # fmt: skip
    if any(isinstance(field, TupleType) for field in given):
        raise CompileError(f"the loss gives {ty}, wanted no tuples in it", span=main.span)
    for name, made in zip(carry, given, strict=False):
        if known[name].ty != made:
            raise CompileError(f"{name!r} has type {known[name].ty}, and its new value {made}", span=main.span)


def _in_order(main: Function, params: Sequence[str]) -> tuple[str, ...]:
    """Names of parameters in the order in which the body mentions them first; those that it does not mention, last."""
    places: dict[str, int] = {}
    own = {*main.params}
    for place, node in enumerate(post_order([main.body])):
        if isinstance(node, Var) and node in own:
            places.setdefault(node.name, place)
    return tuple(sorted(params, key=lambda name: (name not in places, places.get(name, 0))))


def _result_names(main: Function, carried: int) -> tuple[str, ...]:
    """`loss`, and names for what is given beside it and what is carried."""
    ty = main.body.ty
    count = len(ty.fields) - 1 - carried if isinstance(ty, TupleType) else 0
    own = tuple(main.attrs.get("output_names") or ())[1 + carried :]
    return ("loss", *(own if len(own) == count else tuple(f"result{n}" for n in range(count))))


class _Writer:
    """Writes the update behind the gradients."""

    def __init__(self, optimizer: Optimizer, clip: Clipping | None, types: Iterable[object]) -> None:
        self.b = Builder(types=tuple(types))  # type: ignore[arg-type]
        self.optimizer = optimizer
        self.clip = clip
        self.numbers: dict[dt.DType, dict[str, Expr]] = {}

    def written(self, main: Function, made: TrainingStep) -> Function:
        """@main of the step, where `main` gives the loss and its gradients."""
        b = self.b
        step = Var("step", ty=tensor_type((), "int64"))
        by_name = {p.name: p for p in main.params}
        slots = {name: Var(name, ty=by_name[param].ty) for name, param in made.slots.items()}
        bindings, result = chain(main.body)
        with b.bindings() as bound:
            value, gradients = b.get(result, 0), b.get(result, 1)
            given = [b.get(gradients, n) for n in range(len(made.params))]
            given = self.clip.apply(b, given) if self.clip is not None else given
            count = b.let("count", b.cast(step, dtype="float64"))
            self.numbers[dt.float64] = {n: b.let(n, e) for n, e in self.optimizer.numbers(b, count).items()}
            new = self._updated([by_name[name] for name in made.params], given, slots, made)
            new["step"] = b.add(step, 1)
            parts = (
                [b.get(value, n) for n in range(len(value.ty.fields))] if isinstance(value.ty, TupleType) else [value]
            )
            new |= dict(zip(made.carry, parts[1:], strict=False)) | {"loss": parts[0]}
            new |= dict(zip(made.results[1:], parts[1 + len(made.carry) :], strict=True))
            fields = b.tuple_([new[name] for name in made.outputs])
        variables = {"step": step, **by_name, **slots}
        params = tuple(variables[name] for name in made.inputs)
        attrs = {**main.attrs, "output_names": made.outputs}
        return Function(params, lets([*bindings, *bound], fields), None, main.type_params, attrs, span=main.span)

    def _updated(
        self, params: Sequence[Var], gradients: Sequence[Expr], slots: Mapping[str, Var], made: TrainingStep
    ) -> dict[str, Expr]:
        """New values of parameters and slots, by name."""
        b, new = self.b, dict[str, Expr]()
        for param, gradient in zip(params, gradients, strict=True):
            own = [name for name, owner in made.slots.items() if owner == param.name]
            wide = self._wide(param)
            values = [self._as(value, wide) for value in (param, gradient, *(slots[name] for name in own))]
            value, kept = self.optimizer.update(b, values[0], values[1], values[2:], self._numbers(wide))
            assert isinstance(param.ty, TensorType)
            for name, e in zip((param.name, *own), (value, *kept), strict=True):
                new[name] = b.let(f"{name}_new", self._as(e, param.ty.dtype))
        return new

    def _numbers(self, dtype: dt.DType) -> dict[str, Expr]:
        """The numbers of the step in that dtype."""
        if dtype not in self.numbers:
            given = self.numbers[dt.float64]
            self.numbers[dtype] = {n: self.b.let(n, self._as(e, dtype)) for n, e in given.items()}
        return self.numbers[dtype]

    @staticmethod
    def _wide(param: Expr) -> dt.DType:
        """What the update of a parameter is computed in: small floats are rounded once."""
        assert isinstance(param.ty, TensorType)
        return dt.float64 if param.ty.dtype == dt.float64 else dt.float32

    def _as(self, x: Expr, dtype: dt.DType) -> Expr:
        assert isinstance(x.ty, TensorType)
        return x if x.ty.dtype == dtype else self.b.cast(x, dtype=dtype.name)
