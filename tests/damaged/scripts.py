"""Damaged scripts of both levels, and odd calls of what they compile to."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

import legato
from legato.base.errors import InternalError, LegatoError
from legato.runtime.executable import Executable
from legato.runtime.fill import feeds
from legato.script import parse
from tests.damaged.trees import flipped
from tests.damaged.use import MEMORY, called, ended
from tests.script.modules.random_modules import script

__all__ = ["attempt", "script_mutant"]

_LAYERS: Final = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def linear(x: T.handle, w: T.handle, b: T.handle, z: T.handle):
        M, N, K = T.int64(), T.int64(), T.int64()
        X = T.match_buffer(x, (M, K), "float32")
        W = T.match_buffer(w, (K, N), "float32")
        B = T.match_buffer(b, (N,), "float32")
        Z = T.match_buffer(z, (M, N), "float32")
        Y = T.alloc_buffer((M, N), "float32")
        for i, j, k in T.grid(M, N, K):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0.0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vk, vj]
        for i, j in T.grid(M, N):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = T.if_then_else(vj < 3, Y[vi, vj] + B[vj], T.max(Y[vi, vj], B[vj]))

    @R.function
    def scaled(x: R.Tensor(("n", "m"), "float32"), by: R.Tensor((), "float32")) -> R.Tensor(("n", "m"), "float32"):
        if R.less(by, R.const(1.0)):
            y = R.multiply(x, by)
        else:
            y = R.nn.relu(x)
        return y

    @R.function
    def main(x: R.Tensor(("n", 6), "float32"), w: R.Tensor((6, 4), "float32"), b: R.Tensor((4,), "float32")):
        cls = Module
        n = T.int64()
        with R.dataflow():
            lv = R.call_tir(cls.linear, (x, w, b), out_sinfo=R.Tensor((n, 4), "float32"))
            lv1 = R.match_cast(R.nn.softmax(lv), R.Tensor((n, 4), "float32"))
            lv2 = R.reshape(lv1, (n * 2, 2))
            R.output(lv, lv2)
        s = cls.scaled(lv, R.sum(lv2) / R.const(8.0))
        return (s, R.concat((lv2, lv2), axis=1))
"""

_WORDS: Final = [
    "x", "n", "m", "i", "vi", "X", "Y", "W", "main", "cls", "Module", "self", "None", "True", "0", "1", "-1", "2.5",
    "99999", '"n"', '"float32"', '"int8"', '"nan"', "T.int64()", "T.float32(0.0)", "R.const(1)", "T.handle",
    'R.Tensor((2,), "float32")', "R.Shape", "R.Object", "R.Tuple", "R.Callable", "R.add", "R.output", "R.tuple", "T",
    "R", "I", "T.parallel", "T.vectorized", "T.unroll", "T.grid", "range", "T.block", "T.init", "T.evaluate",
    "T.call_extern", "return", "with", "for", "if", "while", "else", "pass", "lambda", "yield", "import", "def",
    "class", "del", "in", "not", "and", "is", "assert", "await", "=", ":", ",", "(", ")", "[", "]", "{", "}", "+",
    "-", "*", "/", "//", "%", "**", "@", "<", "==", ":=", "->", ".", "~", "&", "\\", "'", '"', "#", "\n", ";", "*x",
]  # fmt: skip

_PIECE: Final = re.compile(r"\s+|\w+|\"[^\"\n]*\"|[^\w\s]")

_KEYWORDS: Final = ["axis", "axes", "dtype", "out_sinfo", "out_ty", "keepdims", "scope", "private", "pure", "x", "form"]


def script_mutant(rng: Random) -> str:
    """A script with one to three changes: in its tree (three of four, which Python can still read), or in its text."""
    text = rng.choice((_LAYERS, script(rng.randrange(200))))
    count = rng.choice((1, 1, 1, 2, 3))
    if rng.random() < 0.75:
        tree = ast.parse(text)
        for _ in range(count):
            _in_tree(rng, tree)
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    for _ in range(count):
        text = rng.choice((_in_lines, _in_tokens, _in_tokens))(rng, text)
    return text


def _in_tree(rng: Random, tree: ast.Module) -> None:
    """One change of a node: another expression, name, number, operator, argument or statement in its place."""
    nodes = list(ast.walk(tree))
    exprs = [n for n in nodes if isinstance(n, ast.expr) and isinstance(getattr(n, "ctx", ast.Load()), ast.Load)]
    kind = rng.randrange(6)
    if kind == 0:
        _in_statements(rng, nodes)
    elif kind == 1:
        names = [n for n in nodes if isinstance(n, ast.Name)]
        rng.choice(names).id = rng.choice(names).id
    elif kind == 2:
        number = rng.choice([n for n in nodes if isinstance(n, ast.Constant)])
        number.value = rng.choice([0, 1, -1, 3, 2.5, 1 << 16, "n", "x", "float32", "int8", "SSR", True, None, 1j, b""])
    elif kind == 3:
        attribute, other = (rng.choice([n for n in nodes if isinstance(n, ast.Attribute)]) for _ in range(2))
        attribute.attr = other.attr
    elif kind == 4:
        call = rng.choice([n for n in nodes if isinstance(n, ast.Call)])
        changes: list[Callable[[], Any]] = [
            lambda: call.args.insert(rng.randrange(len(call.args) + 1), copy.deepcopy(rng.choice(exprs))),
            lambda: call.args.__setitem__(slice(rng.randrange(3), None), []),
            lambda: rng.shuffle(call.args),
            lambda: call.keywords.__setitem__(slice(None), []),
            lambda: call.keywords.append(ast.keyword(rng.choice(_KEYWORDS), copy.deepcopy(rng.choice(exprs)))),
        ]
        rng.choice(changes)()
    else:
        _exchange(tree, rng.choice(exprs), rng.choice(exprs))


def _in_statements(rng: Random, nodes: list[ast.AST]) -> None:
    """A statement is left out, moved or repeated."""
    bodies = [n.body for n in nodes if isinstance(getattr(n, "body", None), list)]
    body, other = rng.choice(bodies), rng.choice(bodies)
    if rng.random() < 0.5 and len(body) > 1:
        body.pop(rng.randrange(len(body)))
    else:
        body.insert(rng.randrange(len(body) + 1), copy.deepcopy(rng.choice(other)))


def _exchange(tree: ast.Module, old: ast.expr, new: ast.expr) -> None:
    """`new`, copied, stands where `old` does."""
    new = copy.deepcopy(new)

    class Exchange(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is old else super().generic_visit(node)

    Exchange().visit(tree)


def _in_tokens(rng: Random, text: str) -> str:
    parts = _PIECE.findall(text)
    places = [n for n, part in enumerate(parts) if not part.isspace()]
    if not places:
        return text
    at, other = rng.choice(places), rng.choice(places)
    word = rng.choice([parts[other], rng.choice(_WORDS)])
    changes: list[Callable[[], Any]] = [
        lambda: parts.__setitem__(at, word),
        lambda: parts.__setitem__(at, word),
        lambda: parts.insert(at, word + " "),
        lambda: parts.pop(at),
        lambda: parts.__setitem__(slice(None), [word if p == parts[at] else p for p in parts]),  # a name, everywhere
        lambda: parts.__setitem__(slice(at, at + rng.randrange(2, 12)), []),
    ]
    rng.choice(changes)()
    return "".join(parts)


def _in_lines(rng: Random, text: str) -> str:
    lines = text.splitlines()
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    changes: list[Callable[[], Any]] = [
        lambda: lines.pop(at),
        lambda: lines.insert(at, lines[other]),
        lambda: lines.__setitem__(at, "    " + lines[at]),
        lambda: lines.__setitem__(at, lines[at].removeprefix("    ")),
        lambda: lines.__setitem__(at, lines[other]),
        lambda: lines.__setitem__(slice(at, at + rng.randrange(2, 6)), []),
    ]
    rng.choice(changes)()
    return "\n".join(lines) + "\n"


def attempt(number: int, folder: Path) -> bool:
    """A damaged script compiled and called, with what fits it or does not."""
    rng = Random(number)
    text = script_mutant(rng)
    if rng.random() < 0.05:
        text = flipped(text.encode(), rng).decode("utf-8", errors="replace")
    (folder / "script.py").write_text(text, encoding="utf-8")
    exe = legato.compile(parse(text), threads=1, memory_limit=MEMORY)
    called(exe)
    for _ in range(4):
        _odd_call(rng, exe)
    return True


def _odd_call(rng: Random, exe: Executable) -> None:
    arrays = list(feeds(exe.program.functions[exe.function], None, "random").values())
    arrays = [np.asarray(a) for a in arrays]
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(arrays)) if arrays else 0
        rng.choice(_CALLS)(rng, arrays, at)
    try:
        ended(lambda: exe(*arrays))
    except InternalError:
        raise
    except LegatoError:
        pass


def _pop(rng: Random, arrays: list[Any], at: int) -> None:
    del arrays[at : at + 1]


def _extra(rng: Random, arrays: list[Any], at: int) -> None:
    arrays.insert(at, rng.choice([np.zeros(3, np.float32), None, 1.5, "x", [1, 2], (), object(), np.zeros(0)]))


def _dtype(rng: Random, arrays: list[Any], at: int) -> None:
    if at < len(arrays) and isinstance(arrays[at], np.ndarray):
        arrays[at] = np.asarray(arrays[at]).astype(rng.choice(["float64", "int32", "uint8", "bool", "float16", "O"]))


def _shape(rng: Random, arrays: list[Any], at: int) -> None:
    if at < len(arrays) and isinstance(arrays[at], np.ndarray):
        shape = list(arrays[at].shape)
        for d in range(len(shape)):
            if rng.random() < 0.5:
                shape[d] = rng.choice([0, 1, 2, 3, 5, 8])
        arrays[at] = np.zeros([*shape, 2] if rng.random() < 0.2 else shape, arrays[at].dtype)


def _strides(rng: Random, arrays: list[Any], at: int) -> None:
    if at < len(arrays) and isinstance(arrays[at], np.ndarray):
        arrays[at] = np.repeat(arrays[at], 2, axis=-1)[..., ::-2] if arrays[at].ndim else arrays[at]


_CALLS: Final[list[Callable[[Random, list[Any], int], None]]] = [_pop, _extra, _dtype, _shape, _shape, _strides]
