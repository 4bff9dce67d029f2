"""The text format of modules, Relay's version 0.0.5 with extensions; `ir.printer` writes it.

    module  = ['#[version = "0.0.5"]'] def* ['#[metadata]' JSON]        JSON: see `_metadata`
    def     = "def" @name func                                           a function of the language
            | "fn" func                                                  @main
            | ("kernel" | "host") @name …                                a tensor program: see `tir.parser`
            | "type" Name [binders] "{" (Ctor ["(" type,* ")"]),* "}"    a data type
            | "extern" "type" Name [binders]
            | "attributes" "(" attr,* ")"                                *of the module
            | "constant" @name "=" meta                                  *an array that host functions name
    func    = [binders] "(" (param | attr),* ")" ["->" type] "{" body "}"
    param   = %x [":" type]                  `{virtual_device=meta[…][…]}` may follow the name
    attr    = name "=" value
    binders = "[" binder,* [";" binder,*] "]"                            *behind `;`: dims that the body introduces
    binder  = A [":" Kind] | n ":" "ShapeVar" ["(" bound "," bound ")"]  *a dim with its range; bound = int | "?"

    body    = stmt* expr
    stmt    = "let" %x [":" type] "=" expr ";"
            | %0 [":" type] "=" expr ";"     a graph binding: a name for a node, which may be used several times;
                                             *the type names the dims that the node has of its own
            | expr ";"                       let %_ = expr
            | "free_var" %x [":" type] ";"   declares a variable that nothing binds
            | "free_dim" binder ";"          *the same for a dim, where its range matters
    expr    = expr binop expr | atom post*   `* /`, then `+ -`, then `< <= > >=`, then `== !=`; left to right
    post    = ["[" (type | dim),* "]"] "(" (expr,* attr,*) ")"           a call; *with type arguments
            | "." int                                                    a field of a tuple
    atom    = %x | %0 | @name | op.name | Ctor | literal | meta | "(" ")" | "(" expr "," ")" | "(" expr,* ")"
            | "fn" func | "if" "(" expr ")" "{" body "}" "else" ("{" body "}" | if)
            | "match" ["?"] atom "{" (pattern "=>" body),* "}"           match? need not cover every case
            | "ref" "(" expr ")" | "ref_read" "(" expr ")" | "ref_write" "(" expr "," expr ")"
            | "{" body "}"
            | "match_cast" "(" expr "," type ")"                         *checked at run time; binds new dims
            | "dataflow" "{" stmt* "output" "(" expr,* ")" "}"           *pure bindings; gives a tuple
            | "shape" "[" dim,* "]"                                      *dims as a value
            | "&" op.name | "&" Ctor         *an operator named like a constructor; a constructor not called
    meta    = "meta" "[" "relay.Constant" "]" "[" int "]"
    pattern = "_" | %x [":" type] | Ctor ["(" pattern,* ")"] | "(" pattern,* ")"

    type    = dtype | "Tensor" "[" "(" dim,* ")" "," dtype "]" | "(" type,* ")" | "ref" "(" type ")" | A | "_"
            | "fn" [binders] "(" type,* ")" "->" type | Name ["[" type,* "]"] | "Shape" ["[" "(" dim,* ")" "]"]
    dim     = int | n | "?" | dim ("+" | "-" | "*" | "//" | "%") dim | "(" dim ")" | ("min" | "max") "(" dim "," dim ")"
    value   = "None" | "True" | "False" | int | float | "string" | dtype | "[" value,* "]" | "(" value,* ")"
            | "{" ("string" ":" value),* "}" | meta | n | "dim" "[" dim "]" | "type" "[" type "]"
            | "constraint" "[" dim "," dim "," "string" "]"
    literal = "True" | "False" | ["-"]* number [suffix]                  suffixes: see `_literals`

    * = not in Relay

Names. Locals, globals and, where they are no identifiers, all other names may be quoted: %"input.1", "my op"(%x).
%0 is a graph binding, %"0" a variable. An operator's or constructor's name is looked up among the constructors first
(Type.Ctor where several types have a Ctor); a constructor that takes nothing is called without parentheses. A let whose
value is a `fn` sees its own variable; another value sees the variable of the same name around it.
Dims. A name that nothing declares is a dim: in a parameter's type one that the function binds (as if it were listed),
elsewhere one that the function, branch or clause around introduces. `?` is a new dim each time. `//` and `%` in a dim
must follow an operand on the same line, else `//` starts a comment.
Attributes are fields of the operator's record, lists are tuples. Strings have JSON's escapes.
`(x)` is x and `(x,)` a tuple of one, in expressions, types and patterns. Comments: // … and nested /* … */.

What TVM's printer wrote is read where it means one thing, though it is not in this grammar and never printed:
metadata as a graph of nodes (`_relay_metadata`), with `meta[tir.SizeVar][0]` as a dim and meta[…][i] as an attribute's
value; `T[]` for T; names as in %input.1, %aten::add_0 or %conv-1/w, where they are bound and used as they were bound;
statements in parentheses and arguments, `(let %x = e; b)`; operators and attributes since renamed (`_relay_ops`).

What is read is not typed: types are those that the text states. Limits: 2**28 characters, 2**22 tokens, names of
65,536 characters (`base.limits`); types, patterns and attribute values nest 100 deep (expressions as deep as memory
allows); numbers have at most 400 characters, tensors 64 dims, functions 65,536 parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from legato.base.errors import ParseError
from legato.base.lexer import Token
from legato.base.tokens import TokenStream
from legato.ir import _metadata
from legato.ir._hints import HintedStream
from legato.ir._metadata import KEY, Table
from legato.ir._own_ops import Ops, op_table
from legato.ir._parse_exprs import ExprParser, run
from legato.ir._parse_leaves import Known
from legato.ir._parse_types import TypeParser, name_of
from legato.ir._relay_metadata import NodeGraph
from legato.ir.expr import Constructor, Expr, Function, GlobalVar
from legato.ir.module import GlobalFunc, Module
from legato.ir.printer import VERSION
from legato.ir.types import GlobalTypeVar, Type, TypeData, TypeVar
from legato.tir.parser import parse_function

__all__ = ["parse", "parse_expr", "parse_type"]

Array = np.ndarray[Any, Any]


def parse(
    text: str,
    *,
    source: str = "<text>",
    ops: Ops,
    constants: Mapping[str, Array] | None = None,
    metadata: Mapping[str, Sequence[Any]] | None = None,
    module: Module | None = None,
) -> Module:
    """The module that `text` describes, untyped.

    source names the text in errors; ops are the operators that it may use (call_tir, join and part are known anyway);
    constants are the arrays that its metadata only names; metadata are the values of `meta[key][i]` for a text without
    a section of its own (arrays, under "relay.Constant"); `module` has functions and data types that it may name
    without defining them: they are not part of the result (`legato.prelude.link` adds those that are used). ParseError,
    with the place, for a text that is not in the grammar, names what is not defined, or gives an operator arguments or
    attributes that it does not have.
    """
    stream = HintedStream(text, source)
    if stream.at_kind("version"):
        token = stream.next()
        if token.text != VERSION:
            raise stream.error(f"unknown version {token.text}", token, hint=f"only version {VERSION} can be read")
    return _ModuleParser(stream, _known(stream, ops, constants, metadata), module).run()


def parse_expr(
    text: str,
    *,
    source: str = "<text>",
    ops: Ops,
    constants: Mapping[str, Array] | None = None,
    module: Module | None = None,
) -> Expr:
    """The expression that `text` describes, untyped; `module` gives the functions and data types that it may name.

    A function that `module` does not have becomes a new GlobalVar. ParseError as `parse` has.
    """
    stream = HintedStream(text, source)
    known = _known(stream, ops, constants)
    if module is not None:
        known.globals = {gv.name: (gv, stream.peek()) for gv in module.functions}
        _declare_types(known, module.types.values())
    if stream.at_kind("version"):
        stream.next()
    found = run(ExprParser(stream, known).body())
    _expect_end(stream)
    assert isinstance(found, Expr)
    return found


def parse_type(text: str, *, source: str = "<text>", types: Sequence[GlobalTypeVar] = ()) -> Type:
    """The type that `text` describes; `types` are the data types that it may name."""
    stream = HintedStream(text, source)
    parser = TypeParser(stream, {t.name: t for t in types}, lambda: None)
    found = parser.type()
    _expect_end(stream)
    return found


def _expect_end(stream: TokenStream) -> None:
    if not stream.at_kind("eof", "metadata"):
        raise stream.unexpected("the end of the text")


def _known(
    stream: TokenStream,
    ops: Ops,
    constants: Mapping[str, Array] | None,
    metadata: Mapping[str, Sequence[Any]] | None = None,
) -> Known:
    @cache
    def section() -> Table | NodeGraph:
        token = stream.tokens[-2] if len(stream.tokens) > 1 else stream.tokens[-1]
        if token.kind != "metadata" and metadata:
            return Table(metadata)
        if token.kind != "metadata":
            raise stream.error("meta[…] needs a #[metadata] section, and the text has none")
        start = token.end - len(token.text)

        def fail(message: str, offset: int) -> ParseError:
            at = min(start + offset, token.end) if offset else token.start
            return stream.source.error(message, at, at + 1)

        return _metadata.read(token.text, constants, fail)

    return Known(op_table(ops), section=section)


def _declare_types(known: Known, types: Iterator[TypeData] | Sequence[TypeData] | Any) -> None:
    for data in types:
        known.types[data.header.name] = data.header
        for c in data.constructors:
            known.constructors[c.name] = None if c.name in known.constructors else c
            known.constructors[f"{data.header.name}.{c.name}"] = c


class _ModuleParser:
    """Reads the definitions: data types first, since functions before them may use them."""

    def __init__(self, stream: HintedStream, known: Known, outer: Module | None) -> None:
        self._stream = stream
        self._known = known
        self._outer = outer or Module()
        self._types: dict[GlobalTypeVar, TypeData] = {}
        self._functions: dict[GlobalVar, GlobalFunc] = {}
        self._attrs: dict[str, Any] = {}
        self._constants: dict[str, Array] = {}

    def run(self) -> Module:
        """The module."""
        self._declare_outer()
        self._read_types()
        while not self._stream.at_kind("eof", "metadata"):
            self._definition()
        for name, (gv, token) in self._known.globals.items():
            if gv not in self._functions and gv not in self._outer.functions:
                defined = ", ".join(f"@{f.name}" for f in self._functions) or "none"
                raise self._stream.error(f"unknown function `@{name}`", token, hint=f"defined are {defined}")
        return Module(self._functions, self._types, self._attrs, self._constants)

    def _declare_outer(self) -> None:
        """Makes the names of the module around known, save for the functions that the text defines itself."""
        if not self._outer.functions and not self._outer.types:
            return
        tokens = self._stream.tokens
        own = {b.text for a, b in pairwise(tokens) if a.text == "def" and b.kind == "global"}
        self._known.globals = {gv.name: (gv, tokens[0]) for gv in self._outer.functions if gv.name not in own}
        _declare_types(self._known, self._outer.types.values())

    # ------------------------------------------------------------------ data types

    def _read_types(self) -> None:
        """Reads every type definition, wherever it stands, and comes back to the first definition."""
        stream, start = self._stream, self._stream.pos
        places = list(self._type_definitions())
        own: dict[str, GlobalTypeVar] = {}
        for place in places:
            token = stream.tokens[place + 1]
            if token.kind in ("ident", "string"):
                name = name_of(stream, token)
                if name in own:
                    raise stream.error(f"type `{name}` is defined twice", token)
                own[name] = GlobalTypeVar(name)
        self._known.types.update(own)
        for place in places:
            stream.pos = place
            extern = place > 0 and stream.tokens[place - 1].text == "extern"
            data = self._type_data(extern)
            self._types[data.header] = data
        for data in self._types.values():
            for con in data.constructors:
                self._known.constructors.pop(con.name, None)  # that of the module around
        _declare_types(self._known, self._types.values())
        stream.pos = start

    def _type_definitions(self) -> Iterator[int]:
        """Where the word `type` stands outside all brackets."""
        depth = 0
        for i, token in enumerate(self._stream.tokens):
            if token.kind == "punct" and token.text in "{}[]()":
                depth += 1 if token.text in "{[(" else -1
            elif depth == 0 and token.kind == "ident" and token.text == "type":
                yield i

    def _type_data(self, extern: bool) -> TypeData:
        stream = self._stream
        stream.expect("type")
        if not stream.at_kind("ident", "string"):
            raise stream.unexpected("the name of a data type")
        header = self._known.types[name_of(stream, stream.next())]
        types = TypeParser(stream, self._known.types, lambda: None)
        first = stream.peek()
        bound, _ = types.binders()
        variables = tuple(v for v in bound if isinstance(v, TypeVar))
        if len(variables) != len(bound):
            raise stream.error("a data type has no dims as parameters", first)
        constructors: list[Constructor] = []
        if not extern:
            stream.expect("{")
            while not stream.accept("}"):
                constructors.append(self._constructor(types, header, constructors))
                if not stream.accept(",") and not stream.at("}"):
                    raise stream.unexpected("`,` or `}`")
        return TypeData(header, variables, tuple(constructors), extern)

    def _constructor(self, types: TypeParser, header: GlobalTypeVar, before: list[Constructor]) -> Constructor:
        stream = self._stream
        if not stream.at_kind("ident", "string"):
            raise stream.unexpected("a constructor")
        token = stream.next()
        name = name_of(stream, token)
        if any(c.name == name for c in before):
            raise stream.error(f"constructor `{name}` is defined twice", token)
        inputs = types.types(")") if stream.accept("(") else ()
        return Constructor(name, inputs, header, len(before), span=stream.span(token))

    # ------------------------------------------------------------------ other definitions

    def _definition(self) -> None:
        stream = self._stream
        if stream.accept("def"):
            self._function()
        elif stream.at("fn") and stream.peek(1).kind != "global":
            self._bare_function()
        elif stream.at("kernel", "host"):
            self._tensor_program()
        elif stream.accept("attributes"):
            self._attributes()
        elif stream.accept("constant"):
            self._constant()
        elif stream.at("type", "extern"):
            if stream.accept("extern") and not stream.at("type"):
                raise stream.unexpected("`type`")
            self._type_data(stream.tokens[stream.pos - 1].text == "extern")
        else:
            raise stream.unexpected("a definition (def, type, extern type, kernel, host, attributes, constant)")

    def _function(self) -> None:
        first = self._stream.tokens[self._stream.pos - 1]
        gv = self._defined(self._stream.expect_kind("global"))
        func = run(ExprParser(self._stream, self._known).function(first, is_global=True))
        assert isinstance(func, Function)
        self._functions[gv] = func

    def _bare_function(self) -> None:
        """A function that is the whole program."""
        first = self._stream.next()
        gv = self._defined(first._replace(kind="global", text="main"))
        self._functions[gv] = run(ExprParser(self._stream, self._known).function(first, is_global=True))

    def _tensor_program(self) -> None:
        gv = self._defined(self._stream.peek(1))
        self._stream.hints = False  # it has a grammar of its own
        self._functions[gv] = parse_function(self._stream)
        self._stream.hints = True

    def _defined(self, token: Token) -> GlobalVar:
        gv, _ = self._known.globals.setdefault(token.text, (GlobalVar(token.text), token))
        if gv in self._functions:
            raise self._stream.error(f"function `@{token.text}` is defined twice", token)
        return gv

    def _attributes(self) -> None:
        self._stream.expect("(")
        leaves = ExprParser(self._stream, self._known)
        while not self._stream.accept(")"):
            leaves.attribute(self._attrs)
            if not self._stream.accept(",") and not self._stream.at(")"):
                raise self._stream.unexpected("`,` or `)`")

    def _constant(self) -> None:
        stream = self._stream
        token = stream.expect_kind("global", "@name")
        if token.text in self._constants:
            raise stream.error(f"constant `@{token.text}` is defined twice", token)
        stream.expect("=")
        if not stream.at("meta"):
            raise stream.unexpected(f"meta[{KEY}][i]")
        self._constants[token.text] = ExprParser(stream, self._known).constant().data
