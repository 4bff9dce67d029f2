"""Damaged programs: as text, as JSON, and their large constants in a side file."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

from legato import relay
from legato.infer.infer import infer
from legato.ir.files import save_json_file, save_text, side_file
from legato.ir.json_save import save_json
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ops import table
from tests.damaged.trees import altered, flipped
from tests.damaged.use import compiled_and_called
from tests.errors.corpus import PROGRAMS, VERSION
from tests.errors.mutants import text_mutant

__all__ = ["attempt_json", "attempt_text", "saved"]


def attempt_text(number: int, folder: Path) -> bool:
    """A program whose tokens, bytes or side file are damaged, compiled and called."""
    rng = Random(number)
    path = folder / "program.relay"
    if number % 10 == 0:
        save_text(_with_weights(), path)
        _damage_one(rng, path, side_file(path))
    elif number % 10 < 7:
        path.write_text(text_mutant(rng), encoding="utf-8")
    else:
        path.write_bytes(flipped((VERSION + rng.choice(PROGRAMS)).encode(), rng))
    return compiled_and_called(path)


def attempt_json(number: int, folder: Path) -> bool:
    """The same for a program as JSON: its tree, its bytes or its side file are damaged."""
    rng = Random(number)
    path = folder / "program.json"
    if number % 10 == 0:
        save_json_file(_with_weights(), path)
        _damage_one(rng, path, side_file(path))
        return compiled_and_called(path)
    text = rng.choice(saved())
    if number % 10 == 1:
        path.write_bytes(flipped(text.encode(), rng))
    else:
        data = json.loads(text)
        for _ in range(rng.choice((1, 1, 2, 3))):
            data = altered(data, rng)
        path.write_text(json.dumps(data), encoding="utf-8")
    return compiled_and_called(path)


def _damage_one(rng: Random, *paths: Path) -> None:
    path = rng.choice(paths)
    path.write_bytes(flipped(path.read_bytes(), rng))


@cache
def saved() -> tuple[str, ...]:
    """Each program as JSON, untyped and typed."""
    modules = [parse(VERSION + text, ops=table()) for text in PROGRAMS]
    return tuple(save_json(module) for module in (*modules, *map(infer, modules)))


@cache
def _with_weights() -> Module:
    """A program with a constant that goes into a side file."""
    x = relay.var("x", shape=(2, 32))
    weights = relay.const(np.arange(512, dtype=np.float32).reshape(16, 32))
    return infer(Module.from_expr(relay.Function([x], relay.nn.dense(x, weights))))
