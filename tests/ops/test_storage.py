"""Dtypes that only store: who takes them moves their codes, whatever these are; everybody else says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato.base import dtype as dt
from legato.base.dtype import STORAGE_DTYPES, DType
from legato.base.errors import RunError, TypeCheckError
from legato.base.storage import decoded, largest
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.attrs import make_attrs
from legato.ir.call_tir import CALL_TIR
from legato.ir.equal import alpha_equal
from legato.ir.expr import Function, Var
from legato.ir.files import load_text, save_text
from legato.ir.json_load import load_json
from legato.ir.json_save import save_json
from legato.ir.module import Module
from legato.ir.op import Op, Sample
from legato.ir.types import tensor_type
from legato.ops import table
from tests.ops.test_ops import OPS, arguments, call, leaves

CONVERTING = ("call_te", "cast", "cast_like", "equal", "not_equal", "reinterpret")


def takes_codes(op: Op, sample: Sample) -> bool:
    """Whether a sample moves floats that may as well be codes: a number to be filled in has another code than a byte,
    and a dtype that is named is not that of codes."""
    attrs = make_attrs(op, sample.attrs)
    if not op.stores(attrs) or sample.attrs.get("pad_value") or sample.attrs.get("dtype") == "float32":
        return False
    return any(dt.dtype(a.dtype).is_float for a in leaves(tuple(arguments(op, sample))))


MOVING = [
    pytest.param(op, n, s, id=f"{op.name}-{n}")
    for op in OPS
    if op.storage and op is not CALL_TIR and op.name not in CONVERTING and not op.name.startswith("strings.")
    for n, s in enumerate(op.samples)
    if takes_codes(op, s)
]
COMPUTING = [op for op in OPS if not op.storage and op is not CALL_TIR]


def as_codes(value: Any, kind: DType, rng: np.random.Generator) -> Any:
    """The floats of a sample as random codes; what else it has stays."""
    if isinstance(value, tuple):
        return tuple(as_codes(v, kind, rng) for v in value)
    if not dt.dtype(value.dtype).is_float:
        return value
    return np.asarray(rng.integers(0, 1 << kind.width, value.shape, np.uint8)).view(kind.numpy)


def as_bytes(value: Any) -> Any:
    """Codes as uint8."""
    if isinstance(value, tuple):
        return tuple(map(as_bytes, value))
    return value.view(np.uint8) if dt.dtype(value.dtype).is_storage else value


def made(op: Op, values: list[Any], sample: Sample, *, compiled: bool) -> list[Any]:
    params, node = call(op, values, sample)
    module = Module.from_expr(Function(tuple(params), node))
    if not compiled:
        return leaves(evaluate(module, values))
    return leaves(legato.compile(module)(*leaves(tuple(values))))


@pytest.mark.parametrize(("op", "n", "sample"), MOVING)
@pytest.mark.shared(2)
def test_codes_are_moved(op: Op, n: int, sample: Sample) -> None:
    """op(codes) = codes of op(bytes), interpreted, and of one sample each compiled."""
    kinds = (STORAGE_DTYPES[n % len(STORAGE_DTYPES)], dt.dtype("int4"))
    for kind in kinds:
        values = [as_codes(v, kind, np.random.default_rng(n)) for v in arguments(op, sample)]
        wanted = made(op, [as_bytes(v) for v in values], sample, compiled=False)
        for compiled in (False, True)[: 1 + (n == 0)]:
            for got, want in zip(made(op, values, sample, compiled=compiled), wanted, strict=True):
                assert as_bytes(got).tobytes() == want.tobytes()


@pytest.mark.parametrize("op", COMPUTING, ids=lambda op: op.name)
def test_nobody_else_takes_them(op: Op) -> None:
    """All of its floats as codes: the sentence says to cast them first."""
    for sample in op.samples[:2]:
        given = arguments(op, sample)
        values = [as_codes(v, dt.dtype("float8_e5m2"), np.random.default_rng(0)) for v in given]
        if not any(dt.dtype(v.dtype).is_storage for v in leaves(tuple(values))):
            continue
        with pytest.raises(TypeCheckError) as caught:
            made(op, values, sample, compiled=False)
        assert caught.value.message == f"{op.name}: computes with no float8_e5m2, which only stores: cast first"


def test_nobody_else_gives_them() -> None:
    with pytest.raises(TypeCheckError, match="zeros: gives no int4, which only stores: cast first"):
        legato.parse('def @main() { zeros(shape=(3,), dtype="int4") }')


def test_scatters_that_add_take_none() -> None:
    text = """def @main(%x: Tensor[(4,), int4], %i: Tensor[(2,), int64], %u: Tensor[(2,), int4]) {
      scatter_elements(%x, %i, %u, axis=0, reduction="REDUCTION")
    }"""
    assert infer(legato.parse(text.replace("REDUCTION", "update")))
    with pytest.raises(TypeCheckError, match="scatter_elements: computes with no int4"):
        infer(legato.parse(text.replace("REDUCTION", "add")))


@pytest.mark.parametrize("kind", STORAGE_DTYPES, ids=str)
def test_equality_is_of_numbers(kind: DType) -> None:
    """Zeros of both signs are equal, NaN equals nothing, and the bits beside a code are not looked at."""
    x = np.arange(256, dtype=np.uint8).view(kind.numpy)
    module = legato.parse(f"""def @main(%x: Tensor[(256, 1), {kind}], %y: Tensor[(256,), {kind}]) {{
      (equal(%x, %y), not_equal(%x, %y))
    }}""")
    numbers = decoded(x)
    wanted = numbers[:, None] == numbers
    for found in (evaluate(module, [x[:, None], x]), legato.compile(module)(x[:, None], x)):
        np.testing.assert_array_equal(found[0], wanted)
        np.testing.assert_array_equal(found[1], ~wanted)


@pytest.mark.parametrize("kind", STORAGE_DTYPES, ids=str)
def test_programs_have_them(kind: DType, tmp_path: Path) -> None:
    """As parameters, constants and results: in text, in JSON, as a compiled program, and as one that was stored."""
    rng = np.random.default_rng(1)
    codes, more = (rng.integers(0, 1 << kind.width, (500, 3), np.uint8).view(kind.numpy) for _ in range(2))
    x = Var("x", ty=tensor_type((500, 3), kind))
    b = Builder()
    chosen = b.where(b.constant(np.array([True, False, True])), x, b.constant(more, kind))
    result = b.tuple_([chosen, b.cast(chosen, dtype="float32"), b.cast(b.cast(x, dtype="float16"), dtype=kind),
                       b.take(x, b.constant(np.int64(2)), axis=0), b.constant(more[0, 0], kind)])  # fmt: skip
    module = infer(Module.from_expr(Function((x,), result)))
    wanted = [as_bytes(a).tobytes() for a in leaves(evaluate(module, [codes]))]
    save_text(module, tmp_path / "program.relay")
    loaded = load_text(tmp_path / "program.relay", ops=table())
    for again in (loaded, load_json(save_json(module), ops=table())):
        assert alpha_equal(again, module)
        assert [as_bytes(a).tobytes() for a in leaves(evaluate(again, [codes]))] == wanted
    program = legato.compile(module)
    program.save(tmp_path / "program.lgo")
    for run in (program, legato.load(tmp_path / "program.lgo")):
        assert [as_bytes(a).tobytes() for a in run(codes)] == wanted
        assert [as_bytes(a).tobytes() for a in run(codes.view("V1"))] == wanted  # as NumPy's files have them
        with pytest.raises(RunError, match="wrong dtype"):
            run(codes.view(np.uint8))


@pytest.mark.parametrize("name", [d.name for d in STORAGE_DTYPES if d.name.startswith("float8")])
def test_torch(name: str) -> None:
    """PyTorch rounds what is in range to the same codes, and its tensors are arguments as they are."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    x = (rng.standard_normal(4096) * 2.0 ** rng.integers(-20, 20, 4096)).astype(np.float32)
    x = np.clip(x, 0.5 if name == "float8_e8m0fnu" else -largest(dt.dtype(name)), largest(dt.dtype(name)))
    codes = torch.from_numpy(x).to(getattr(torch, name))
    ty = f"Tensor[(4096,), {name}]"
    run = legato.compile(
        legato.parse(f"""def @main(%x: Tensor[(4096,), float32], %c: {ty}) {{
      (cast(%x, dtype="{name}"), cast(%c, dtype="float32"))
    }}""")
    )
    made, numbers = run(x, codes)
    np.testing.assert_array_equal(made.view(np.uint8), codes.view(torch.uint8).numpy())
    np.testing.assert_array_equal(numbers, codes.float().numpy())
