"""What was lowered before is found again, and is just what would have been made."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from legato import assemble
from legato.arith.expr import fresh
from legato.assemble import KERNEL, Assembler
from legato.base import dtype as dt
from legato.base.precision import Precision
from legato.base.target import host
from legato.codegen.cache import KernelCache
from legato.codegen.link import Image, link
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.ir.expr import Call, Function, GlobalVar, Tuple, Var, constant
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import tensor_type
from legato.lower.describe import describe
from legato.lower.functions import lower_functions
from legato.lower.host import lower_hosts
from legato.lower.hosts.program import HostProgram
from legato.ops import table
from legato.pipelines import DEFAULT
from legato.runtime.parts import constant_offsets
from legato.transform.pass_ import Observer, run
from tests.graphs import Program, called, programs
from tests.programs.settings import examples

RNG = np.random.default_rng(5)


class Made:
    """A program as far as it goes before it is loaded, with what was found in the cache."""

    def __init__(
        self,
        module: Module,
        assembler: Assembler,
        precision: Precision = Precision.DEFAULT,
        *,
        assign_layouts: bool = True,
    ) -> None:
        fused = run(module, DEFAULT, Observer())
        shelf = assembler.shelf(table())
        self.lowered = lower_functions(fused, assembler.target, precision, shelf, assign_layouts=assign_layouts)
        self.program: HostProgram = lower_hosts(self.lowered, assembler.target)
        constants = [(name, np.ascontiguousarray(node.data)) for name, node in self.program.constants.items()]
        self.emitted = assembler.emit(self.program, constant_offsets(constants))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                assemble, "_compiler", lambda build: assembler.compiler
            )  # the sources did not change meanwhile
            self.objects = assembler.compile(self.emitted, self.lowered, self.program)
        self.constants = [(name, a.shape, a.dtype, a.tobytes()) for name, a in constants]

    @property
    def image(self) -> Image:
        """The linked code."""
        exports = [*self.program.functions, *self.program.facts]
        objects = [*self.objects.kernels.values(), *self.objects.hosts]
        return link(objects, exports, [{KERNEL: name} for name in self.objects.kernels])

    @property
    def facts(self) -> str:
        """What is known of the kernels."""
        return json.dumps([[name, f.to_json()] for name, f in self.program.facts.items()])

    @property
    def is_all_found(self) -> bool:
        """True if nothing was lowered, emitted or compiled."""
        return (
            not self.program.kernels
            and not self.objects.compiled
            and not self.lowered.groups.fresh
            and self.emitted.found is not None
        )

    def requires_same(self, other: Made) -> None:
        """Every byte of code and constants is the same, and every fact."""
        assert self.image == other.image
        assert self.constants == other.constants
        assert self.facts == other.facts


def assembler(folder: str | Path, **fields: Any) -> Assembler:
    return replace(Assembler(host(), KernelCache(Path(folder), 1 << 30), "this compiler"), **fields)


def net(batch: Any = 1, channels: int = 16, scale: float = 0.5, size: int = 12) -> Module:
    """Padding, packed weights, Winograd's transforms, a residual, a scalar, a result of two tensors."""
    b = Builder()
    x = Var("x", ty=tensor_type((batch, channels, size, size), dt.float32))
    at: Any = x
    for _ in range(4):
        weight = constant(RNG.standard_normal((channels, channels, 3, 3)).astype(np.float32))
        conv = b.call("nn.conv2d", at, weight, channels=channels, kernel_size=(3, 3), padding=(1, 1, 1, 1))
        at = b.call("nn.relu", b.call("add", conv, at))
    pooled = b.call("nn.max_pool2d", at, pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1))
    halved = b.call("split", b.call("multiply", pooled, constant(scale)), indices_or_sections=2, axis=1)
    both = b.call("concatenate", halved, axis=1)
    soft = b.call("nn.softmax", both, axis=1)
    return infer(Module.from_expr(Function((x,), soft)))


@examples(8, fuzz=False)
@given(programs(steps=8, limit=512))
def test_found_is_what_would_be_made(program: Program) -> None:
    module = called(program).module
    with TemporaryDirectory() as folder:
        alone = Made(module, assembler(folder, compiler=None))
        first, second = Made(module, assembler(folder)), Made(module, assembler(folder))
    assert second.is_all_found
    alone.requires_same(first)
    alone.requires_same(second)


@pytest.mark.parametrize(
    ("batch", "channels", "size"), [(1, 16, 12), (fresh("n"), 16, 12), (1, 64, 28)], ids=["static", "symbolic", "large"]
)
def test_packed_constants_and_halos(batch: Any, channels: int, size: int, tmp_path: Path) -> None:
    module = net(batch, channels, size=size)
    alone = Made(module, assembler(tmp_path, compiler=None))
    first, second = Made(module, assembler(tmp_path)), Made(module, assembler(tmp_path))
    assert not first.program.found
    assert second.is_all_found
    assert second.objects.compiled == 0
    alone.requires_same(first)
    alone.requires_same(second)


def test_equal_groups_are_lowered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import legato.lower.schedule as scheduling

    calls: list[Any] = []
    original = scheduling.schedule
    monkeypatch.setattr(scheduling, "schedule", lambda *args: (calls.append(args), original(*args))[1])
    module = net()
    Made(module, assembler(tmp_path, compiler=None))
    groups = [v for v in str(run(module, DEFAULT, Observer())).splitlines() if "Primitive=1" in v]
    assert len(calls) == len(groups) - 2  # the second and the third convolution are the same, the split is a view
    Made(module, assembler(tmp_path))
    before = len(calls)
    Made(module, assembler(tmp_path))
    assert len(calls) == before


def test_programs_share_what_they_have_in_common(tmp_path: Path) -> None:
    Made(net(), assembler(tmp_path))
    module = net(scale=0.25)
    other = Made(module, assembler(tmp_path))
    assert other.program.found
    assert other.program.kernels  # those of the group with the literal
    other.requires_same(Made(module, assembler(tmp_path, compiler=None)))
    assert not Made(net(size=13), assembler(tmp_path)).is_all_found


@pytest.mark.parametrize(
    "fields",
    [{"compiler": "another"}, {"target": replace(host(), l2_bytes=1)}, {"cache": None}],
    ids=lambda f: next(iter(f)),
)
def test_what_makes_a_difference_is_part_of_the_key(
    fields: dict[str, Any], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    Made(net(), assembler(tmp_path))
    if "cache" in fields:
        fields = {"cache": KernelCache(tmp_path_factory.mktemp("other"), 1 << 30)}
    assert not Made(net(), assembler(tmp_path, **fields)).program.found


def test_the_compiler_is_its_sources_its_llvm_and_the_kind_of_code(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {assemble._compiler(""), assemble._compiler("bounds")}
    for name in ("sources_digest", "toolchain"):
        with monkeypatch.context() as patch:
            patch.setattr(assemble, name, lambda: "another")
            found.add(assemble._compiler(""))
            patch.setattr(assemble, name, lambda: None)
            assert assemble._compiler("") is None
    assert len(found - {None}) == 4


def test_precision_is_part_of_the_key(tmp_path: Path) -> None:
    Made(net(), assembler(tmp_path))
    assert not Made(net(), assembler(tmp_path), Precision.EXACT).program.found


def test_whether_layouts_are_assigned_is_part_of_the_key(tmp_path: Path) -> None:
    module = net()
    first, plain = (Made(module, assembler(tmp_path), assign_layouts=on) for on in (True, False))
    assert not plain.program.found
    assert plain.image != first.image
    Made(module, assembler(tmp_path), assign_layouts=False).requires_same(plain)


def test_damaged_entries_are_made_again(tmp_path: Path) -> None:
    module = net()
    first = Made(module, assembler(tmp_path))
    for n, path in enumerate(sorted(tmp_path.glob("*.bin"))):
        data = bytearray(path.read_bytes())
        if n % 3 == 0:
            data[-40] ^= 1
        path.write_bytes(data[: len(data) // 2] if n % 3 == 1 else data)
    again = Made(module, assembler(tmp_path))
    assert again.program.kernels
    first.requires_same(again)
    assert Made(module, assembler(tmp_path)).is_all_found


def test_entries_in_another_form_are_made_again(tmp_path: Path) -> None:
    module, made = net(), assembler(tmp_path)
    first = Made(module, made)
    for fresh_one in first.lowered.groups.fresh:
        made.cache.put(fresh_one.key, b"\x02\0\0\0\0\0\0\0{}")
    first.requires_same(Made(module, made))


def test_functions_with_dims_of_the_same_name(tmp_path: Path) -> None:
    y = Var("y", ty=tensor_type((fresh("n"), 16, 12, 12), dt.float32))
    functions = {GlobalVar(name): net(fresh("n"))["main"] for name in ("f", "g")}
    main = Function((y,), Tuple(tuple(Call(gv, (y,)) for gv in functions)))
    module = infer(Module({**functions, GlobalVar("main"): main}))
    first = Made(module, assembler(tmp_path))
    kept = 0
    for entry in tmp_path.glob("*.bin"):  # their structure is not known, what they become is
        if b"structure\n" in entry.read_bytes()[:60]:
            entry.unlink()
            kept += 1
    assert kept
    first.requires_same(Made(module, assembler(tmp_path)))


def test_operators_of_others_are_not_kept(tmp_path: Path) -> None:
    relu: Op = table()["nn.relu"]
    own = replace(relu, compute=lambda x, ty: relu.compute(x, ty), doc="not the package's")  # type: ignore[misc]
    x = Var("x", ty=tensor_type((4, 5), dt.float32))
    module = infer(Module.from_expr(Function((x,), Builder().call(own, x))))
    first = Made(module, assembler(tmp_path))
    assert not first.lowered.groups.fresh
    assert Made(module, assembler(tmp_path)).program.kernels


def test_descriptions() -> None:
    def text(ty: Any, name: str = "x", op: str = "nn.relu") -> str:
        x = Var(name, ty=tensor_type(ty, dt.float32))
        function = infer(Module.from_expr(Function((x,), Builder().call(op, x))))["main"]
        assert isinstance(function, Function)
        return describe(function, table()).text

    n, m = fresh("n"), fresh("m")
    assert text((n, 3)) == text((n, 3), name="y")
    different = [(4, 3), (3, 4), (n, 3), (m, 3), (fresh("n", hi=9), 3), (n, m), (m, n), (n, n), (n, n * 2)]
    texts = [text(ty) for ty in different] + [text((4, 3), op="exp")]
    assert len(set(texts)) == len(texts)
    assert text((n, 3)) == (
        "p float32[[['var', 0]] 3]\nop nn.relu\n1 0 None float32[[['var', 0]] 3]\nresult 2 {}\ndims 'n':0:0..None"
    )


def test_artifacts_are_the_same_from_an_empty_a_full_and_no_cache(tmp_path: Path) -> None:
    source = tmp_path / "net.relay"
    source.write_text(
        '#[version = "0.0.5"]\n'
        "def @main(%x: Tensor[(4, 9), float32], %w: Tensor[(6, 9), float32]) {\n"
        "  nn.softmax(nn.relu(nn.dense(%x, %w)) * 2f)\n}\n"
    )
    digests, compiled = set(), []
    for limit in (1 << 30, 1 << 30, 0):
        environment = {**os.environ, "LEGATO_CACHE_DIR": str(tmp_path / "cache"), "LEGATO_CACHE_BYTES": str(limit)}
        command = [sys.executable, "-m", "legato", "compile", str(source), "-o", str(tmp_path / "a"), "--json"]
        done = subprocess.run(command, check=True, capture_output=True, env={**environment, "LEGATO_VERIFY": "0"})
        compiled.append(json.loads(done.stdout)["compiled"])
        digests.add(hashlib.sha256((tmp_path / "a").read_bytes()).hexdigest())
    assert len(digests) == 1
    assert compiled[0] == compiled[2] > compiled[1] == 0
