"""Executables with objects, made of loop programs: lists, trees and tensors in and out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.base.target import host
from legato.codegen.compile import compile_object
from legato.codegen.emit import emit_module
from legato.codegen.link import link
from legato.runtime import (
    ConstructorInfo,
    DataInfo,
    DimInfo,
    Executable,
    FunctionInfo,
    ObjectInfo,
    Program,
    TensorField,
    TensorInfo,
)
from legato.tir.parser import parse_func
from legato.tir.verify import verify_all

NUMBER = TensorField("int64", ())
FLAGS = (TensorField("int8", ()), TensorField("bool", ()))
LIST = DataInfo("List", (ConstructorInfo("Nil", 0, ()), ConstructorInfo("Cons", 1, (NUMBER, 0))))
# A node has a weight of two floats, a pair of subtrees, a name and a flag; a leaf has a vector.
TREE = DataInfo("Tree", (
    ConstructorInfo("Leaf", 0, (TensorField("float32", ("n",)),)),
    ConstructorInfo("Node", 1, (TensorField("float32", ()), (0, 0), FLAGS)),
    ConstructorInfo("None", 2, ((),)),
))  # fmt: skip

# Doubles every element of a list: another list, built from the front by going back over a reversed one.
TURN = """host @turn(list: handle, out: Buffer[(), handle]) {
  alloc here: Buffer[(), handle, scope=register];
  alloc made: Buffer[(), handle, scope=register];
  here[] = list;
  made[] = handle(1);
  while tag(here[]) == 1i32 {
    open old: Buffer[(2,), int64] = here[];
    view tail: Buffer[(), handle] = old at 0;
    object new: Buffer[(2,), int64], tag=1, pointers=1;
    view next: Buffer[(), handle] = new at 0;
    next[] = made[];
    new[1] = old[1] * 2i64;
    made[] = address(new);
    here[] = tail[];
  }
  out[] = made[];
}"""
SUM = """host @main(list: handle, out: Buffer[(), int64]) {
  alloc here: Buffer[(), handle, scope=register];
  alloc sum: Buffer[(), int64, scope=register];
  here[] = list;
  sum[] = 0i64;
  while tag(here[]) == 1i32 {
    open cell: Buffer[(2,), int64] = here[];
    view tail: Buffer[(), handle] = cell at 0;
    sum[] = sum[] + cell[1];
    here[] = tail[];
  }
  out[] = sum[];
}"""
# The sum again, by a call for each element.
DEEP = """host @main(list: handle, out: Buffer[(), int64]) {
  switch tag(list) {
    case 0 {
      out[] = 0i64;
    }
    default {
      open cell: Buffer[(2,), int64] = list;
      view tail: Buffer[(), handle] = cell at 0;
      alloc rest: Buffer[(), int64, scope=register];
      invoke @main(tail[], rest);
      out[] = rest[] + cell[1];
    }
  }
}"""
# A list of n .. 1, by a call for each element, in which operator 0 is called at the end.
DOWN = """host @main(n: Buffer[(), int64], out: Buffer[(), handle]) {
  if n[] == 0i64 {
    host_op 0(n);
    out[] = handle(1);
  } else {
    alloc less: Buffer[(), int64, scope=register];
    alloc rest: Buffer[(), handle, scope=register];
    less[] = n[] - 1i64;
    invoke @main(less, rest);
    object cell: Buffer[(2,), int64], tag=1, pointers=1;
    view tail: Buffer[(), handle] = cell at 0;
    tail[] = rest[];
    cell[1] = n[];
    out[] = address(cell);
  }
}"""
SAME = """host @main(tree: handle, n: index, x: Buffer[(n,), float32], out: Buffer[(), handle]) {
  retain tree;
  out[] = tree;
}"""
ENDLESS = """host @main(list: handle, out: Buffer[(), int64]) {
  alloc n: Buffer[(), int64, scope=register];
  n[] = 0i64;
  while n[] < 1i64 {
    n[] = n[] * 2i64;
  }
  out[] = n[];
}"""


def _tensor(name: str, *shape: Any, dtype: str = "int64") -> TensorInfo:
    return TensorInfo(name, dtype, shape)


def executable(texts: Sequence[str], **info: Any) -> Executable:
    """An executable of the functions `texts`, whose @main has the signature `info`."""
    funcs = [parse_func(text) for text in texts]
    verify_all({f.name: f for f in funcs}, final=True)
    image = link([compile_object(emit_module(funcs, host(), {}), host())], [f.name for f in funcs])
    more = {k: info.pop(k) for k in ("memory_limit", "host_ops", "threads") if k in info}
    table = info.pop("table", ())
    plain = {"inputs": (), "outputs": (), "structure": 0, "dims": ()}
    main = FunctionInfo(offset=image.exports["main"], **{**plain, **info})
    program = Program(target=host().name, functions={"main": main}, host_ops=table)
    return Executable.from_parts(program, image.data, image.code_size, image.relocations, [], **more)


def doubled(**more: Any) -> Executable:
    """A list, doubled and turned round: objects in and out."""
    main = TURN.replace("@turn", "@main")
    infos = {"objects": (ObjectInfo("list", 0, "List"),), "results": (ObjectInfo("turned", 0, "List"),)}
    return executable([main], types=(LIST,), words=(("object", 0), ("result", 0)), **infos, **more)


def summed(text: str = SUM, **more: Any) -> Executable:
    """The sum of a list."""
    words = (("object", 0), ("output", 0))
    objects = (ObjectInfo("list", 0, "List"),)
    return executable([text], types=(LIST,), objects=objects, outputs=(_tensor("sum"),), words=words, **more)


def countdown(**more: Any) -> Executable:
    """A list of n .. 1, made by a function that calls itself and then operator 0."""
    words = (("input", 0), ("result", 0))
    results = (ObjectInfo("list", 0, "List"),)
    return executable([DOWN], types=(LIST,), inputs=(_tensor("n"),), results=results, words=words,
                      is_recursive=True, **more)  # fmt: skip


def same() -> Executable:
    """A tree as it is; its leaves have as many elements as a tensor that is given too."""
    words = (("object", 0), ("dim", "n"), ("input", 0), ("result", 0))
    return executable(
        [SAME], types=(TREE,), objects=(ObjectInfo("tree", 0, "Tree"),), results=(ObjectInfo("same", 0, "Tree"),),
        inputs=(_tensor("x", "n", dtype="float32"),), dims=(DimInfo("n"),), words=words,
    )  # fmt: skip
