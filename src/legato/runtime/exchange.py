"""Values of data types into a call and out of it: a graph of objects as one array of words, see `lg_objects_new`.

Nothing here recurses on a value: a list may be a million cells long. Values that are the same object in Python are the
same object in the program, and the other way round.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final, NoReturn

import numpy as np

from legato.base.errors import InternalError, RunError
from legato.runtime.binding import address, library
from legato.runtime.datatypes import Cell, ConstructorInfo, DataInfo, Field, ObjectInfo, TensorField
from legato.runtime.object_parts import WORD, Extent, OwnPart, Part
from legato.runtime.program import FunctionInfo
from legato.runtime.signature import Signature, fault
from legato.runtime.size import compile_size, names, show
from legato.runtime.strings import Strings
from legato.runtime.told import extent_of
from legato.runtime.values import Data, as_data, set_constructor, set_fields
from legato.runtime.workspace import Workspace

__all__ = ["Exchange", "ObjectCall"]

_ELSEWHERE: Final = 1 << 32  # of a record: its payload is copied from an address
_INLINE: Final = 64  # bytes of a payload that is described with its words
_HEAD: Final = 3  # words of a record before its payload
_IS: Final = (1 << 32) - 1  # of the third one: tag and pointers
_ASKED: Final = 256  # constructors that an exchange remembers
_MEMORY: Final = 1  # LG_MEMORY
_OWN: Final = -1  # instead of the number of a kind


class _Case:
    """A constructor with its cell, for one combination of dims.

    head: how records of it begin; flat: how many fields it has if none of them is a tuple, else -1; boxed: (which part,
    which of `kinds` it is of), scalars: (which part, what it is), as they lie in the cell. Behind these lie the dims
    `own`; -1 is the number of the kind of a part of such extents. For reading, each with its part's word of a record:
    values: (which part, word, type), tensors: (which part, word, what it is), numbers: (which part, word, which of
    `dtypes`), texts: (which part, word). bare: the value, if it has no parts.
    """

    __slots__ = (
        "_env", "bare", "boxed", "extents", "flat", "head", "info", "numbers", "own", "parts", "scalars", "size",
        "tells", "tensors", "texts", "values",
    )  # fmt: skip

    def __init__(
        self, info: ConstructorInfo, dims: Sequence[str], env: Sequence[int], kinds: list[_Kind], dtypes: _Dtypes
    ) -> None:
        cell = Cell.of(info.fields)
        self.info = info
        self.own = info.dims
        self.extents = [
            (n, part.value, compile_size(part.value, (*dims, *info.dims)))
            for n, part in enumerate(cell.parts)
            if not isinstance(part, int) and part.value is not None
        ]
        self.tells = bool(self.own or self.extents)
        self._env = env
        self.parts = [p if isinstance(p, int) else self._part(p, dims, env) for p in cell.parts]
        self.flat = -1 if any(isinstance(field, tuple) for field in info.fields) else len(info.fields)
        self.size = WORD * (len(self.parts) + len(self.own))
        self.head = (info.tag | cell.pointers << 16, self.size)
        self.boxed = [(n, _number(self.parts[n], kinds)) for n in cell.order[: cell.pointers]]
        self.scalars = [(n, part) for n in cell.order[cell.pointers :] if isinstance(part := self.parts[n], Part)]
        boxed = [(n, word, self.parts[n]) for word, (n, _) in enumerate(self.boxed, _HEAD)]
        self.values = [
            (n, word, ty) for n, word, p in boxed if isinstance(p, int) and isinstance(ty := kinds[p], _Type)
        ]
        self.tensors = [(n, word, part) for n, word, part in boxed if not isinstance(part, int)]
        scalars = [(n, word, part) for word, (n, part) in enumerate(self.scalars, _HEAD + cell.pointers)]
        self.numbers = [(n, w, dtypes.setdefault(p.kind, len(dtypes))) for n, w, p in scalars if not p.is_text]
        self.texts = [(n, word) for n, word, part in scalars if part.is_text]
        self.bare = None if self.parts else Data(info, self.fields([]))

    def _part(self, field: TensorField, dims: Sequence[str], env: Sequence[int]) -> Part | OwnPart:
        if field.value is not None:
            return Extent(field, dims, env)
        is_own = any(n in self.own for size in field.shape for n in names(size))
        return OwnPart(field, dims, env, self.own) if is_own else Part(field, dims, env)

    def told(self, parts: Sequence[object], where: str) -> tuple[int, ...]:
        """The dims of its own that a value with these parts has; RunError where a part is not the extent that it has to
        be."""
        known: dict[str, int] = {}
        for kind, part in zip(self.parts, parts, strict=True):
            if isinstance(kind, OwnPart):
                kind.tell(part, where, known)
        for n, size, _ in self.extents:
            if isinstance(size, str) and size in self.own and (given := extent_of(parts[n])):
                known.setdefault(size, *given)
        own = tuple(known.get(name, 0) for name in self.own)
        for n, size, value in self.extents:
            kind, wanted = self.parts[n], value((*self._env, *own))
            assert isinstance(kind, Extent)
            got = int(kind.array(parts[n], where))
            if got != wanted:
                raise fault(f'input "{where}": wrong extent in {self.info.name}', got, f"{show(size)} = {wanted}")
        return own

    def taken_apart(self, fields: tuple[Any, ...], where: str) -> Sequence[Any]:
        """The parts of the fields of a value; RunError if they are not as many, or tuples are elsewhere."""
        info = self.info
        parts: list[Any] = []
        todo: list[tuple[Field, Any]] = [(info.fields, fields)]
        while todo:
            field, value = todo.pop()
            if not isinstance(field, tuple):
                parts.append(value)
                continue
            if not isinstance(value, tuple) or len(value) != len(field):
                got = f"{len(value)} values" if isinstance(value, tuple) else type(value).__name__
                raise fault(f'input "{where}": the fields of {info.name} do not fit', got, f"a tuple of {len(field)}")
            todo += reversed(list(zip(field, value, strict=True)))
        return parts

    def own_dims(self, words: Sequence[int], at: int) -> tuple[int, ...]:
        """The dims of its own that the record at `at` has."""
        first = at + _HEAD + len(self.parts)
        return tuple(words[first : first + len(self.own)])

    def fields(self, parts: Sequence[Any]) -> tuple[Any, ...]:
        """The fields of a value with these parts."""
        return tuple(parts) if self.flat >= 0 else _nested(self.info.fields, iter(parts))


def _nested(fields: tuple[Field, ...], parts: Iterator[Any]) -> tuple[Any, ...]:
    return tuple([_nested(field, parts) if isinstance(field, tuple) else next(parts) for field in fields])


class _Type:
    """A data type, for one combination of dims."""

    __slots__ = ("_asked", "cases", "info", "known", "of")

    def __init__(self, info: DataInfo) -> None:
        self.info = info
        self.cases: list[_Case] = []
        self.of: dict[int, _Case] = {}  # by what a record says that it is
        self.known: dict[int, _Case] = {}  # by identity of constructors that are known to fit
        self._asked: list[Any] = []  # which are kept alive for that

    def case(self, value: object, where: str) -> _Case:
        """How `value` is made; RunError if it is none of this type."""
        if not isinstance(value, Data):
            hint = "a value is made by calling a constructor of exe.constructors"
            raise fault(f'input "{where}": not a value of a data type', type(value).__name__, self.info.name, hint)
        constructor, cases = value.constructor, self.cases
        tag, name = getattr(constructor, "tag", None), getattr(constructor, "name", None)
        if isinstance(tag, int) and 0 <= tag < len(cases) and cases[tag].info.name == name:
            if len(self._asked) < _ASKED:
                self.known[id(constructor)] = cases[tag]
                self._asked.append(constructor)
            return cases[tag]
        known = ", ".join(case.info.name for case in cases)
        got = name if isinstance(tag, int) and isinstance(name, str) else type(constructor).__name__
        raise fault(f'input "{where}": no constructor of {self.info.name}', got, known)

    def complete(self, cases: list[_Case]) -> None:
        """Sets its constructors, which need all types to be there."""
        self.cases = cases
        self.of = {case.head[0]: case for case in cases if not case.bare}

    def bare(self, tag: int) -> Data:
        """The value without parts that a handle is."""
        found = self.cases[tag].bare if 0 <= tag < len(self.cases) else None
        return found or self.refuse(f"tag {tag} and no parts")

    def refuse(self, what: str) -> NoReturn:
        """InternalError: it has no such constructor."""
        raise InternalError(f"the program made a value of {self.info.name} with {what}")


_Kind = _Type | Part  # of the parts that are objects
_Dtypes = dict[np.dtype[Any], int]  # of scalars, numbered


def _number(part: int | Part | OwnPart, kinds: list[_Kind]) -> int:
    """The kind of a part; that of a tensor is added. Those of data types are there already."""
    if isinstance(part, int):
        return part
    if isinstance(part, OwnPart):
        return _OWN
    kinds.append(part)
    return len(kinds) - 1


class Exchange:
    """What a function's data types mean for one combination of dims: values become objects, objects become values.

    The extents of results are 0 as long as nobody knows them: no input is of them.
    """

    __slots__ = ("_dims", "_dtypes", "_env", "_info", "_kinds", "_types")

    def __init__(self, info: FunctionInfo, env: Sequence[int], extents: Sequence[int] | None = None) -> None:
        self._info, self._env = info, env
        self._dims = [*(dim.name for dim in info.dims), *info.extents]
        self._types = [_Type(data) for data in info.types]
        self._kinds: list[_Kind] = [*self._types]
        self._dtypes: _Dtypes = {}
        values = (*env, *(extents or (0,) * len(info.extents)))
        for ty in self._types:
            ty.complete([_Case(c, self._dims, values, self._kinds, self._dtypes) for c in ty.info.constructors])

    def results(
        self, workspace: int, extents: Sequence[int], handles: Sequence[int], strings: Strings | None = None
    ) -> list[Any]:
        """The values of the results `handles`, whose extents are known by now."""
        reader = Exchange(self._info, self._env, extents) if extents else self
        values = (*self._env, *extents)
        kinds = [
            Part(r.data, self._dims, values) if isinstance(r.data, TensorField) else r.data for r in self._info.results
        ]
        return reader._read(workspace, kinds, handles, strings)

    # ------------------------------------------------------------------------------------------------ in

    def build(
        self, workspace: int, infos: Sequence[ObjectInfo], values: Sequence[object], strings: Strings | None = None
    ) -> list[int]:
        """Handles of new objects for `values`; RunError where one does not fit its type, or memory ends."""
        script = _Script(len(self._kinds), strings)
        roots = array("q", [self._add(script, info, value) for info, value in zip(infos, values, strict=True)])
        words = script.finished()
        status = library().lg_objects_new(
            workspace, words.buffer_info()[0], len(words), script.count, roots.buffer_info()[0], len(roots)
        )
        if status == _MEMORY:
            raise RunError("out of memory: no room for the objects of the inputs")
        if status:
            raise InternalError("the runtime refuses the description of the inputs")
        return roots.tolist()

    def _add(self, script: _Script, info: ObjectInfo, root: object) -> int:
        """Writes records for what `root` consists of, in the order in which it is met; what refers to `root`.

        It is the greatest part of a call with many small objects, so it is written for speed: all in one loop.
        """
        kinds, met, words, where, data = self._kinds, script.known, script.words, info.name, info.data
        assert isinstance(data, int), "inputs are of data types"
        if id(root) in met[data]:
            return met[data][id(root)]
        values: list[Any] = [root]
        types = [self._types[data]]
        first = number = met[data][id(root)] = 2 * script.cells
        for value, ty in zip(values, types, strict=True):  # they grow
            case = ty.known.get(id(value.constructor)) if type(value) is Data else None
            if case is None:
                value = as_data(value)
                case = ty.case(value, where)
            parts = value.fields
            if type(parts) is not tuple or len(parts) != case.flat:
                parts = case.taken_apart(parts, where)
            words += case.head
            own = case.told(parts, where) if case.tells else ()
            for n, at in case.boxed:
                if at == _OWN:
                    words.append(script.own_tensor(parts[n], case.parts[n], own, where))
                    continue
                part, known = parts[n], met[at]
                key = id(part)
                reference = known.get(key)
                if reference is None:
                    kind = kinds[at]
                    if isinstance(kind, Part):
                        reference = script.tensor(part, kind, where)
                    else:
                        number += 2
                        reference = number
                        values.append(part)
                        types.append(kind)
                    known[key] = reference
                words.append(reference)
            for n, scalar in case.scalars:
                part = parts[n]
                words.append(int(part) if type(part) is scalar.integer else scalar.word(part, where, script.strings))
            words += own
        script.cells += len(values)
        return first

    # ------------------------------------------------------------------------------------------------ out

    def _read(
        self, workspace: int, roots_are: Sequence[int | Part], handles: Sequence[int], strings: Strings | None
    ) -> list[Any]:
        """The values of the objects `handles`; RunError if memory ends, or one contains itself.

        A value is there, empty, before what it consists of is: so one loop, from those that refer to others on, tells
        each record its type and fills each value. Written for speed, as `_add`.
        """
        graph, roots = _Graph.of(workspace, handles, strings)
        words, made, types, new = graph.words, graph.made, graph.types, object.__new__
        columns = [graph.column(kind) for kind in self._dtypes]
        found = [
            graph.tensor(root, kind) if isinstance(kind, Part) else graph.value(root, self._types[kind])
            for kind, root in zip(roots_are, roots, strict=True)
        ]
        number = len(made)
        for at in reversed(graph.starts):  # those that refer to others come later
            number -= 1
            ty = types[number]
            if ty is None:  # a tensor
                continue
            case = ty.of.get(words[at + 2] & _IS)
            if case is None or words[at + 1] != case.size:
                ty.refuse(f"tag {words[at + 2] & 0xFFFF} and {words[at + 1]} bytes")
            parts: list[Any] = [None] * len(case.parts)
            for n, word, kind in case.values:
                reference = words[at + word]
                if reference & 1:
                    parts[n] = kind.bare(reference >> 1)
                    continue
                to = reference >> 1
                part = made[to]
                if part is None:
                    part = made[to] = new(Data)
                    types[to] = kind
                parts[n] = part
            if case.tensors:
                own = case.own_dims(words, at)
                for n, word, tensor in case.tensors:
                    parts[n] = graph.tensor(words[at + word], tensor if isinstance(tensor, Part) else tensor.at(own))
            for n, word, column in case.numbers:
                parts[n] = columns[column][at + word, ...].copy()
            for n, word in case.texts:
                parts[n] = graph.text(words[at + word])
            value = made[number]
            set_constructor(value, case.info)
            set_fields(value, tuple(parts) if case.flat >= 0 else case.fields(parts))
        return found


class _Graph:
    """Records of objects, and what has been made of them so far: `types` are those of values."""

    __slots__ = ("_data", "_strings", "made", "starts", "types", "words")

    def __init__(self, data: bytes, strings: Strings | None) -> None:
        self._strings = strings
        self._data = np.frombuffer(data, np.int64)
        self.words: list[int] = self._data.tolist()
        self.starts = _starts(self.words)
        self.made: list[Any] = [None] * len(self.starts)
        self.types: list[_Type | None] = [None] * len(self.starts)

    @staticmethod
    def of(workspace: int, handles: Sequence[int], strings: Strings | None) -> tuple[_Graph, array[int]]:
        """The records of the objects `handles`, and what refers to those."""
        roots = array("q", handles)
        records, count = ctypes.c_void_p(), ctypes.c_int64()
        status = library().lg_objects_read(
            workspace, roots.buffer_info()[0], len(roots), ctypes.byref(records), ctypes.byref(count)
        )
        if status:
            what = "out of memory: no room for the results" if status == _MEMORY else "a result contains itself"
            raise RunError(what)
        data = ctypes.string_at(records.value or 0, WORD * count.value) if count.value else b""
        return _Graph(data, strings), roots

    def column(self, kind: np.dtype[Any]) -> np.ndarray:
        """The words as scalars of a dtype."""
        return self._data.view(kind)[:: WORD // kind.itemsize]

    def text(self, number: int) -> np.ndarray:
        """The string that a number stands for, as a scalar."""
        assert self._strings is not None, "a program that has strings has a table of them"
        return self._strings.texts(np.array(number))

    def value(self, reference: int, ty: _Type) -> Data:
        """The value that is referred to, of type `ty`: empty, if it is met first."""
        if reference & 1:
            return ty.bare(reference >> 1)
        number = reference >> 1
        found: Data | None = self.made[number]
        if found is None:
            found = self.made[number] = object.__new__(Data)
            self.types[number] = ty
        return found

    def tensor(self, reference: int, part: Part) -> np.ndarray:
        """The tensor that is referred to."""
        number = reference >> 1
        found: np.ndarray | None = self.made[number]
        if found is None:
            at = self.starts[number]
            found = self.made[number] = part.read(self.words[at], self.words[at + 1], self._strings)
        return found


class ObjectCall:
    """The objects of one call: those of the inputs are made and in the words when this exists."""

    __slots__ = ("_exchange", "_extents", "_given", "_slots", "_workspace")

    def __init__(
        self, exchange: Exchange, signature: Signature, workspace: Workspace, objects: Sequence[object]
    ) -> None:
        info = signature.info
        self._exchange, self._workspace = exchange, workspace
        self._given = exchange.build(workspace.handle, info.objects, objects, workspace.strings)
        self._slots, self._extents = np.zeros(len(info.results), np.int64), np.zeros(len(info.extents), np.int64)
        for word, i in signature.object_words:
            workspace.words[word] = self._given[i]
        for word, i in signature.result_words:
            workspace.words[word] = address(self._slots[i:])
        for word, i in signature.extent_words:
            workspace.words[word] = address(self._extents[i:])

    def results(self) -> list[Any]:
        """The results, once the call has succeeded; all its objects end."""
        handles = self._slots.tolist()
        try:
            where, strings = self._workspace.handle, self._workspace.strings
            return self._exchange.results(where, self._extents.tolist(), handles, strings)
        finally:
            self._workspace.end_objects([*self._given, *handles])


class _Script:
    """Records so far: of cells from the first on, of tensors from the last on."""

    __slots__ = ("_alive", "_own", "_tensors", "cells", "known", "strings", "words")

    def __init__(self, kinds: int, strings: Strings | None) -> None:
        self.strings = strings
        self.words: list[int] = []  # of cells
        self.cells = 0
        self.known: list[dict[int, int]] = [{} for _ in range(kinds)]  # by kind: id of a value -> what refers to it
        self._own: dict[tuple[int, Part], int] = {}  # tensors whose extents are their objects' own
        self._tensors: list[tuple[int, int, int]] = []
        self._alive: list[np.ndarray] = []  # memory that the records refer to

    def tensor(self, value: object, part: Part, where: str) -> int:
        """Adds the record of a tensor; what refers to it."""
        data = part.array(value, where, self.strings)
        self._alive.append(data)
        self._tensors.append((_ELSEWHERE, data.nbytes, address(data)))
        return -2 * len(self._tensors)

    def own_tensor(self, value: object, part: object, own: tuple[int, ...], where: str) -> int:
        """What refers to a tensor in an object with the dims `own`; its record is added when it is met first."""
        assert isinstance(part, OwnPart)
        kind = part.at(own)
        key = id(value), kind
        found = self._own.get(key)
        if found is None:
            found = self._own[key] = self.tensor(value, kind, where)
        return found

    @property
    def count(self) -> int:
        """How many records there are."""
        return self.cells + len(self._tensors)

    def finished(self) -> array[int]:
        """The words of all records."""
        return array("q", [*self.words, *chain.from_iterable(reversed(self._tensors))])


def _starts(words: Sequence[int]) -> list[int]:
    """Where records begin."""
    starts, at, end = [], 0, len(words)
    while at < end:
        starts.append(at)
        size = words[at + 1]
        at += _HEAD + (-(-size // WORD) if size <= _INLINE or words[at + 2] >> 16 & 0xFFFF else 0)
    return starts
