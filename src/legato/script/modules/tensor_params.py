"""Parameters of tensor programs in scripts: buffers, index variables, and handles, which `T.match_buffer` explains."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from legato.arith.expr import Var
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.errors import TypeCheckError, UnsupportedError
from legato.script.modules.evaluate import Evaluator, Outer, parsed_dim
from legato.script.modules.forms import Bounded, BufferForm, Handle, ScalarType
from legato.script.source import Source
from legato.tir.buffer import Buffer

__all__ = ["Parameters"]


class Parameters(Evaluator):
    """Reads the parameters of one function."""

    def __init__(self, source: Source, node: ast.FunctionDef, outer: Outer) -> None:
        super().__init__(source, outer)
        self.node = node
        self.params: dict[str, Buffer | Var | Handle] = {}

    def read_parameters(self) -> None:
        """Fills `params` and the names."""
        given = self.node.args
        if given.vararg or given.kwarg or given.kwonlyargs or given.defaults:
            raise self.error(self.node, "parameters of a tensor program have no defaults, and no stars")
        for arg in (*given.posonlyargs, *given.args):
            if arg.annotation is None:
                hint = "T.handle, T.Buffer(shape, dtype), or an integer: T.int64"
                raise self.error(arg, f"parameter {arg.arg} has no annotation", hint)
        args = [(arg, arg.annotation) for arg in (*given.posonlyargs, *given.args) if arg.annotation is not None]
        in_shapes = _quoted([annotation for _, annotation in args])
        for arg, annotation in args:  # dims first: shapes of earlier parameters may name later ones
            if _may_be_scalar(annotation):
                form = self.value(annotation)
                with self.at(annotation):
                    if isinstance(form, ScalarType | Bounded):
                        var = self._scalar_parameter(arg.arg, form, arg.arg in in_shapes)
                        self.names[arg.arg] = self.dims[arg.arg] = var
        for arg, annotation in args:
            form = self.value(annotation)
            with self.at(annotation):
                self.names[arg.arg] = self.params[arg.arg] = self._annotated(arg.arg, form)

    @staticmethod
    def _scalar_parameter(name: str, form: ScalarType | Bounded, is_dim: bool) -> Var:
        if isinstance(form, Bounded):
            return Var(name, dt.index, form.lo, form.hi)
        if form.dtype == dt.handle:
            return Var(name, dt.handle)
        if not form.dtype.is_int and form.dtype != dt.index:
            raise UnsupportedError(
                f"parameter {name} is a scalar of {form.dtype}", hint="pass a tensor: T.Buffer((), …)"
            )
        return Var(name, dt.index, 0 if is_dim else None)

    def _annotated(self, name: str, form: Any) -> Buffer | Var | Handle:
        if isinstance(form, BufferForm):
            return self.buffer(name, form)
        if isinstance(form, Handle):
            return Handle()
        if isinstance(form, ScalarType | Bounded):
            return self.dims[name]
        raise TypeCheckError(f"{self.described(form)} is no annotation of a parameter")

    def parameter(self, name: str, p: Buffer | Var | Handle) -> Buffer | Var:
        """A parameter, which is known by now."""
        if isinstance(p, Handle):
            hint = f'{name.upper()} = T.match_buffer({name}, shape, "float32")'
            raise self.error(self.node, f"nothing says what the handle {name} points to", hint)
        return p

    def named_dims(self, params: Sequence[Buffer | Var]) -> list[Var]:
        """The dims of the shapes of parameters, in the order in which they are named."""
        shapes = (d for p in params if isinstance(p, Buffer) for d in p.shape)
        return list(dict.fromkeys(v for d in shapes for v in variables(d)))

    def buffer(self, name: str, form: BufferForm) -> Buffer:
        """The buffer that a form describes; names of dims that are new stand for new ones."""
        shape = tuple(self.dim(d) for d in form.shape)
        return Buffer(name, shape, form.dtype, form.layout, form.scope)


def _may_be_scalar(annotation: ast.expr) -> bool:
    """Whether an annotation may say an index parameter; it names no dims then."""
    called = annotation.func if isinstance(annotation, ast.Call) else annotation
    return isinstance(called, ast.Attribute) and (called is annotation or called.attr == "bounded")


def _quoted(annotations: Sequence[ast.expr]) -> set[str]:
    """The names in the texts of dims."""
    texts = (n.value for a in annotations for n in ast.walk(a) if isinstance(n, ast.Constant) and type(n.value) is str)
    found: set[str] = set()
    for text in texts:
        try:
            found |= {n.id for n in ast.walk(parsed_dim(text)) if isinstance(n, ast.Name)}
        except TypeCheckError:
            continue  # told where the annotation is read
    return found
