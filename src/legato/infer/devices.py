"""The device of every tensor of a module, by unification of domains (`infer.domains`).

    operators       all tensors of a call lie on one device; device_copy says two, on_device states one
    functions       the arguments of a call lie where the parameters do, its value where the result does
    if, match       all branches give their values on one device; the host reads conditions and extents
    let, tuples, references, data types: where the values lie that they bind, hold, are made of

Constants, and values of data types without parts, lie wherever they are read. What nothing else decides is open:
parameters lie where the result does, results on the primary device, what the host reads on the host.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import field

from legato.base.dataclass import dataclass
from legato.base.device import HOST, Device, as_device
from legato.base.errors import VerifyError
from legato.infer.domains import Branch, Domain, Leaf, collapse, domain, leaves, unify
from legato.ir.clauses import Pattern, PatternConstructor, PatternTuple, PatternVar
from legato.ir.devices import DEVICE_COPY, ON_DEVICE, PARAMS, RESULT, DeviceCopyAttrs, OnDeviceAttrs
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Dataflow,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    MatchCast,
    RefCreate,
    RefRead,
    RefWrite,
    Shape,
    Tuple,
    TupleGetItem,
    Var,
    callee_name,
)
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.packed import OUTSIDE
from legato.ir.scope import post_order
from legato.ir.tensor_to_shape import TENSOR_TO_SHAPE
from legato.ir.types import TensorType, TupleType, Type

__all__ = ["Devices", "Misplaced", "Read", "entries", "verify_devices"]

_SEPARATOR = ", "  # between the devices of one parameter


@dataclass(frozen=True, eq=False, slots=True)
class Misplaced:
    """A node for which a tensor would have to lie on two devices."""

    node: Expr
    got: Device
    wanted: Device

    @property
    def message(self) -> str:
        """What is wrong, in words."""
        what = type(self.node).__name__.lower()
        if isinstance(self.node, Call):
            op = self.node.op
            what = op.name if isinstance(op, Op) else callee_name(op)
        return f"{what}: a tensor lies on {self.got}, wanted on {self.wanted}"


@dataclass(frozen=True, eq=False, slots=True)
class Read:
    """Operand `index` of `node`, which may be read elsewhere than it is computed: the domain of what is computed, and
    of what is read, by the host or a function. Index -1 is the value of `node`."""

    node: Expr
    index: int
    made: Domain
    read: Domain
    by_host: bool = True


@dataclass(slots=True)
class Devices:
    """The domains of `mod` (typed). `faults` are the nodes that no devices fit.

    plans: on_device separates what it is of from its value, where it does not say both (`boundaries`), the host reads
    copies of what lies elsewhere (`reads`), and has copies of extents (`boundaries`, too): whoever plans makes these
    copies. Otherwise there are none.
    crosses: arguments and results of calls, too, are copied where functions want them elsewhere: passes may have made
    one function of several.
    is_lowered: scalars are words, and the host makes the copies that it reads.
    entries: the functions that are believed when they say where their parameters and results lie; None: all.
    """

    mod: Module
    plans: bool = False
    crosses: bool = False
    is_lowered: bool = False
    entries: Collection[str] | None = None
    primary: Device = HOST
    host: Device = HOST
    faults: list[Misplaced] = field(default_factory=list)
    boundaries: dict[int, Domain] = field(default_factory=dict)  # what calls are made of, by id of the call
    reads: list[Read] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    _of: dict[int, Domain] = field(default_factory=dict)
    _vars: dict[Var, Domain] = field(default_factory=dict)
    _globals: dict[GlobalVar, Domain] = field(default_factory=dict)
    _fields: dict[tuple[object, int, int], list[Leaf]] = field(default_factory=dict)
    _anywhere: set[Var] = field(default_factory=set)
    _fixed: set[int] = field(default_factory=set)  # calls of on_device whose values lie where they say
    _free: list[tuple[Domain, Domain]] = field(default_factory=list)
    _kept: list[Expr] = field(default_factory=list)  # ids are keys, so the nodes they name must live

    def __post_init__(self) -> None:
        for gv, func in self.mod.graph_functions():
            self._walk(func, believed=self.entries is None or gv.name in self.entries)
            self._unify(self._global(gv), self._of[id(func)], func)
        self._settle()

    # ------------------------------------------------------------------ answers

    def of(self, node: Expr) -> Domain:
        """The domain of a node; another one every time for what lies wherever it is read."""
        match node:
            case Constant():
                return Leaf()
            case _ if self._is_anywhere(node):
                return self._new(node.ty)
            case Var():
                return self._var(node)
            case GlobalVar():
                return self._global(node)
            case Tuple(fields):
                return Branch("tuple", tuple(map(self.of, fields)))
            case Shape():
                return Branch("shape")
            case Op() | Constructor():
                return self._new(node.ty)
            case _:
                return self._of[id(node)]

    def _is_anywhere(self, node: Expr) -> bool:
        """Whether a node is a constant, or a value of a data type without parts; or bound to one."""
        match node:
            case Var():
                return node in self._anywhere
            case Tuple(fields):
                return bool(fields) and all(map(self._is_anywhere, fields))
            case Call(op=Constructor(), args=()):
                return True
            case _:
                return isinstance(node, Constant)

    def result(self, func: Function) -> Domain:
        """The domain of what a function gives: that of its body, unless that is a constant."""
        found = self._of[id(func)]
        assert isinstance(found, Branch)
        return found.parts[-1]

    def device(self, leaf: Leaf) -> Device:
        """The device of a tensor."""
        return leaf.root().device or self.primary

    def text(self, found: Domain) -> str:
        """The devices of a domain, as functions state them."""
        names = [str(self.device(leaf)) for leaf in leaves(found)]
        return names[0] if len(set(names)) == 1 else _SEPARATOR.join(names)

    # ------------------------------------------------------------------ constraints

    def _unify(self, a: Domain, b: Domain, at: Expr) -> None:
        self.faults += [Misplaced(at, got, wanted) for got, wanted in unify(a, b)]

    def _collapse(self, domains: Sequence[Domain], at: Expr) -> None:
        self.faults += [Misplaced(at, got, wanted) for got, wanted in collapse(leaves(*domains))]

    def _new(self, ty: Type | None) -> Domain:
        return domain(ty, {}, words=self.is_lowered)

    def _pin(self, found: Domain, device: Device, at: Expr) -> None:
        self._collapse((found, Leaf(device)), at)

    def _var(self, var: Var) -> Domain:
        if var not in self._vars:
            self._vars[var] = self._new(var.ty)
        return self._vars[var]

    def _global(self, gv: GlobalVar) -> Domain:
        if gv not in self._globals:
            func = self.mod.functions.get(gv)
            types = [p.ty for p in func.params] + [func.body.ty] if isinstance(func, Function) else []
            self._globals[gv] = Branch("function", tuple(map(self._new, types))) if types else Leaf()
        return self._globals[gv]

    def _walk(self, func: Function, *, believed: bool) -> None:
        order = list(post_order(func))
        self._kept += order
        bound: dict[int, list[Let]] = {}  # before a body reads a variable, it lies where its value does
        for node in order:
            self._fix(node)
            if isinstance(node, Let):
                bound.setdefault(id(node.value), []).append(node)
        for node in order:
            if not isinstance(node, Constant | Var | GlobalVar | Tuple | Shape | Op | Constructor):
                self._of[id(node)] = self._node(node)
                if isinstance(node, Function):
                    self.functions.append(node)
                    if believed:
                        self._believe(node)
            for let in bound.get(id(node), ()):
                if self._is_anywhere(node):
                    self._anywhere.add(let.var)
                else:
                    self._unify(self._var(let.var), self.of(node), let)

    def _fix(self, node: Expr) -> None:
        """Notes calls of on_device whose value is bound by a let or the result of a function: it stays there."""
        if isinstance(node, Let):
            self._fixed.add(id(node.value))
        if isinstance(node, Function):
            result = node.body
            while isinstance(result, Let):
                result = result.body
            self._fixed.add(id(result))

    def _believe(self, func: Function) -> None:
        """Pins parameters and result where the function says that they lie; not where it has got other parameters."""
        stated = func.attrs.get(PARAMS, ())
        result = func.attrs.get(RESULT, "")
        if not isinstance(stated, tuple | list) or not all(isinstance(name, str) for name in (*stated, result)):
            hint = f"{PARAMS} is a list of strings, {RESULT} a string"
            raise VerifyError("the devices that a function states are no names", span=func.span, hint=hint)
        pairs = list(zip(func.params, stated, strict=True)) if len(stated) == len(func.params) else []
        found = [(self._var(p), text) for p, text in pairs]
        if RESULT in func.attrs:
            found.append((self.result(func), func.attrs[RESULT]))
        for one, text in found:
            names = [as_device(name) for name in text.split(_SEPARATOR) if name]
            parts = list(leaves(one))
            names = names * len(parts) if len(names) == 1 else names
            for leaf, device in zip(parts, names, strict=len(parts) == len(names)):
                self._pin(leaf, device, func)

    def _node(self, node: Expr) -> Domain:
        match node:
            case Call():
                return self._call(node)
            case Let():
                return self.of(node.body)
            case If(cond, then, orelse):
                self._read(node, 0, cond)
                found = self.of(then)
                self._unify(found, self.of(orelse), node)
                return found
            case Match():
                return self._match(node)
            case Function(params, body):
                return Branch("function", (*map(self._var, params), self.of(body)))
            case MatchCast(value):
                return self.of(value)
            case Dataflow(bindings, outputs):
                for bound in bindings:
                    self._unify(self._var(bound[0]), self.of(bound[1]), node)
                return Branch("tuple", tuple(map(self.of, outputs)))
            case _:
                return self._held(node)

    def _held(self, node: Expr) -> Domain:
        """The domain of what is in a tuple or reference, or of that."""
        match node:
            case TupleGetItem(value, index):
                return self._part(node, self.of(value), "tuple", index)
            case RefCreate(value):
                return Branch("ref", (self.of(value),))
            case RefRead(ref):
                return self._part(node, self.of(ref), "ref", 0)
            case RefWrite(ref, value):
                self._unify(self.of(ref), Branch("ref", (self.of(value),)), node)
                return Branch("tuple")
            case _:
                return self._whole(node)

    def _whole(self, node: Expr) -> Domain:
        """The domain of a node whose tensors, with those of its operands, all lie on one device."""
        found = self._new(node.ty)
        self._collapse((found, *map(self.of, node.children())), node)
        return found

    def _part(self, node: Expr, whole: Domain, kind: str, index: int) -> Domain:
        if isinstance(whole, Branch) and whole.kind == kind:
            return whole.parts[index]
        found = self._new(node.ty)
        self._collapse((found, whole), node)
        return found

    def _read(self, node: Expr, index: int, operand: Expr) -> None:
        """Notes that the host reads an operand."""
        made = self.of(operand)
        self.reads.append(Read(node, index, made, self._new(operand.ty) if _is_tensors(operand.ty) else made))

    # ------------------------------------------------------------------ calls

    def _call(self, call: Call) -> Domain:
        if isinstance(call.op, Op):
            return self._operator(call, call.op)
        if isinstance(call.op, Constructor):
            found = self._new(call.ty)
            for n, arg in enumerate(call.args):
                self._unify(self._field(call.op, n, found), self.of(arg), call)
            return found
        callee, args = self.of(call.op), tuple(map(self.of, call.args))
        if isinstance(callee, Branch) and callee.kind == "function" and len(callee.parts) == len(args) + 1:
            for n, (param, got) in enumerate(zip(callee.parts, args, strict=False)):
                if self.crosses and _is_tensors(call.args[n].ty):
                    self.reads.append(Read(call, n, got, param, by_host=False))
                else:
                    self._unify(got, param, call)
            return self._given(call, callee.parts[-1])
        found = self._new(call.ty)
        self._collapse((found, callee, *args), call)
        return found

    def _given(self, call: Call, result: Domain) -> Domain:
        """The domain of a call of a function with this `result`, which may be of type variables."""
        if not self.crosses:
            found = self._new(call.ty)
            self._unify(found, result, call)
            return found
        self.boundaries[id(call)] = result
        value = self._apart(result, call.ty)
        self.reads.append(Read(call, -1, result, value, by_host=False))
        return value

    def _operator(self, call: Call, op: Op) -> Domain:
        if op is ON_DEVICE:
            return self._on_device(call)
        if op is DEVICE_COPY:
            return self._copy(call)
        is_of_host = op in OUTSIDE or op is TENSOR_TO_SHAPE
        by_host = [n for n, _ in enumerate(call.args) if is_of_host or (op.on_host and op.args[n] in op.on_host)]
        for n in by_host:
            self._read(call, n, call.args[n])
        found = self._new(call.ty)
        here = [self.of(a) for n, a in enumerate(call.args) if n not in by_host and not _is_program(a, self.mod)]
        if op in OUTSIDE:
            self._pin(found, self.host, call)
        self._collapse((found, *here), call)
        if not op.of_extents or not self.plans:
            return found
        self.boundaries[id(call)] = found
        outside = self._new(call.ty)
        self.reads.append(Read(call, -1, outside, outside))
        return outside

    def _copy(self, call: Call) -> Domain:
        attrs = call.attrs
        assert isinstance(attrs, DeviceCopyAttrs)
        self._pin(self.of(call.args[0]), attrs.source, call)
        found = self._new(call.ty)
        self._pin(found, attrs.target, call)
        return found

    def _on_device(self, call: Call) -> Domain:
        attrs, made = call.attrs, self.of(call.args[0])
        assert isinstance(attrs, OnDeviceAttrs)
        body, result = attrs.constrain_body, attrs.constrain_result
        result = result or (body and id(call) in self._fixed)
        value = made
        if self.plans and body != result:
            value = self._apart(made, call.ty)
            self.boundaries[id(call)] = made
            self._free.append((made, value))
        if body:
            self._pin(made, attrs.device, call)
        if result:
            self._pin(value, attrs.device, call)
        return value

    def _apart(self, made: Domain, ty: Type | None) -> Domain:
        """A domain for a value of type `ty` that is copied from `made`: that itself for what cannot be copied."""
        if isinstance(ty, TensorType):
            return Leaf()
        if isinstance(ty, TupleType) and isinstance(made, Branch) and made.kind == "tuple":
            pairs = zip(made.parts, ty.fields, strict=True)
            return Branch("tuple", tuple(self._apart(part, field) for part, field in pairs))
        return made

    # ------------------------------------------------------------------ data types

    def _field(self, constructor: Constructor, n: int, data: Domain) -> Domain:
        """The domain of input `n` of a constructor in a value of domain `data`. Tensors that its type names lie on one
        device in all values; those that type arguments stand for do so in one value."""
        definition = self.mod.types[constructor.belongs_to]
        names = definition.type_vars
        is_known = isinstance(data, Branch) and data.kind == "data" and len(data.parts) == len(names)
        env = dict(
            zip(names, data.parts if is_known and isinstance(data, Branch) else [data] * len(names), strict=True)
        )
        return domain(constructor.inputs[n], env, self._field_leaves(constructor, n).__next__, words=self.is_lowered)

    def _field_leaves(self, constructor: Constructor, n: int) -> Iterator[Leaf]:
        known = self._fields.setdefault((constructor.belongs_to, constructor.tag, n), [])
        yield from known
        while True:
            leaf = Leaf()
            known.append(leaf)
            yield leaf

    def _match(self, node: Match) -> Domain:
        data = self.of(node.data)
        for clause in node.clauses:
            self._bind(clause.pattern, data, node)
        first, *others = [self.of(clause.body) for clause in node.clauses] or [self._new(node.ty)]
        for other in others:
            self._unify(first, other, node)
        return first

    def _bind(self, pattern: Pattern, data: Domain, at: Expr) -> None:
        stack = [(pattern, data)]
        while stack:
            top, value = stack.pop()
            match top:
                case PatternVar(var):
                    self._unify(self._var(var), value, at)
                case PatternConstructor(constructor, patterns):
                    stack += [(p, self._field(constructor, n, value)) for n, p in enumerate(patterns)]
                case PatternTuple(patterns):
                    parts = value.parts if isinstance(value, Branch) else [value] * len(patterns)
                    stack += zip(patterns, parts, strict=True)
                case _:
                    pass

    # ------------------------------------------------------------------ what is open

    def _settle(self) -> None:
        for read in self.reads:
            for made, seen in zip(leaves(read.made), leaves(read.read), strict=True) if not read.by_host else ():
                made.join(seen)  # or it is copied
        for read in self.reads:
            for made, seen in zip(leaves(read.made), leaves(read.read), strict=True) if read.by_host else ():
                made.root().device = made.root().device or self.host
                if read.index >= 0 and not (self.plans or self.is_lowered) and made.root().device != self.host:
                    self.faults.append(Misplaced(read.node, self.device(made), self.host))
                seen.root().device = seen.root().device or self.host
        for func in reversed(self.functions):
            parts = list(leaves(self.result(func)))
            for leaf in parts:
                leaf.root().device = self.device(leaf)
            for leaf in leaves(*map(self._var, func.params)):
                leaf.root().device = leaf.root().device or self.device((parts or [leaf])[0])
        for body, value in reversed(self._free):
            for inner, outer in zip(leaves(body), leaves(value), strict=True):
                inner.root().device = inner.root().device or self.device(outer)


def entries(mod: Module) -> set[str]:
    """The functions that no other calls, and @main: passes leave them their parameters."""
    nodes = (node for _, func in mod.graph_functions() for node in post_order(func))
    called = {node.op.name for node in nodes if isinstance(node, Call) and isinstance(node.op, GlobalVar)}
    return {"main", *(gv.name for gv, _ in mod.graph_functions() if gv.name not in called)}


def _is_tensors(ty: Type | None) -> bool:
    """Whether values of type `ty` are tensors, or tuples of such."""
    return all(map(_is_tensors, ty.fields)) if isinstance(ty, TupleType) else isinstance(ty, TensorType)


def _is_program(arg: Expr, mod: Module) -> bool:
    """Whether `arg` names a tensor program, as call_tir does."""
    return isinstance(arg, GlobalVar) and not isinstance(mod.functions.get(arg), Function)


def verify_devices(mod: Module, host: Device = HOST) -> None:
    """Returns if every tensor of `mod` (typed), whose devices are planned, is read on the device where it lies, and by
    the host where that is the host; else raises VerifyError."""
    faults = Devices(mod, primary=host, host=host).faults
    if faults:
        details = tuple(f"{fault.message}{_place(fault.node)}" for fault in faults)
        raise VerifyError("tensors are read on devices where they are not", span=faults[0].node.span, details=details)


def _place(node: Expr) -> str:
    return "" if node.span is None else f" at {node.span}"
