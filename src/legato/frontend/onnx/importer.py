"""The walk over a model's nodes, each of which a converter turns into expressions.

Bodies (the graph, local functions that are called, branches that are taken) are frames on a stack, so nesting costs no
recursion; a function is expanded where it is called. What cannot be converted is gathered, and its outputs are unknown
from then on: nodes that need them are passed over, except that an operator without a converter is listed in any case.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legato.arith.expr import Var as DimVar
from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError, InternalError, TypeCheckError, UnsupportedError, no_stack
from legato.base.span import Span
from legato.base.spelling import option
from legato.frontend.onnx.bodies import Node
from legato.frontend.onnx.census import by_operator, census, domain_of
from legato.frontend.onnx.control import CONTROL
from legato.frontend.onnx.custom import Custom, converters, require_fit, require_known
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.frames import UNKNOWN, Captures, Frame, FunctionKey, Seen, Unknown, Value, spread
from legato.frontend.onnx.graph import Step, reads, schedule
from legato.frontend.onnx.initializers import Elements, Weight, initializers
from legato.frontend.onnx.inputs import Constants, Dims, Shapes, check_declared, check_size, input_types
from legato.frontend.onnx.naming import with_names
from legato.frontend.onnx.proto import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto, ValueInfoProto
from legato.frontend.onnx.reader import Source, opsets_of
from legato.frontend.onnx.report import NCHWC, OPTIMISED, Report, Unsupported, unsupported_error, why_absent
from legato.frontend.onnx.schema_functions import schema_function
from legato.frontend.onnx.signature import find, signature
from legato.frontend.onnx.tensors import element_count, stored_bytes
from legato.ir.constant_input import constant_input
from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.ir.types import TensorType, TupleType, Type
from legato.prelude import library, link

__all__ = ["Custom", "Importer"]

CONTAINERS = frozenset(
    {"SequenceConstruct", "SequenceEmpty", "SplitToSequence", "Optional"}
)  # where no input is one, only these make sequences and optional values
MAX_NODES = 100_000  # of a file, and after the expansion of local functions and loops
MAX_NESTING = 100  # branches and loops inside each other


Bodies = Generator[Frame, list[Value], list[Value]]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A node that waits for a body of its own: what goes on when the body's values are there."""

    frame: Frame
    step: Step
    bodies: Bodies


class Importer:
    """One import. `run` gives the function; `unsupported` is what could not be converted."""

    def __init__(
        self, source: Source, shapes: Shapes | None, custom: Custom | None, constants: Constants | None = None
    ) -> None:
        self.source, self.graph = source, source.model.graph
        self._census = census(source.model, source.opsets)
        if (nodes := self._census.total()) > MAX_NODES:
            raise ImportModelError(f"{source.name}: {nodes} nodes; at most {MAX_NODES} are accepted")
        operators = {operator for domain, operator, _ in self._census if not domain}
        self._lists = any(_is_container(v.type) for v in self.graph.input) or not CONTAINERS.isdisjoint(operators)
        self.b = Emitter(types=library().types.values() if self._lists else ())
        self.unsupported: list[Unsupported] = []
        self._faults: list[tuple[TypeCheckError, Unsupported]] = []
        self._custom = converters(custom, {(domain, operator) for domain, operator, _ in self._census})
        self._has_own_sizes = not shapes
        self._functions = {(domain_of(f.domain), f.name, f.overload): f for f in source.model.functions}
        self._schedules: dict[tuple[FunctionKey, tuple[str, ...]], tuple[Step, ...]] = {}
        self._initializers = initializers(self.graph, source.name)
        self._elements = Elements(source.folder)
        self._count = 0
        self._constants = dict(constants or {})
        self._input_types = self.b.inputs = self._types(shapes)

    # ------------------------------------------------------------------ the graph

    def _types(self, shapes: Shapes | None) -> dict[str, Type]:
        values = [value for value in self.graph.input if value.name not in self._initializers]
        names = Counter(value.name for value in values)
        for name, times in names.items():
            if times > 1:
                raise ImportModelError(f"{self.source.name}: input {name!r} is defined twice")
        return input_types(values, shapes, Dims(), self._note_input)

    def _note_input(self, name: str, error: UnsupportedError) -> None:
        self._note(name, "input", "", error.reason)

    def run(self) -> Function | None:
        """The model as a function; None where an output is unknown."""
        if unknown := [name for name in self._constants if name not in self._input_types]:
            hint = f"its inputs: {', '.join(self._input_types) or 'none'}"
            raise ImportModelError(f"{option('constants')}: the model has no input {unknown[0]!r}", hint=hint)
        types = self._input_types
        given = {name: constant_input(name, types[name], v, ImportModelError) for name, v in self._constants.items()}
        params = {name: self.b.var(name, ty) for name, ty in self._input_types.items() if name not in given}
        constants = {name: self.b.weight(array, name) for name, array in given.items()}
        outputs = [value.name for value in self.graph.output]
        if not outputs:
            raise ImportModelError(f"{self.source.name}: the graph has no output")
        missing = {
            v.name: UNKNOWN for v in self.graph.input if v.name not in {*params, *constants, *self._initializers}
        }
        names = {*params, *constants, *missing, *self._initializers}
        steps = schedule(self.graph.node, names, outputs, self.source.name)
        stated = {value.name: value for value in (*self.graph.value_info, *self.graph.output)}
        top = Frame(iter(steps), ChainMap({**params, **constants, **missing}), self.source.opsets, declared=stated)
        numbers = {t.name: n for n, t in enumerate(self.graph.initializer)}
        apart = {name: self.source.weights[n] for name, n in numbers.items() if n in self.source.weights}
        self._seed(top, self._initializers, steps, outputs, apart)
        self._walk(top)
        results = [self._needed(top.get(name)) for name in outputs]
        known = [value for value in results if isinstance(value, Expr)]
        for declared, value in zip(self.graph.output, results, strict=True):
            if isinstance(value, Expr) and id(value) not in self.b.keys:  # the matrix of what is declared as maps
                self._check_output(declared, value.ty)
        keys = {n: self.b.keys[id(v)][1] for n, v in zip(outputs, results, strict=True) if id(v) in self.b.keys}
        is_whole = not self.unsupported and not self._faults and len(known) == len(outputs)
        if is_whole:
            known = with_names(self.b, known, self.graph.output, self._input_types)
            results = [*known]
        self.outputs = {n: v.ty if isinstance(v, Expr) else None for n, v in zip(outputs, results, strict=True)}
        if not is_whole:
            return None
        body = known[0] if len(known) == 1 else self.b.tuple_(known)
        called = [text for name, value in zip(outputs, known, strict=True) for text in _result_names(name, value.ty)]
        attrs = {"output_names": tuple(called), **({"output_keys": keys} if keys else {})}
        return self.b.function(tuple(params.values()), body, attrs=attrs)

    def _check_output(self, declared: ValueInfoProto, ty: Type | None) -> None:
        """What is declared as something that Legato does not have is listed."""
        try:
            check_declared(declared, ty)
        except UnsupportedError as error:
            self._note(declared.name, "output", "", error.reason)

    def module(self) -> Module:
        """The model as a module with one function, `main`.

        UnsupportedError lists everything that cannot be compiled; TypeCheckError where the model is ill-typed.
        """
        function = self.run()
        if self.unsupported:
            raise unsupported_error(self.source.name, self.unsupported)
        if self._faults:
            raise self._faults[0][0]
        assert function is not None
        return (
            link(link(link(Module.from_expr(function), self._cells()), library("sequence")), library())
            if self._lists
            else Module.from_expr(function)
        )

    def _cells(self) -> Module:
        return Module(types={data.header: data for data in self.b.cells.values()})

    def report(self) -> Report:
        """What the model is, and everything of it that cannot be compiled."""
        self.run()
        model = self.source.model
        weights = list(self.graph.initializer)
        unsupported = (*self.unsupported, *(listed for _, listed in self._faults))
        return Report(
            name=self.source.name,
            inputs={name: ty for name, ty in self._input_types.items() if name not in self._constants},
            outputs=self.outputs,
            ir_version=model.ir_version,
            opsets=dict(self.source.opsets),
            producer=f"{model.producer_name} {model.producer_version}".strip(),
            nodes=self._census.total(),
            operators=self._operators(),
            parameters=sum(element_count(t.dims, f"initializer {t.name!r}") for t in weights),
            bytes=sum(stored_bytes(t, self.source.weights.get(n)) for n, t in enumerate(weights)),
            unsupported=unsupported,
            table=by_operator(self._census, unsupported),
        )

    def _operators(self) -> Counter[str]:
        """How many nodes there are of each operator, those of other domains as "domain::Operator"."""
        found: Counter[str] = Counter()
        for (domain, operator, _), count in sorted(self._census.items()):
            found[f"{domain}::{operator}" if domain else operator] += count
        return Counter(dict(sorted(found.items())))

    # ------------------------------------------------------------------ frames

    def _walk(self, top: Frame) -> None:
        stack: list[tuple[Frame, _Waiting | None]] = [(top, None)]
        while stack:
            frame, waiting = stack[-1]
            self.b.inside(frame.bound)
            step = next(frame.steps, None)
            if step is not None:
                self._count += 1
                if self._count > MAX_NODES:
                    raise ImportModelError(
                        f"{self.source.name}: local functions and loops expand to over {MAX_NODES} nodes"
                    )
                inner = self._step(frame, step)
            else:
                stack.pop()
                if waiting is not None:
                    self.b.inside(waiting.frame.bound)
                inner = None if waiting is None else self._resume(waiting, frame)
            if inner is not None:
                stack.append(inner)

    def _seed(
        self,
        frame: Frame,
        tensors: Mapping[str, Weight],
        steps: Sequence[Step],
        outputs: Sequence[str],
        apart: Mapping[str, NDArray[np.uint8]] = MappingProxyType({}),
    ) -> None:
        """Constants for the initializers of a graph that its nodes or outputs use; `apart` has data of some."""
        used = {*outputs, *(name for step in steps for name in reads(step.node))}
        for name, tensor in tensors.items():
            if name not in used:
                continue
            try:
                array = self._elements.of(tensor, f"initializer {name!r}", apart.get(name))
            except UnsupportedError as error:
                frame.names[name] = Unknown(Unsupported(frame.prefix + name, "initializer", "", 0, error.reason))
                continue
            frame.names[name] = self.b.weight(array, frame.prefix + name)

    def _step(self, frame: Frame, step: Step) -> tuple[Frame, _Waiting] | None:
        """Converts one node, or gives the frame of a body that it needs first, with what then goes on."""
        node, domain = step.node, domain_of(step.node.domain)
        key = (domain, node.op_type, node.overload)
        bodies: Bodies | None = None
        if (domain, node.op_type) not in self._custom:
            if key in self._functions:
                bodies = self._call(frame, node, self._functions[key], frame.prefix + str(step))
            elif (domain, node.op_type) in CONTROL:
                bodies = self._with_bodies(frame, step)
            elif find(domain, node.op_type, frame.opset(domain)) is None:
                bodies = self._of_the_standard(frame, step)
        if bodies is not None:
            return self._resume(_Waiting(frame, step, bodies))
        self._guarded(frame, step, lambda: self._convert(frame, node, frame.opset(domain)))
        return None

    def _resume(self, waiting: _Waiting, ended: Frame | None = None) -> tuple[Frame, _Waiting] | None:
        """Goes on with a node that has bodies, of which one has `ended`; the frame of the next, if there is one."""
        frame, step, bodies = waiting.frame, waiting.step, waiting.bodies
        inner: list[Frame] = []

        def go_on() -> None:
            try:
                inner.append(next(bodies) if ended is None else bodies.send(ended.results()))
            except StopIteration as end:
                _bind_values(frame, step.node, end.value)

        self._guarded(frame, step, go_on)
        return (inner[0], waiting) if inner else None

    def _guarded(self, frame: Frame, step: Step, work: Callable[[], None]) -> None:
        """Does `work` for a node. What cannot be converted is listed, and its outputs are unknown."""
        node, name, domain = step.node, frame.prefix + str(step), domain_of(step.node.domain)
        opset, before = frame.opset(domain), self.b.dims_here()
        with self.b.at(Span(name)):
            try:
                work()
                self._settle(frame, node, before)
            except UnsupportedError as error:
                self._note(name, node.op_type, domain, error.reason, opset)
            except TypeCheckError as error:
                self._faults.append((error, Unsupported(name, node.op_type, domain, opset, error.reason)))
            except ImportModelError as error:
                raise _located(error, Span(name)) from None
            except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
                if (domain, node.op_type) in self._custom:
                    error.add_note(f"in the converter of {node.op_type}, for the node {name}")
                    raise
                if isinstance(error, RecursionError):
                    raise no_stack(f"{name}: the conversion of {node.op_type}") from error
                if isinstance(error, ArithmeticError):  # what no tensor can have: 2**63 elements, 1/0
                    why = f"{node.op_type}: a number out of range: {error}"
                    raise ImportModelError(why, span=Span(name)) from None
                why = f"{type(error).__name__}: {error}"
                raise InternalError(f"{name}: the conversion of {node.op_type} failed: {why}") from error
            else:
                return
        _bind_values(frame, node, [UNKNOWN] * len(node.output))

    def _settle(self, frame: Frame, node: NodeProto, before: Collection[DimVar]) -> None:
        for output in node.output:
            if isinstance(value := frame.names.maps[0].get(output), Expr):
                frame.names[output] = self.b.settled(value, before)

    def _note(self, node: str, operator: str, domain: str, reason: str, opset: int = 0) -> None:
        if domain == NCHWC:
            if any(listed.domain == domain for listed in self.unsupported):
                return  # one line for all of them
            reason = OPTIMISED
        self.unsupported.append(Unsupported(node, operator, domain, opset, reason))

    # ------------------------------------------------------------------ one node

    def _convert(self, frame: Frame, node: NodeProto, opset: int) -> None:
        domain = domain_of(node.domain)
        converter = self._custom.get((domain, node.op_type)) or find(domain, node.op_type, opset)
        assert converter is not None  # else a function stands for it
        schema = signature(converter)
        attributes = self._attributes(frame, node)
        if not domain and opset < 6:
            attributes.pop("consumed_inputs", None)  # which may be written over: it says nothing of the result
        if (domain, node.op_type) in self._custom:
            require_known(node.op_type, attributes, converter)
        arguments = schema.convert(attributes, node.op_type, self._elements)
        given = spread("" if domain else node.op_type, [frame.get(name) for name in node.input])
        inputs = schema.arrange([self._needed(value) for value in given], node.op_type)
        if any(isinstance(value, Unknown) for value in inputs):
            _bind_values(frame, node, [UNKNOWN] * len(node.output))
            return
        self.b.opset, self.b.outputs, self.b.repeats = opset, len(node.output), frame.repeats
        self._bind(frame, node, converter(self.b, *inputs, **arguments), opset)

    def _needed(self, value: Value) -> Value:
        """`value`; where it could not be made, the reason is listed."""
        if isinstance(value, Unknown) and value.why is not None and value.why not in self.unsupported:
            self.unsupported.append(value.why)
        return value

    def _bind(self, frame: Frame, node: NodeProto, result: Any, opset: int) -> None:
        """Gives the outputs their values; one that the converter leaves out is unknown, which matters if it is used."""
        spread = isinstance(result, Expr) and isinstance(result.ty, TupleType)
        values = list(result) if isinstance(result, tuple | list) else [result]
        if not values or not all(isinstance(value, Expr) or value is None for value in values) or values[0] is None:
            got = f"the converter of {node.op_type} returned {result!r}"
            raise ImportModelError(f"{got}, wanted an expression or several")
        if spread:
            values = [self.b.get(values[0], n) for n in range(len(values[0].ty.fields))]
        if (domain_of(node.domain), node.op_type) in self._custom:
            require_fit(node, values, frame.declared, sizes=self._has_own_sizes)
        assert self.b.span is not None
        for n, output in enumerate(node.output):
            value = values[n] if n < len(values) else None
            if value is None:
                reason = f"its output number {n + 1}"
                why = Unsupported(self.b.span.source, node.op_type, domain_of(node.domain), opset, reason)
                frame.names[output] = Unknown(why)
            elif output:
                if isinstance(value.ty, TensorType):
                    check_size(value.ty, f"{output!r}")
                frame.names[output] = value

    def _attributes(self, frame: Frame, node: NodeProto) -> dict[str, AttributeProto]:
        """The attributes of a node by name; in a function body some refer to those of the call."""
        found: dict[str, AttributeProto] = {}
        for attribute in node.attribute:
            if attribute.name in found:
                raise ImportModelError(f"attribute {attribute.name} is given twice")
            if not attribute.ref_attr_name:
                found[attribute.name] = attribute
            elif not frame.active:
                where = "outside a function nothing has a value for it"
                raise ImportModelError(f"attribute {attribute.name} refers to {attribute.ref_attr_name!r}: {where}")
            elif attribute.ref_attr_name in frame.attributes:
                renamed = AttributeProto()
                renamed.CopyFrom(frame.attributes[attribute.ref_attr_name])
                renamed.name = attribute.name
                found[attribute.name] = renamed
        return found

    # ------------------------------------------------------------------ bodies

    def _call(self, frame: Frame, node: NodeProto, function: FunctionProto, name: str) -> Bodies:
        """A call of a local function: its body stands for it."""
        key = (domain_of(function.domain), function.name, function.overload)
        if key in frame.active:
            raise ImportModelError(f"local function {function.name} calls itself")
        if len(node.input) > len(function.input) or len(node.output) > len(function.output):
            takes = f"local function {function.name} takes {len(function.input)} inputs"
            got = f"{len(node.input)} and {len(node.output)}"
            raise ImportModelError(f"{takes} and gives {len(function.output)} outputs, got {got}")
        if "" in function.output:
            raise ImportModelError(f"an output of local function {function.name} has no name")
        values = [frame.get(given) for given in node.input]
        values += [None] * (len(function.input) - len(values))
        wanted = tuple(inner if outer else "" for outer, inner in zip(node.output, function.output, strict=False))
        steps = self._schedules.get((key, wanted))
        if steps is None:
            steps = schedule(function.node, set(function.input), filter(None, wanted), f"function {function.name}")
            self._schedules[key, wanted] = steps
        defaults = {attribute.name: attribute for attribute in function.attribute_proto}
        names: ChainMap[str, Value] = ChainMap(dict(zip(function.input, values, strict=True)))
        attributes = {**defaults, **self._attributes(frame, node)}
        declared = {value.name: value for value in function.value_info}
        for formal, value in zip(function.input, values, strict=True):
            if isinstance(value, Expr) and formal in declared:
                check_declared(declared[formal], value.ty)
        body = Frame(iter(steps), names, opsets_of(function), name + "/", wanted, attributes,
                     frame.active | {key}, frame.depth, frame.repeats, declared=declared)  # fmt: skip
        results = yield body
        self.b.adopt(body.bound)
        return results

    def _of_the_standard(self, frame: Frame, step: Step) -> Bodies:
        """An operator without a converter: the function that ONNX's standard defines it by, if there is one."""
        node, domain = step.node, domain_of(step.node.domain)
        values = [frame.get(name) for name in node.input]
        function = schema_function(domain, node, frame.opsets, self._attributes(frame, node), values)
        if function is None:
            raise UnsupportedError(why_absent(domain, node.op_type))
        return (yield from self._call(frame, node, function, frame.prefix + str(step)))

    def _with_bodies(self, frame: Frame, step: Step) -> Bodies:
        """An If, a loop, or another node with bodies."""
        node, name, domain = step.node, frame.prefix + str(step), domain_of(step.node.domain)

        def body(graph: GraphProto, names: ChainMap[str, Value], values: Sequence[Value]) -> Frame:
            given = {v.name: value for v, value in zip(graph.input, values, strict=True)}
            for v, value in zip(graph.input, values, strict=True):
                if isinstance(value, Expr):
                    check_declared(v, value.ty)
            if len(given) < len(values):
                raise ImportModelError(f"graph {graph.name}: an input is defined twice")
            return self._body(frame, graph, names.new_child(given), name)

        inputs = [frame.get(given) for given in node.input]
        attributes = self._attributes(frame, node)
        opset = frame.opset(domain)
        made = Node(self.b, node.op_type, opset, inputs, len(node.output), attributes, frame.names, body, self._needed,
                    self._trial)  # fmt: skip
        return (yield from CONTROL[domain, node.op_type](made))

    def _trial(self) -> Callable[[], None]:
        """Begins an attempt; what is returned takes back what has been listed since."""
        notes, faults, forget = len(self.unsupported), len(self._faults), self.b.trial()

        def back() -> None:
            del self.unsupported[notes:], self._faults[faults:]
            forget()

        return back

    def _body(self, frame: Frame, graph: GraphProto, names: ChainMap[str, Value], name: str) -> Frame:
        """The frame of a graph inside `frame`, which sees `names`."""
        if frame.depth >= MAX_NESTING:
            raise ImportModelError(f"branches and loops nest more than {MAX_NESTING} deep")
        tensors = initializers(graph, f"graph {graph.name}")
        wanted = [value.name for value in graph.output]
        steps = schedule(graph.node, Seen(tensors, names), wanted, f"graph {graph.name}")
        inner = Frame(iter(steps), names.new_child(), frame.opsets, name + "/", wanted, frame.attributes, frame.active,
                      frame.depth + 1, frame.repeats or any(isinstance(m, Captures) for m in names.maps),
                      declared={value.name: value for value in (*graph.value_info, *graph.output)})  # fmt: skip
        self._seed(inner, tensors, steps, wanted)
        return inner


def _bind_values(frame: Frame, node: NodeProto, values: Sequence[Value]) -> None:
    """Gives the outputs of a node their values."""
    for output, value in zip(node.output, values, strict=False):
        if isinstance(value, Expr) and isinstance(value.ty, TensorType):
            check_size(value.ty, f"{output!r}")
        if output:
            frame.names[output] = UNKNOWN if value is None else value


def _result_names(name: str, ty: Type | None) -> list[str]:
    """What to call an output: one name, or those of the elements of a sequence."""
    if not isinstance(ty, TupleType):
        return [name]
    return [f"{name}.{n}" for n in range(len(ty.fields))]


def _is_container(proto: TypeProto) -> bool:
    return proto.WhichOneof("value") in ("sequence_type", "optional_type")


def _located(error: ImportModelError, span: Span) -> ImportModelError:
    if error.span is not None:
        return error
    return ImportModelError(error.message, span=span, hint=error.hint, details=error.details)
