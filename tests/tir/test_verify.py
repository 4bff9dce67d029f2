"""The verifier of loop programs: accepts what is well-formed, names what is not."""

from __future__ import annotations

import pytest
from hypothesis import given

from legato.arith.expr import Expr, Var, const, fresh, lt
from legato.base import dtype as dt
from legato.base.errors import VerifyError
from legato.tir.buffer import Buffer, Layout, Scope
from legato.tir.expr import Call, Load
from legato.tir.parser import parse_func
from legato.tir.stmt import Alloc, Barrier, For, Func, FuncKind, If, Launch, Let, LoopKind, Stmt, Store, While, block
from legato.tir.verify import verify, verify_all
from tests.tir import programs

N = fresh("n")
A = Buffer("a", (N,), dt.float32)
ZERO, ONE = const(0), const(1, dt.float32)


@given(programs.functions)
def test_well_formed_programs_pass(func: Func) -> None:
    verify(func)


def _store(b: Buffer = A, i: Expr = ZERO, value: Expr = ONE) -> Stmt:
    return Store(b, (i,), value)


I, J = fresh("i"), fresh("j")  # noqa: E741
LOCAL = Buffer("t", (const(4),), dt.float32, scope=Scope.LOCAL)
PARALLEL, VECTOR = LoopKind.PARALLEL, LoopKind.VECTOR


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (_store(i=I), "variable i is used where it is not bound"),
        (_store(Buffer("b", (N,), dt.float32)), "buffer b is used where it is not bound"),
        (_store(value=Load(LOCAL, (const(0),))), "buffer t is used where it is not bound"),
        (block(For(I, N, _store()), _store(i=I)), "variable i is used where it is not bound"),
        (block(For(I, N, _store()), For(I, N, _store())), "i is bound twice"),
        (block(Alloc(LOCAL, _store()), Alloc(LOCAL, _store())), "t is bound twice"),
        (For(N, const(3), _store()), "n is bound twice"),
        (For(Var("v", dt.int32), N, _store()), "the loop variable v has dtype int32, wanted index"),
        (For(I, const(3, dt.int32), _store()), "the extent has dtype int32, wanted index"),
        (If(N, _store()), "the condition has dtype index, wanted bool"),
        (Let(Var("v", dt.int32), N, _store()), "v has dtype int32, its value has index"),
        (_store(value=N), "the value for a has dtype index, wanted float32"),
        (Store(A, (), ONE), "a has 1 dimensions, got 0 subscripts"),
        (_store(i=const(1, dt.int32)), "a subscript of a has dtype int32, wanted index"),
        (_store(value=Call("gamma", (ONE,), dt.float32)), "there is no intrinsic gamma"),
        (For(I, N, _store(), VECTOR), "the vector loop over i has an extent that is not literal"),
        (For(I, N, For(J, N, _store(), PARALLEL), PARALLEL),
         "the parallel loop over j is inside the parallel loop over i"),
        (For(I, const(4), For(J, N, _store(), PARALLEL), VECTOR),
         "the parallel loop over j is inside the vector loop over i"),
        (block(For(I, N, _store(), PARALLEL), _store()),
         "a store to a is outside the parallel loop: every thread does it"),
        (Alloc(LOCAL, For(I, N, _store(LOCAL), PARALLEL)),
         "threads share t: it is allocated outside the parallel loop"),
        (block(For(I, N, _store(), PARALLEL), For(J, N, _store(value=Load(A, (J,)) + ONE), PARALLEL)),
         "the parallel loop over j reads a, which the one over i writes"),
        (While(lt(N, 3), For(I, N, _store(), PARALLEL)), "the parallel loop over i is inside a while"),
        (While(lt(N, 3), Barrier()), "a barrier is inside a while: not all threads would come to it"),
        (For(I, const(4), While(lt(N, 3), _store()), VECTOR), "this stands in a vector loop"),
        (Launch((A,), "k"), "a kernel has no Launch"),
        (Alloc(Buffer("r", (N,), dt.int8, scope=Scope.REGISTER), _store()),
         "the register buffer r has a shape that is not literal"),
        (Alloc(Buffer("r", (J,), dt.int8), _store()), "variable j is used where it is not bound"),
        (Alloc(Buffer("r", (N,), dt.int8, Layout((1,))), _store()), "the layout of r does not fit its rank, 1"),
    ],
)  # fmt: skip
def test_malformed_kernels(body: Stmt, message: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(Func("k", (A, N), body))
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("func", "message"),
    [
        (Func("k", (A,), _store()), "variable n is used where it is not bound"),
        (Func("k", (A, N, N), _store()), "n is bound twice"),
        (Func("k", (Var("x", dt.int32),), block()), "parameter x has dtype int32, wanted index"),
        (Func("k", (LOCAL,), block()), "parameter t is a local buffer, wanted a global one"),
        (Func("k", (A, N), For(I, N, _store(), PARALLEL), FuncKind.HOST), "a host function has no parallel loops"),
        (Func("k", (A, N), Launch((const(1, dt.int8),), "f"), FuncKind.HOST),
         "argument 1i8 has dtype int8, wanted index"),
    ],
)  # fmt: skip
def test_malformed_functions(func: Func, message: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(func)
    assert caught.value.message == message


def kernel(body: str) -> Func:
    return parse_func(f"kernel @k(a: Buffer[(n,), float32], b: Buffer[(n,), float32], n: index) {{ {body} }}")


@pytest.mark.parametrize(
    "body",
    [
        "parallel i in 0..n { a[i] = 1f; } barrier; parallel j in 0..n { b[j] = a[j]; }",
        """for t in 0..n {
             parallel i in 0..n { a[i] = b[i]; }
             barrier;
             parallel j in 0..n { b[j] = a[j]; }
             barrier;
           }
           parallel k in 0..n { a[k] = b[k]; }""",
    ],
)
def test_barriers_part_parallel_loops(body: str) -> None:
    verify(kernel(body), final=True)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("""for t in 0..n {
              parallel i in 0..n { a[i] = 1f; }
              barrier;
              parallel j in 0..n { b[j] = a[j]; }
            }""", "the parallel loop over j reads a, which the one over i writes"),  # of the next t
        ("""parallel i in 0..n { a[i] = 1f; }
            for t in 0..n { barrier; }
            parallel j in 0..n { b[j] = a[j]; }""", "the parallel loop over j reads a, which the one over i writes"),
        ("parallel i in 0..n { barrier; }",
         "a barrier is inside the parallel loop over i: not all threads would come to it"),
        ("vector i in 0..4 { barrier; }",
         "a barrier is inside the vector loop over i: not all threads would come to it"),
        ("if n < 3 { barrier; }", "a barrier is inside an if: not all threads would come to it"),
        ("barrier; check n < 3 else 0;",
         "a kernel with barriers has no checks: a thread that left would be waited for"),
        ("parallel i in 0..n { a[i] = 1f; } for t in 0..index(a[0]) { barrier; }",
         "how often threads come to a barrier depends on a, which the kernel writes"),
    ],
)  # fmt: skip
def test_misplaced_barriers(body: str, message: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(kernel(body))
    assert caught.value.message == message


def test_host_functions_have_no_barriers() -> None:
    with pytest.raises(VerifyError, match="a host function has no barriers"):
        verify(Func("h", (), Barrier(), FuncKind.HOST))


def test_local_memory_may_be_filled_by_every_thread() -> None:
    verify(
        parse_func("""
        kernel @k(a: Buffer[(n,), float32], n: index) {
          alloc t: Buffer[(4,), float32, scope=local];
          t[0] = 1f;
          parallel i in 0..n { alloc u: Buffer[(1,), float32, scope=local]; u[0] = t[0]; a[i] = u[0]; }
          parallel i in 0..n { a[i] = 2f; }
        }
    """)
    )


def test_what_code_generation_needs() -> None:
    func = Func("k", (A, N), Alloc(Buffer("t", (N,), dt.int8, scope=Scope.LOCAL), _store()))
    verify(func)
    with pytest.raises(VerifyError, match="t lies on the stack and has a shape that is not literal"):
        verify(func, final=True)
    func = Func("k", (A, N), Alloc(Buffer("t", (N,), dt.int8), _store()))
    with pytest.raises(VerifyError, match="a kernel cannot allocate global memory, and t is global"):
        verify(func, final=True)


KERNEL = "kernel @k(a: Buffer[(n, 4), float32, order=(1, 0)], n: index) { }"


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("launch @q(n);", "there is no kernel @q"),
        ("invoke @k(n);", "there is no host @k"),
        ("launch @k(n);", "@k takes 2 arguments, got 1"),
        ("launch @k(n, n);", "parameter a of @k is float32 of rank 2, order (1, 0), got a scalar of index"),
        ("launch @k(x, n);",
         "parameter a of @k is float32 of rank 2, order (1, 0), got float32 of rank 2, order (0, 1), "
         "halo [(0, 0), (1, 1)]"),
    ],
)  # fmt: skip
def test_calls_must_fit(host: str, message: str) -> None:
    head = "host @main(x: Buffer[(n, 4), float32, halo=((0, 0), (1, 1))], n: index)"
    functions = {"k": parse_func(KERNEL), "main": parse_func(f"{head} {{ {host} }}")}
    verify(functions["main"])
    with pytest.raises(VerifyError) as caught:
        verify_all(functions)
    assert caught.value.message == message


def test_the_whole_message() -> None:
    func = parse_func("kernel @k(n: index) { for i in 0..n { vector j in 0..n { } } }", "k.tir")
    with pytest.raises(VerifyError) as caught:
        verify(func)
    assert str(caught.value) == (
        "malformed program: the vector loop over j has an extent that is not literal\n"
        "  at k.tir:1:1\n"
        "  in kernel @k\n"
        "  at vector j in 0..n {"
    )
