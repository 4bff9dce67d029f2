"""Training steps as programs, the trainer, and its checkpoints."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import legato
from legato import optim, relay
from legato.base.errors import ArtifactError, CompileError, LegatoError, RunError
from legato.interp import evaluate
from legato.runtime.binding import address
from tests.optim.losses import batch, params, squares

CARRYING = """
#[version = "0.0.5"]
def @main(%w: Tensor[(4,), float32], %mean: float32, %x: Tensor[(4,), float32], %key: Tensor[(2,), uint64]) {
  let %y = sum(%w * %x);
  (%y * %y, %mean * 0.5f + %y, %key * %key + cast(%key, dtype="uint64"), %y, cast(%y, dtype="int32"))
}
"""


def carrying(**changes: Any) -> optim.Trainer:
    first = {"mean": np.float32(1), "key": np.array([3, 5], np.uint64)}
    return optim.Trainer(
        legato.parse(CARRYING), optim.SGD(0.01), {"w": np.ones(4, np.float32)}, carry={**first, **changes}
    )


@pytest.mark.parametrize("order", [("w", "b", "v"), ("v", "b", "w")])
@pytest.mark.parametrize("clip", [None, optim.ByNorm(1.0)], ids=["plain", "clipped"])
def test_parameters_and_what_is_kept_stay_where_they_are(order: tuple[str, ...], clip: optim.Clipping | None) -> None:
    given = params("float32")
    trainer = optim.Trainer(squares("float32"), optim.Adam(), {name: given[name] for name in order}, clip=clip)
    changed = [*trainer.program.params, *trainer.program.slots]
    assert set(changed) <= set(trainer.executable.in_place)
    before = {name: (address(trainer._held[name]), trainer._held[name].copy()) for name in changed}
    trainer.step(*batch(0, "float32"))
    for name, (place, value) in before.items():
        assert address(trainer._held[name]) == place
        assert (trainer._held[name] != value).all()


def test_a_compiled_step_is_the_interpreted_one() -> None:
    step = optim.training_step(squares(), optim.AdamW(0.01), ["w", "b", "v"], clip=optim.ByValue(0.5))
    given = params()
    slots = {name: np.abs(given[owner]) for name, owner in step.slots.items()}
    x, y = batch(0)
    values = {**given, **slots, "step": np.int64(4), "x": x, "y": y}
    wanted = evaluate(step.module, [values[name] for name in step.inputs])
    made = legato.compile(step.module).run(values)
    assert tuple(made) == step.outputs
    for name, want in zip(step.outputs, wanted, strict=True):  # type: ignore[arg-type]
        np.testing.assert_allclose(made[name], want, rtol=1e-12, atol=1e-14)
    assert made["step"] == 5


def test_programs_need_no_order_of_parameters() -> None:
    steps = [optim.training_step(squares(), optim.SGD(), names) for names in (["w", "b", "v"], ["v", "w", "b"])]
    assert steps[0].inputs == steps[1].inputs == ("w", "b", "v", "step", "x", "y")


def test_the_loss_hands_on_what_is_carried_and_tells_more() -> None:
    trainer = carrying()
    w, mean, key = np.ones(4, np.float32), np.float32(1), np.array([3, 5], np.uint64)
    for n in range(3):
        x = np.arange(4, dtype=np.float32) + n
        y = np.sum(w * x)
        loss, told, number = trainer.step(x)
        np.testing.assert_allclose([loss, told, number], [y * y, y, int(y)], rtol=1e-5)
        w, mean, key = w - np.float32(0.01) * 2 * y * x, mean * np.float32(0.5) + y, key * key + key
        np.testing.assert_allclose(trainer.params["w"], w, rtol=1e-5)
        np.testing.assert_allclose(trainer.carry["mean"], mean, rtol=1e-5)
        np.testing.assert_array_equal(trainer.carry["key"], key)


def test_training_goes_on_from_a_checkpoint_with_the_same_bits(tmp_path: Path) -> None:
    def trainer(seed: int) -> optim.Trainer:
        rate = optim.WarmUp(optim.Cosine(0.01, 20), 5)
        return optim.Trainer(squares("float32"), optim.AdamW(rate), params("float32", seed), clip=optim.ByNorm(5.0))

    whole, path = trainer(0), tmp_path / "run.safetensors"
    for number in range(6):
        whole.step(*batch(number, "float32"))
    whole.save(path)
    held = {**whole.params, **whole.state, "step": np.array(6)}
    on_disk = load_file(path)
    assert on_disk.keys() == held.keys()
    for name, value in held.items():
        np.testing.assert_array_equal(on_disk[name], value)
    resumed = trainer(1)
    resumed.load(path)
    assert resumed.steps == 6
    for number in range(6, 12):
        data = batch(number, "float32")
        assert whole.step(*data).tobytes() == resumed.step(*data).tobytes()
    for name, value in whole.params.items():
        assert value.tobytes() == resumed.params[name].tobytes()


def test_what_is_carried_is_in_the_checkpoint(tmp_path: Path) -> None:
    first, second = carrying(), carrying(key=np.zeros(2, np.uint64), mean=np.float32(9))
    x = np.ones(4, np.float32)
    first.step(x)
    first.save(tmp_path / "run")
    second.load(tmp_path / "run")
    assert [a.tobytes() for a in first.step(x)] == [a.tobytes() for a in second.step(x)]
    assert {n: a.tobytes() for n, a in first.carry.items()} == {n: a.tobytes() for n, a in second.carry.items()}


def test_the_key_of_random_numbers_goes_on(tmp_path: Path) -> None:
    text = """
    #[version = "0.0.5"]
    def @main(%w: Tensor[(3, 8), float32], %x: Tensor[(n, 8), float32], %key: Tensor[(10,), uint64]) {
      let %dropped = random.dropout(%key, %x, rate=0.5f64);
      let %y = nn.dense(%dropped.1, %w);
      (sum(%y * %y), %dropped.0)
    }
    """

    def trainer(seed: int) -> optim.Trainer:
        first = {"key": relay.random.threefry_key(seed).data}
        return optim.Trainer(legato.parse(text), optim.Adam(), {"w": np.ones((3, 8), np.float32)}, carry=first)

    whole, resumed, x = trainer(0), trainer(1), np.ones((4, 8), np.float32)
    losses = [float(whole.step(x)) for _ in range(5)]
    assert len({*losses}) == 5, "other elements are dropped in each step"
    whole.save(tmp_path / "run")
    resumed.load(tmp_path / "run")
    assert [whole.step(x).tobytes() for _ in range(5)] == [resumed.step(x).tobytes() for _ in range(5)]
    assert trainer(0).step(x) == losses[0] != trainer(1).step(x)


def test_other_checkpoints_are_refused(tmp_path: Path) -> None:
    path, (x, y) = tmp_path / "run", batch(0)
    trainer = optim.Trainer(squares(), optim.SGD(), params())
    carrying().save(path)
    with pytest.raises(ArtifactError, match="of another training: it lacks b, v and has key, mean"):
        trainer.load(path)
    optim.Trainer(squares("float32"), optim.SGD(), params("float32")).save(path)
    with pytest.raises(ArtifactError, match=re.escape("w is float32[7, 5] there, float64[7, 5] here")):
        trainer.load(path)
    path.write_bytes(b"nothing")
    with pytest.raises(ArtifactError, match="is not a safetensors file"):
        trainer.load(path)
    with pytest.raises(ArtifactError, match="cannot read"):
        trainer.load(tmp_path / "none")
    with pytest.raises(ArtifactError, match="cannot write"):
        trainer.save(tmp_path / "no folder" / "run")
    fresh = optim.Trainer(squares(), optim.SGD(), params())
    assert trainer.step(x, y) == fresh.step(x, y), "it is as it was"


def test_a_step_that_is_refused_changes_nothing() -> None:
    trainer = optim.Trainer(squares(), optim.SGD(), params())
    before, (x, y) = trainer.params, batch(0)
    for wrong in ((x, y[:2]), (x.astype(np.float32), y), (x,), (x, y, y)):
        with pytest.raises(RunError):
            trainer.step(*wrong)
    with pytest.raises(RunError, match="x given twice, or not in the batch: x, y"):
        trainer.step(x, x=x, y=y)
    for name, value in before.items():
        np.testing.assert_array_equal(trainer.params[name], value)
    assert trainer.step(y=y, x=x) > 0
    assert trainer.steps == 1


def test_a_step_that_fails_midway_asks_for_a_checkpoint(tmp_path: Path) -> None:
    text = """
    #[version = "0.0.5"]
    def @main(%w: Tensor[(4,), float32], %x: Tensor[(?, 4), float32]) {
      let %y: Tensor[(2, 4), float32] = match_cast(%x, Tensor[(2, 4), float32]);
      sum(%y * %w)
    }
    """
    trainer = optim.Trainer(legato.parse(text), optim.SGD(), {"w": np.ones(4, np.float32)})
    trainer.save(tmp_path / "run")
    with pytest.raises(RunError, match="match_cast") as error:
        trainer.step(np.ones((3, 4), np.float32))
    assert error.value.begun
    for ask in (lambda: trainer.params, lambda: trainer.steps, lambda: trainer.save(tmp_path / "other")):
        with pytest.raises(RunError, match="the last step ended midway"):
            ask()
    trainer.load(tmp_path / "run")
    np.testing.assert_array_equal(trainer.params["w"], np.ones(4))


REFUSED: dict[str, tuple[Callable[[], object], type[LegatoError], str]] = {
    "nothing": (lambda: optim.training_step(squares(), optim.SGD(), []), CompileError, "nothing to train"),
    "a name": (lambda: optim.training_step(squares(), optim.SGD(), ["u"]), CompileError, "no parameter 'u'"),
    "twice": (
        lambda: optim.training_step(squares(), optim.SGD(), ["w"], carry=["w"]), CompileError, "name w twice",
    ),
    "no new value": (
        lambda: optim.training_step(squares(), optim.SGD(), ["w"], carry=["b"]), CompileError,
        "gives 0 values behind the float, wanted 1 to carry",
    ),
    "integers": (
        lambda: optim.training_step(legato.parse(CARRYING), optim.SGD(), ["key"]), CompileError, "has no gradient",
    ),
    "another type": (
        lambda: optim.training_step(legato.parse(CARRYING), optim.SGD(), ["w"], carry=["key", "mean"]), CompileError,
        "'key' has type Tensor[(2,), uint64], and its new value float32",
    ),
    "a clash": (
        lambda: optim.training_step(
            legato.parse("def @main(%w: float32, %w_mean: float32) { %w * %w_mean }"), optim.Adam(), ["w"]
        ),
        CompileError, "two values called w_mean",
    ),
    "a shape": (
        lambda: optim.Trainer(squares(), optim.SGD(), {"w": np.ones((5, 7))}), RunError,
        "'w': got float64 of shape (5, 7), wanted Tensor[(7, 5), float64]",
    ),
    "a dtype": (
        lambda: optim.Trainer(squares(), optim.SGD(), params("float32")), RunError, "'w': got float32 of shape (7, 5)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name: str) -> None:
    make, kind, message = REFUSED[name]
    with pytest.raises(kind, match=re.escape(message)):
        make()


def test_first_values_follow_from_seed_and_name() -> None:
    mod = squares("float32")
    first = optim.initial(mod, {"w": optim.xavier, "v": optim.he, "b": optim.normal(2.0, 1.0)})
    again = optim.initial(mod, {"v": optim.he, "b": optim.zeros})
    other = optim.initial(mod, {"v": optim.he}, seed=1)
    np.testing.assert_array_equal(first["v"], again["v"])
    assert (first["v"] != other["v"]).all()
    assert {n: (a.shape, str(a.dtype)) for n, a in first.items()} == {
        "w": ((7, 5), "float32"), "v": ((3, 7), "float32"), "b": ((7,), "float32"),
    }  # fmt: skip
    assert np.abs(first["w"]).max() <= np.sqrt(6 / 12)
    big = legato.parse("def @main(%k: Tensor[(n, 300, 3, 3), float64]) { %k }")
    drawn = optim.initial(big, {"k": optim.he}, sizes={"n": 40})["k"]
    assert drawn.std() == pytest.approx(np.sqrt(2 / 2700), rel=0.02)
    with pytest.raises(CompileError, match="has the dim n"):
        optim.initial(big, {"k": optim.he})
    with pytest.raises(CompileError, match="no number of inputs"):
        optim.initial(mod, {"b": optim.he})
    with pytest.raises(CompileError, match="no tensor 'u' among its parameters"):
        optim.initial(mod, {"u": optim.he})
