"""The page of all stages: what its JSON holds, that names of a stranger stay names, and stages themselves."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.target import host
from legato.driver import CompileOptions
from legato.ir.attrs import make_attrs
from legato.ir.expr import Call, Function, GlobalVar, Tuple, Var, constant
from legato.ir.module import Module
from legato.ir.printer import show
from legato.ir.types import tensor_type
from legato.ops import table
from legato.profile.report import KernelProfile, Profile
from legato.transform.infer_types import InferTypes
from legato.viz import Stage, graph_of, page, stages
from legato.viz.graph import contents
from legato.viz.page import _compared
from legato.viz.style import LEAST
from legato.viz.times import shares_of
from tests.viz.graphs import FUSED
from tests.viz.test_pictures import NASTY, strange

OPTIONS = CompileOptions(host())
MLP = """
#[version = "0.0.5"]
def @main(%x: Tensor[(2, 4), float32], %w: Tensor[(3, 4), float32]) {
  nn.softmax(nn.relu(nn.dense(%x, %w)) + nn.relu(nn.dense(%x, %w)))
}
"""


class Parts(HTMLParser):
    """The elements of a page with their attributes, and the text in each."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), []))
        self.open = True

    def handle_endtag(self, tag: str) -> None:
        self.open = False

    def handle_data(self, data: str) -> None:
        if self.open:
            self.found[-1][2].append(data)

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        """The attributes and text of every such element."""
        return [(attrs, "".join(text)) for name, attrs, text in self.found if name == tag]


def held(text: str) -> Any:
    """What the page holds as JSON."""
    (data,) = (content for attrs, content in Parts(text).all("script") if attrs.get("id") == "data")
    return json.loads(data)


def lines(data: Any, stage: int) -> list[str]:
    """The text of a stage, as the page makes it."""
    made = []
    for template, *numbers in data["stages"][stage]["lines"]:
        given = iter(numbers)
        made.append(re.sub("\1", lambda _, given=given: f"%{next(given)}", data["templates"][template]))
    return made


def test_stages_are_passes_that_changed_something() -> None:
    found = stages(legato.parse(MLP), OPTIONS)
    names = [stage.name for stage in found.stages]
    assert names[0] == "imported"
    assert names[-1] == "lower"
    assert {"eliminate-common", "to-a-normal", "fuse"} <= set(names)
    assert len(set(names)) == len(names)
    assert found.note == ""
    texts = [show(stage.module) for stage in found.stages]
    assert all(a.module is not b.module for a, b in itertools.pairwise(found.stages))
    assert all(a != b for a, b in itertools.pairwise(texts))


def test_what_cannot_be_compiled_is_shown_as_far_as_it_gets() -> None:
    found = stages(legato.parse("def @f(%x: float32) { %x + (1f + 2f) }"), OPTIONS)
    assert found.stages[0].name == "imported"
    assert "lower" not in [stage.name for stage in found.stages]
    assert "@main" in found.note
    text = page("m", found.stages, note=found.note)
    assert "@main" in next(content for attrs, content in Parts(text).all("div") if attrs.get("id") == "note")


def test_the_page_holds_graphs_and_texts() -> None:
    found = stages(legato.parse(MLP), OPTIONS).stages
    data = held(page("mlp.relay", found, start=2))
    assert (data["start"], [s["name"] for s in data["stages"]]) == (2, [s.name for s in found])
    for number, (stage, shown) in enumerate(zip(found, data["stages"], strict=True)):
        assert lines(data, number) == show(stage.module, metadata=False).rstrip("\n").split("\n")
        graph = graph_of(stage.module)
        assert [n[-1] for n in shown["nodes"]] == [list(n.inputs) for n in graph.nodes]
        words = [[data["strings"][k] for k in n[:3]] for n in shown["nodes"]]
        assert words == [[n.kind, n.label, n.type] for n in graph.nodes]
        drawn = sorted(u for ranks in shown["ranks"] for rank in ranks for u in rank)
        _, inner = contents(graph, frozenset({"constant"}))
        clusters = [-1 - c for members in inner for c in members]
        assert drawn == sorted([*clusters, *(n for n, v in enumerate(graph.nodes) if v.kind != "constant")])


def test_strings_and_lines_are_there_once() -> None:
    found = stages(legato.parse(MLP), OPTIONS).stages
    data = held(page("m", [*found, *found]))
    once = held(page("m", found))
    assert (data["strings"], data["templates"]) == (once["strings"], once["templates"])
    assert len(set(data["templates"])) == len(data["templates"])


def test_percent_signs_of_strings_come_back() -> None:
    x = Var("x", ty=constant(1.0).ty)
    body = Call(table()["abs"], (x,), ty=x.ty)
    func = Function((x,), body, x.ty, attrs={"note": "%05d %1 %12abc %999999999999 %0"})
    mod = Module({GlobalVar("main"): func})
    assert lines(held(page("m", [Stage("imported", mod)])), 0) == show(mod, metadata=False).rstrip("\n").split("\n")


def test_lines_are_compared_without_names() -> None:
    lines = [
        "  \1 = add(%x, \1, axis=1);", "    let %y: Tensor[(2,), float32] = add(\1, %p0, axis=1);",
        "add(%\"a b\", meta[relay.Constant][7], axis=1)", "  \1 = add(%x, \1, axis=2);", "  \1: float32 = abs(\1);",
        "    abs(meta[relay.Constant][12])", "  \1 = fn (%p0: float32, Primitive=1) -> float32 {",
        "def @main(%x: float32) {", "}",
    ]  # fmt: skip
    compared = list(map(_compared, lines))
    assert [compared.index(line) for line in compared] == [0, 0, 0, 3, 4, 4, 6, 7, 8]


def test_lines_are_compared_by_the_constants_that_they_read() -> None:
    rng = np.random.default_rng(0)
    weight, other = rng.random((3, 4), np.float32), rng.random((3, 4), np.float32)
    x = Var("x", ty=tensor_type((2, 4), "float32"))
    dense = table()["nn.dense"]

    def stage(*weights: Any) -> Stage:
        value = Tuple([Call(dense, (x, constant(w)), make_attrs(dense, {})) for w in weights])
        return Stage("s", InferTypes()(Module({GlobalVar("main"): Function((x,), value)})))

    first, same, scaled, swapped = (
        s["keys"] for s in held(page("m", [
            stage(weight, other), stage(weight.copy(), other), stage(weight * 2, other), stage(other, weight),
        ]))["stages"]
    )  # fmt: skip
    assert first == same
    assert [a != b for a, b in zip(first, scaled, strict=True)].count(True) == 1
    assert [a != b for a, b in zip(first, swapped, strict=True)].count(True) == 2


def test_lines_in_groups_read_the_constants_of_the_call() -> None:
    """Operators that come into a group are the same as before, though constants are parameters there."""
    x = Var("x", ty=tensor_type((2, 4), "float32"))
    relu, dense = table()["nn.relu"], table()["nn.dense"]
    weight = constant(np.random.default_rng(0).random((3, 4), np.float32))
    body = Call(relu, (Call(dense, (x, weight), make_attrs(dense, {})),))
    found = stages(InferTypes()(Module({GlobalVar("main"): Function((x,), body)})), OPTIONS).stages
    data = held(page("m", found))
    number = [s.name for s in found].index("fuse")
    (before,), (after,) = (
        [key for line, key in zip(lines(data, n), data["stages"][n]["keys"], strict=True) if "= nn.dense(" in line]
        for n in (number - 1, number)
    )
    assert before == after


@pytest.mark.parametrize("name", NASTY)
def test_names_of_a_stranger_stay_names(name: str) -> None:
    text = page(name, [Stage("imported", strange(name))], note=name)
    parts, plain = Parts(text), Parts(page("m", [Stage("imported", strange("f"))]))
    assert [tag for tag, _, _ in parts.found] == [tag for tag, _, _ in plain.found]
    data = held(text)
    assert {f"@{name}", f"%{name}"} <= set(data["strings"])
    text.encode()


def test_nothing_else_runs_or_is_loaded() -> None:
    text = page("m", [Stage("imported", legato.parse(FUSED))])
    parts = Parts(text)
    ((meta, _),) = ((a, t) for a, t in parts.all("meta") if a.get("http-equiv"))
    policy = str(meta["content"])
    assert policy.startswith("default-src 'none'; ")
    ((_, style),) = parts.all("style")
    (script,) = (content for attrs, content in parts.all("script") if not attrs)
    for name, content in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy
    assert f"const LEAST = {LEAST};" in script
    names = {name for _, attrs, _ in parts.found for name in attrs}
    assert not names & {"src", "href", "style"}
    assert not any(name.startswith("on") for name in names)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|fetch\(|XMLHttp", script
    )


# ------------------------------------------------------------------ shares of time


def kernel(name: str, seconds: float, sites: tuple[str, ...], operators: tuple[str, ...]) -> KernelProfile:
    return KernelProfile(name, operators, sites, len(sites), seconds, 0, 0, {}, 1.0, None)


def test_shares_of_time() -> None:
    found = stages(legato.parse(MLP), OPTIONS).stages
    fused, lowered = graph_of(found[-2].module), graph_of(found[-1].module)
    calls = [n for n in lowered.nodes if n.kind == "kernel"]
    every = tuple(
        kernel(n.label.removeprefix("@"), 1.0 + k, (n.span,), tuple(n.detail.split(", "))) for k, n in enumerate(calls)
    )
    total = sum(k.seconds for k in every) + 1.0
    shares = shares_of(Profile("t", 1, 1, "median", total, 1.0, every, None, "", ()))
    by_kernel = {n.label: n.share for n in shares(lowered).nodes if n.kind == "kernel"}
    assert by_kernel == {f"@{k.name}": pytest.approx(k.seconds / total) for k in every}
    groups = [c for c in shares(fused).clusters if c.kind == "group"]
    assert len(groups) < len(every)  # one of them packs an operand first
    for group in groups:
        own = sum(k.seconds for k in every if k.operators == group.operators)
        assert group.share == pytest.approx(own / total)
    for graph in (fused, lowered):
        (main,) = (c for c in shares(graph).clusters if c.label == "@main")
        assert main.share == pytest.approx((total - 1) / total)
