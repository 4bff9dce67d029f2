"""A tour: one program from its text to machine code, each step by hand with the part of the compiler that does it.

    python docs/tour.py

The tests run this file. What it claims it asserts; what it prints is short.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import legato
from legato.base.node import post_order, transform
from legato.base.target import target
from legato.codegen.compile import assembly, compile_object
from legato.codegen.emit import emit_module
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import Call, Constant, Expr, Function
from legato.ir.module import Module
from legato.ir.op import Fusion, Op, Relation
from legato.ir.parser import parse
from legato.ir.types import TensorType, tensor_type
from legato.lower.functions import lower_functions
from legato.ops import table
from legato.pipelines import DEFAULT
from legato.te.lower import to_tir
from legato.te.tensor import Tensor, placeholder, reduce
from legato.tir import interp as tir_interp
from legato.tir.buffer import Scope
from legato.tir.schedule import cache_write, fission, parallel, reorder, split, unroll, vectorize
from legato.tir.simplify import simplify
from legato.tir.stmt import Func
from legato.tir.walk import loops
from legato.transform.pass_ import FunctionPass, run


def show(title: str, text: object, lines: int = 12) -> None:
    """Prints a title and the first lines of a text."""
    shown = [line for line in str(text).splitlines() if line]
    print(f"== {title}", *shown[:lines], *["…"] * (len(shown) > lines), sep="\n", end="\n\n")


# ---- 1. An operator is one record
#
# The compiler knows no operators, only records: which type an operator has, what it means, which loops compute it.
# This is a matrix product, whole.


def product_type(relation: Relation, a: TensorType, b: TensorType) -> TensorType:
    """[m, k] and [k, n] give [m, n]; `same` is an equation that the solver may use in both directions."""
    relation.same(a.shape[1], b.shape[0], "the summed dim")
    return TensorType((a.shape[0], b.shape[1]), a.dtype)


def product_loops(a: Tensor, b: Tensor, out: TensorType) -> Tensor:
    """One element of the result, as a sum over k."""
    return reduce("sum", out.shape, a.shape[1:], lambda i, j, k: a[i, k] * b[k, j], "product")


product = Op(
    "tour.product", ("a", "b"), product_type, lambda a, b: a @ b, compute=product_loops, fusion=Fusion.CONTRACTION,
    doc="The matrix product.",
)  # fmt: skip

# ---- 2. A text becomes a graph
#
# Nodes are immutable, and the same object where they are the same: %0 is used twice and is one node. The dim n is a
# name, so the program is for any number of rows.

program = parse(
    """#[version = "0.0.5"]
    def @main(%x: Tensor[(n, 16), float32], %w: Tensor[(16, 48), float32], %b) {
      %0 = nn.bias_add(tour.product(%x, %w), %b) * 1f;
      nn.relu(%0) + tanh(%0 * 1f)
    }""",
    ops={**table(), product.name: product},
)
calls = [node for node in post_order([program["main"].body]) if isinstance(node, Call)]
assert len([node for node in calls if node.op is product]) == 1
assert all(node.ty is None for node in calls)

# ---- 3. Types: every node gets a shape and a dtype before anything runs
#
# Inference unifies types and asks the operators' relations until they have nothing more to say. What it learns goes
# both ways: nn.bias_add gives %b, which states nothing, its type.

typed = infer(program)
show("typed", typed)
assert str(typed["main"].params[2].ty) == "Tensor[(48,), float32]"

# ---- 4. The meaning: an interpreter, slow and obvious
#
# Operators are their NumPy references, the rest is one rule per kind of node (legato/interp/rules.py). All that follows
# changes how the result is computed; none of it may change the result.

rng = np.random.default_rng(0)
x, w, b = (rng.standard_normal(shape).astype("float32") for shape in ((12, 16), (16, 48), (48,)))
wanted = evaluate(typed, [x, w, b])
assert np.allclose(wanted, np.maximum(x @ w + b, 0) + np.tanh(x @ w + b), atol=1e-5)

# ---- 5. A pass is a function from module to module


@dataclass(frozen=True)
class DropOnes(FunctionPass):
    """e * 1 → e"""

    name = "drop-ones"

    def function(self, func: Function, mod: Module) -> Function:
        return replace(func, body=transform(func.body, self.rewritten))

    def rewritten(self, node: Expr) -> Expr | None:
        """The replacement of a node whose operands are rewritten already, or None."""
        if isinstance(node, Call) and node.op is table()["multiply"]:
            left, right = node.args
            if isinstance(right, Constant) and right.data.shape == () and right.data == 1 and left.ty == node.ty:
                return left
        return None


smaller = run(typed, [DropOnes()])
assert str(typed).count("multiply") == 2
assert "multiply" not in str(smaller)
assert np.array_equal(evaluate(smaller, [x, w, b]), wanted)

# ---- 6. Fusion: what can share loops becomes one primitive function
#
# The compiler's own passes are a tuple (legato/pipelines.py); Fuse, the last of them, reads the records: a contraction
# may take along what is computed from its elements. The module is still Relay, and still means the same.

fused = run(typed, DEFAULT)
show("fused", fused)
assert str(fused).count("Primitive=1") == 1
assert np.array_equal(evaluate(fused, [x, w, b]), wanted)

# ---- 7. Loops: the record says what to compute, in the plainest order

inputs = placeholder("a", (12, 16), "float32"), placeholder("b", (16, 48), "float32")
output = product_loops(*inputs, tensor_type((12, 48), "float32"))
plain = to_tir([output], inputs, "product")
show("plain loops", plain, 18)


def value(kernel: Func) -> np.ndarray:
    """The product of x and w as the loop interpreter computes it, one scalar at a time."""
    result = np.empty((12, 48), "float32")
    tir_interp.run(kernel, [x, w, result])
    return result


assert np.allclose(value(plain), x @ w, atol=1e-5)

# ---- 8. A schedule: other loops, the same values
#
# Each primitive proves that it is legal, or is a ScheduleError. Tiles of 4 rows and 16 columns; their sums are begun
# and finished by nests of their own; the sum over k goes outside, so 64 sums grow side by side in registers.

i, j, k = (loop.var for loop in loops(plain.body))
tiled, io, ii = split(plain, i, 4)
tiled, jo, ji = split(tiled, j, 16)
tiled = reorder(tiled, [io, jo, ii, ji])
tiled, start = fission(tiled, [ii, ji])
tiled = reorder(tiled, [k, ii, ji])
tiled, tile, copies = cache_write(tiled, output, jo, Scope.REGISTER)
for columns in (start[ji], ji, copies[0][1]):
    tiled = vectorize(tiled, columns)
for rows in (start[ii], ii, copies[0][0]):
    tiled = unroll(tiled, rows)
tiled = simplify(parallel(tiled, io))
show("scheduled", tiled, 30)
assert np.array_equal(value(tiled), value(plain)), "the sums are formed in the same order: the same bits"

# ---- 9. Machine code
#
# LLVM gets vectors and registers ready made; no pass of LLVM's has to find them. It may not fuse these multiplications
# and additions, which would round differently: the compiler's own kernels (11) ask for that by `fma`.

machine = target("x86-64-v3")
llvm = emit_module([tiled], machine, {})
inner = [line.strip() for line in assembly(llvm, machine).splitlines() if "mulps" in line or "addps" in line]
show("what the inner loop is made of", "\n".join(inner), 4)
assert "<16 x float>" in llvm
assert compile_object(llvm, machine)[:4] == b"\x7fELF"

# ---- 10. One module for graphs and loops
#
# A tensor program is a function like others, which `call_tir` calls with the place for its result. So the kernel above
# can be put into a program as text, compiled, and called. What is a tensor expression becomes one again, and is
# scheduled by the compiler; under "exact", which keeps the order of sums, it runs as it is written.

mixed = legato.parse(f"""#[version = "0.0.5"]
def @main(%x: Tensor[(12, 16), float32], %w: Tensor[(16, 48), float32]) {{
  nn.relu(call_tir(@product, (%x, %w), out=[Tensor[(12, 48), float32]]))
}}
{tiled}""")
assert np.array_equal(legato.compile(mixed, precision="exact")(x, w), np.maximum(value(plain), 0))
assert np.allclose(legato.compile(mixed)(x, w), np.maximum(value(plain), 0), atol=1e-5)

# ---- 11. The compiler chooses schedules by itself, from the structure of loops
#
# It has never heard of tour.product, and makes a register tile of it, with the rest of the group in its epilogue.

kernel = str(lower_functions(fused, machine).module)
assert "scope=register" in kernel
assert "tanh(" in kernel
show("the compiler's own", kernel[kernel.index("kernel") :], 24)

# ---- 12. An executable: native code for kernels and for what calls them
#
# Any number of rows, and the same bits for any number of threads. Loading the file maps it; nothing is compiled.

exe = legato.compile(typed, ops=[product])
result = exe(x, w, b)
assert np.allclose(result, wanted, atol=1e-5)
assert exe.stats["kernels"] == 1
with TemporaryDirectory() as folder:
    exe.save(Path(folder) / "tour.legato")
    for threads in (1, 2, 3):
        again = legato.load(Path(folder) / "tour.legato", threads=threads)
        assert np.array_equal(again(x, w, b), result)
assert exe(x[:5], w, b).shape == (5, 48)
print(f"compiled and interpreted are the same to {np.abs(result - wanted).max():.0e}")
