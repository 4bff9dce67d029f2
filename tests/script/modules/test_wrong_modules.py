"""Wrong scripts of data types, matches, cells and host functions: one typed error each, with its place."""

from __future__ import annotations

import pytest

from legato.base.errors import CompileError
from legato.script import parse

KERNEL = '@T.prim_func{}\ndef k(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):\n    {}\n'
GRAPH = '@R.function{}\ndef f(x: R.Tensor((4,), "float32")):\n    {}\n'
MODULE = ('@I.ir_module\nclass Module:\n    {}\n    @R.function\n    def f(x: R.Tensor((4,), "float32")):\n'
          "        cls = Module\n        {}\n")  # fmt: skip

HOST = {
    "T.launch(3, x)": "a kernel is 3, wanted a name",
    'T.launch("k", "a")': "got 'a', wanted a scalar",
    'T.host_op("a", x)': "an operator is 'a', wanted a number from 0 on",
    "T.retain(x)": "got a Buffer, wanted a scalar",
    "T.release(3)": "got a scalar of index, wanted a handle",
    "v = T.view(3, 0, (4,))": "T.view is of a buffer",
    'v = T.object((1,), "handle", tag="a", pointers=0)': "a tag is 'a', wanted a number from 0 on",
    "match 3:\n        case 'a':\n            pass": "a case has a number; the last one may be _",
    "match x[0]:\n        case 1:\n            pass": "the value has dtype float32, wanted int32 or index",
}
GRAPHS = {
    "match x:\n        case 3:\n            return x": "a case has no such pattern",
    "match x:\n        case y if y:\n            return y": "a case has no condition",
    "match x:\n        case (a, b):\n            return a": "the types differ",
    "match x:\n        case R.add(a):\n            return a": "a case names a constructor",
    "return R.ref_read(x)": "ref_read of something that is not a reference",
    'y: R.TypeVar("a", "b") = x\n    return y': "a type variable of kind 'b'",
    'y: R.Data("List") = x\n    return y': "nothing says what type List is",
    'y: R.Tensor((4,), "float32")\n    return x': "AnnAssign has no meaning in a graph function",
    "y = R.op.nosuch\n    return R.ref(y)": "no operator is called 'nosuch'",
}
HEADS = {
    "L = R.data_type(3)": "R.data_type takes a dictionary",
    'L = R.data_type({"A": 3})': "A is 3, wanted a tuple",
    "L = R.data_type({3: ()})": "a constructor is 3, wanted a name",
    'L = R.data_type({"A": ("Q",)})': "a str is no annotation",
    'L = R.data_type({"A": (R.TypeVar("Q"),)})': "nothing says what type Q is",
    'L = R.data_type({"A": ()}, ("A",))': "type_params of a data type",
    'L = R.data_type({"A": ()}, name=3)': "the name of a data type is 3, wanted a name",
    'L = R.data_type({"A": ()}, bounds=3)': "bounds: got 3, wanted a dictionary",
    'L = R.data_type({"A": ()})\n    Q = R.data_type({"A": ()}, name="L")': "two data types have one name",
    'f = R.data_type({"A": ()})': "two things are called f",
    "a = R.add(3)": "add: got 1 arguments",
    "I.module_attrs(3)": "'int' object is not iterable",
    'I.module_constants({"a": "b"})': "'b' is no value of the graph",
}
OPTIONS = {
    "(type_params=3)": "type_params is 3, wanted a tuple",
    "(bounds=3)": "bounds: got 3, wanted a dictionary",
    '(bounds={"n": 3})': "the range of n is 3, wanted a tuple",
    "(form=[])": "a function of form []",
    "(name=3)": "the name of a function is 3, wanted a name",
}
CASES = [
    *((KERNEL.format("(host=True)", body), message) for body, message in HOST.items()),
    (KERNEL.format("", 'T.launch("k", x)'), "a kernel has no Launch"),
    (KERNEL.format('(host=True, constants={"q": "w"})', "pass"), "constants: q"),
    (KERNEL.format('(constants={"x": "w"})', "pass"), "constants: k"),
    (KERNEL.format("(host=True, constants=3)", "pass"), "constants: got 3, wanted a dictionary"),
    *((GRAPH.format("", body), message) for body, message in GRAPHS.items()),
    *((GRAPH.format(given, "return x"), message) for given, message in OPTIONS.items()),
    *((MODULE.format(head, "return x"), message) for head, message in HEADS.items()),
    (MODULE.format('L = R.data_type({"A": ()})', "return cls.L.B()"), "L has no constructor B"),
    (MODULE.format('L = R.data_type({"A": ()})', "return cls.L.A(x)"), "got 1 arguments, wanted 0"),
    (MODULE.format('L = R.data_type({"A": ()})', "return cls.L"), "is no value of the graph"),
    (MODULE.format('L = R.data_type({"A": ()})', "return cls.L.__class__"), "has no __class__"),
]


@pytest.mark.parametrize(("script", "message"), CASES)
def test_the_error_has_a_place(script: str, message: str) -> None:
    with pytest.raises(CompileError) as found:
        parse(script)
    assert message in str(found.value)
    assert "at <script>:" in str(found.value)
