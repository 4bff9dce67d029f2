"""Values of data types into compiled programs and out of them; deep recursion; memory that does not grow."""

from __future__ import annotations

import gc
import os
import resource
import signal
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import InternalError, InterruptError, RunError
from legato.runtime import ConstructorInfo, Data, HostOpInfo, ObjectInfo, TensorField, TensorInfo
from tests.interrupts import when_inside
from tests.runtime import lists
from tests.runtime.test_artifact import forged, message_of

NIL, CONS = lists.LIST.constructors
LEAF, NODE, NONE = lists.TREE.constructors


def cells(numbers: Iterable[int]) -> Data:
    """A list of numbers."""
    made = NIL()
    for number in reversed(list(numbers)):
        made = CONS(np.int64(number), made)
    return made


def numbers(value: Data) -> list[int]:
    """The numbers of a list."""
    found = []
    while value.fields:
        found.append(int(value.fields[0]))
        value = value.fields[1]
    return found


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_lists_in_and_out(n: int) -> None:
    exe = lists.doubled()
    assert numbers(exe(cells(range(n)))) == [2 * i for i in reversed(range(n))]
    assert exe.leaked == 0
    assert lists.summed()(cells(range(n))) == n * (n - 1) // 2


def test_long_lists() -> None:
    exe, n = lists.doubled(), 30_000
    turned = exe(exe(cells(range(n))))
    assert numbers(turned) == [4 * i for i in range(n)]
    assert exe.leaked == 0


def leaf(*values: float) -> Data:
    return LEAF(np.array(values, np.float32))


def node(weight: float, left: Data, right: Data, name: int, flag: bool) -> Data:
    return NODE(np.float32(weight), (left, right), (np.int8(name), np.bool_(flag)))


def test_every_kind_of_field_comes_back() -> None:
    exe = lists.same()
    shared = node(1.5, leaf(1, 2, 3), NONE(()), -3, True)
    tree = node(-0.25, shared, node(np.inf, shared, leaf(7, 8, 9), 127, False), 0, True)
    got = exe(tree, np.zeros(3, np.float32))
    left, right = got.fields[1]
    assert right.fields[1][0] is left  # shared in, shared out
    assert repr(got) == repr(tree)
    leaves = [left.fields[1][0], right.fields[1][1]]
    for found, wanted in zip(leaves, ([1, 2, 3], [7, 8, 9]), strict=True):
        assert found.fields[0].dtype == np.float32
        assert found.fields[0].tolist() == wanted
    assert got.fields[0].dtype == np.float32
    assert [type(f) for f in got.fields[2]] == [np.ndarray, np.ndarray]
    assert (got.fields[2][0].dtype, got.fields[2][1].dtype) == (np.int8, np.bool_)
    assert left.fields[1][1].fields == ((),)
    assert exe.leaked == 0


def test_leaves_without_elements_and_large_ones() -> None:
    exe = lists.same()
    assert exe(leaf(), np.zeros(0, np.float32)).fields[0].shape == (0,)
    large = np.arange(100_000, dtype=np.float32)
    got = exe(node(1, LEAF(large), LEAF(large[::1]), 1, False), large)
    assert all(np.array_equal(one.fields[0], large) for one in got.fields[1])
    strided = np.arange(6, dtype=np.float32)[::2]
    assert exe(LEAF(strided), strided).fields[0].tolist() == [0, 2, 4]


def test_by_name() -> None:
    exe = lists.same()
    given = {"x": np.zeros(1, np.float32), "tree": leaf(4)}
    assert exe.run(given)["same"].fields[0].tolist() == [4]
    with pytest.raises(RunError, match="missing inputs: tree: Tree"):
        exe.run({"x": given["x"]})
    assert repr(exe).startswith("<executable main(tree: Tree, x: float32[n] -> same: Tree)")
    assert sorted(exe.constructors) == ["Leaf", "Node", "None"]


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (3, "not a value of a data type\n  got:    int\n  wanted: Tree"),
        (cells([1]), "no constructor of Tree\n  got:    Cons\n  wanted: Leaf, Node, None"),
        (leaf(1, 2), 'input "tree": wrong shape or dtype\n  got:    float32[2]\n  wanted: float32[3]'),
        (LEAF(np.zeros(3)), 'input "tree": wrong shape or dtype\n  got:    float64[3]\n  wanted: float32[3]'),
        (LEAF([1, 2, 3]), 'input "tree": not an array\n  got:    list'),
        (Data(LEAF, ()), "the fields of Leaf do not fit\n  got:    0 values\n  wanted: a tuple of 1"),
        (Data(LEAF, 5), "the fields of Leaf do not fit\n  got:    int\n  wanted: a tuple of 1"),
        (NODE(np.float32(1), leaf(1, 2, 3), (np.int8(0), np.True_)),
         "the fields of Node do not fit\n  got:    Data\n  wanted: a tuple of 2"),
        (node(1, NONE(()), Data(ConstructorInfo("Leaf", 1, ()), ()), 1, True), "no constructor of Tree"),
        (Data(None, ()), "no constructor of Tree\n  got:    NoneType\n  wanted: Leaf, Node, None"),
        (Data(ConstructorInfo("Leaf", "0", ()), ()), "no constructor of Tree\n  got:    ConstructorInfo"),  # type: ignore[arg-type]
        (Data(ConstructorInfo("Leaf", 0.0, ()), ()), "no constructor of Tree\n  got:    ConstructorInfo"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_values_that_do_not_fit(tree: Any, message: str) -> None:
    exe = lists.same()
    with pytest.raises(RunError) as error:
        exe(tree, np.zeros(3, np.float32))
    assert message in str(error.value)
    assert exe(leaf(1, 2, 3), np.zeros(3, np.float32)).constructor == LEAF
    assert exe.leaked == 0


PAIR = """host @main(out: Buffer[(), handle]) {
  object two: Buffer[(2,), int64], tag=1, pointers=0;
  two[0] = 3i64;
  two[1] = 4i64;
  out[] = address(two);
}"""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (TensorField("int64", (4,)), r"a tensor of 16 bytes, wanted 32: int64\[4\]"),
        (0, "a value of List with tag 1 and 16 bytes"),  # a Cons that refers to nothing
    ],
)
def test_results_that_are_not_what_the_program_says(data: Any, message: str) -> None:
    exe = lists.executable(
        [PAIR], types=(lists.LIST,), results=(ObjectInfo("pair", data, "pair"),), words=(("result", 0),)
    )  # fmt: skip
    with pytest.raises(InternalError, match=message):
        exe()
    whole = ObjectInfo("pair", TensorField("int64", (2,)), "pair")
    assert lists.executable([PAIR], results=(whole,), words=(("result", 0),))().tolist() == [3, 4]


def test_too_many_inputs() -> None:
    with pytest.raises(RunError, match=r"main: got 1 inputs, wanted 2: tree: Tree, x: float32\[n\]"):
        lists.same()(leaf(1))


def test_memory_limit() -> None:
    exe = lists.doubled(memory_limit=1 << 20)
    with pytest.raises(RunError, match="out of memory"):
        exe(cells(range(20_000)))  # the list alone fits, twice does not
    with pytest.raises(RunError, match="no room for the objects of the inputs"):
        exe(cells(range(100_000)))
    assert numbers(exe(cells(range(100)))) == [2 * i for i in reversed(range(100))]
    assert exe.leaked == 0


# ---- deep recursion

OPERATOR = HostOpInfo("note", "{}", (TensorInfo("n", "int64", ()),), ())


def test_deep_recursion_in_any_thread() -> None:
    seen = []
    exe = lists.countdown(table=(OPERATOR,), host_ops=lambda info, inputs: seen.append(int(inputs[0])) or [])
    deep = lists.summed(lists.DEEP, is_recursive=True)
    results = []

    def call() -> None:
        found = exe(np.int64(100_000))
        results.append((numbers(found)[:3], int(deep(found))))

    for run in (call, lambda: _in_thread(call)):
        run()
    assert results == [([100_000, 99_999, 99_998], 5_000_050_000)] * 2
    assert seen == [0, 0]
    assert exe.leaked == 0


def _in_thread(call: Any) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def test_depth_is_bounded_by_the_memory_limit() -> None:
    exe = lists.countdown(table=(OPERATOR,), host_ops=lambda info, inputs: [], memory_limit=8 << 20)
    with pytest.raises(RunError, match=r"calls nest too deeply|out of memory"):
        exe(np.int64(10_000_000))
    assert len(numbers(exe(np.int64(5000)))) == 5000


def test_operators_that_fail_deep_inside() -> None:
    def fail(info: HostOpInfo, inputs: Any) -> Any:
        raise ValueError("no luck")

    exe = lists.countdown(table=(OPERATOR,), host_ops=fail)
    for _ in range(3):
        with pytest.raises(RunError, match="operator note failed: ValueError: no luck"):
            exe(np.int64(1000))
    assert exe.leaked == 0


def test_fork_deep_inside() -> None:
    """A child made in an operator goes on with the call, on the stack that it has inherited."""
    child = []

    def fork(info: HostOpInfo, inputs: Any) -> list[Any]:
        child.append(os.fork())
        return []

    exe = lists.countdown(table=(OPERATOR,), host_ops=fork)
    found = len(numbers(exe(np.int64(2000))))
    if not child[0]:
        os._exit(0 if found == 2000 else 1)
    assert found == 2000
    assert os.waitstatus_to_exitcode(os.waitpid(child[0], 0)[1]) == 0


def test_loops_are_interrupted() -> None:
    exe = lists.summed(lists.ENDLESS)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    pressed = when_inside(lambda: os.kill(os.getpid(), signal.SIGINT))
    try:
        with pytest.raises(InterruptError):
            exe(NIL())
    finally:
        pressed.join()
        signal.signal(signal.SIGINT, before)


# ---- many calls


def test_threads_call_at_the_same_time() -> None:
    exe, wrong = lists.doubled(), []

    def calls(n: int) -> None:
        for i in range(60):
            size = (n * 37 + i * 11) % 90
            if numbers(exe(cells(range(size)))) != [2 * k for k in reversed(range(size))]:
                wrong.append((n, i))

    threads = [threading.Thread(target=calls, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert exe.leaked == 0


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_memory_does_not_grow() -> None:
    exe, value = lists.doubled(), cells(range(20))
    for _ in range(1000):
        exe(value)
    gc.collect()
    before = _resident()
    for _ in range(10_000):
        exe(value)
    assert _resident() - before < 1 << 20
    assert exe.leaked == 0


# ---- files


def test_saved_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "lists.legato"
    lists.same().save(path)
    exe = legato.load(path)
    assert exe(leaf(1, 2), np.zeros(2, np.float32)).fields[0].tolist() == [1, 2]
    made = exe.constructors["Leaf"](np.ones(2, np.float32))
    assert exe(made, np.zeros(2, np.float32)).fields[0].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f["objects"][0].update(data=3), "'tree' is of data type 3, of 1"),
        (lambda f: f["objects"][0].update(data=-1), "got -1, wanted an integer from 0"),
        (lambda f: f["types"][0]["constructors"][1].update(tag=5),
         "constructor 'Node' of 'Tree' has tag 5, and position 1"),
        (lambda f: f["types"][0]["constructors"][1].update(fields=[9]), "a field of 'Node' is of data type 9, of 1"),
        (lambda f: f["types"][0]["constructors"][0]["fields"][0].update(dtype="float7"),
         "a field of 'Leaf' has unknown dtype 'float7'"),
        (lambda f: f["types"][0]["constructors"][0]["fields"][0].update(shape=["m"]),
         "a field of 'Leaf' mentions unknown dim 'm'"),
        (lambda f: f["types"][0]["constructors"][0]["fields"][0].update(value="n"),
         "a field of 'Leaf' is an extent, but float32[n]"),
        (lambda f: f["types"][0]["constructors"][0]["fields"][0].update(dtype="int64", shape=[], value="m"),
         "a field of 'Leaf' mentions unknown dim 'm'"),
        (lambda f: f["inputs"][0].update(value="n"), "is no int64 scalar of the inputs"),
        (lambda f: f["inputs"][0].update(value=["?"]), "unknown operator '?' on 0 operands"),
        (lambda f: f["types"][0]["constructors"][0].update(fields=[0] * 65536), "constructor 'Leaf' has 65536 parts"),
        (lambda f: f["types"][0]["constructors"][0].update(fields=[[[[]] * 2] * 3, "x"]), "wanted an integer"),
        (lambda f: f.update(words=f["words"][1:]), "not every object has one argument word"),
        (lambda f: f["words"].append(["result", 1]), "argument word (result, 1) refers to nothing"),
        (lambda f: f["results"][0].update(name=3), "wanted a string"),
        (lambda f: f.update(types=7), "wanted an array"),
    ],
)  # fmt: skip
def test_forged_data_types(tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "lists.legato"
    lists.same().save(path)
    wrong = forged(path, tmp_path, lambda m: change(m["program"]["functions"]["main"]))
    assert message in message_of(wrong)


def test_texts() -> None:
    assert repr(cells([1, 2])) == "Cons(1, Cons(2, Nil()))"
    assert repr(cells(range(10**5))).endswith("…")
    assert repr(leaf(1, 2)) == "Leaf(float32[2])"
    with pytest.raises(TypeError, match="Cons takes 2 fields, got 1"):
        CONS(1)
