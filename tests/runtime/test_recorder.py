"""What is recorded of calls: every launch with its arguments and shares, as many calls as are asked for."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.base.errors import RunError
from legato.runtime.executable import Executable
from legato.runtime.recorder import Recorder

TEXT = """
#[version = "0.0.5"]
def @main(%x: Tensor[(n, 64), float32], %w: Tensor[(32, 64), float32]) -> Tensor[(n, 32), float32] {
  nn.softmax(nn.dense(%x, %w))
}
"""


@pytest.fixture(scope="module")
def exe() -> Executable:
    return legato.compile(legato.parse(TEXT), threads=2)


def inputs(n: int) -> dict[str, np.ndarray]:
    return {"x": np.ones((n, 64), np.float32), "w": np.ones((32, 64), np.float32)}


def test_shares_are_those_of_their_launch(exe: Executable) -> None:
    run = Recorder(exe).run(inputs(300))
    assert [launch.kernel for launch in run.launches]
    for launch in run.launches:
        assert {share.tid for share in launch.shares} <= set(range(launch.shares[0].nt))
        assert all(launch.start <= share.start <= share.end <= launch.end for share in launch.shares)
    assert all(run.start <= launch.start <= launch.end <= run.end for launch in run.launches)
    assert any(300 in launch.words for launch in run.launches)


def test_as_many_runs_as_asked_for(exe: Executable) -> None:
    """A least number whatever time it takes, a greatest whatever time is left."""
    recorder = Recorder(exe)
    assert len(recorder.runs(inputs(1), 0.0, 1, 5)) == 1
    assert len(recorder.runs(inputs(1), 0.0, 3, 5)) == 3
    assert len(recorder.runs(inputs(1), 1e9, 1, 4)) == 4


def test_there_is_room_for_every_launch(exe: Executable) -> None:
    """What did not fit is recorded again, with more room."""
    recorder = Recorder(exe)
    wanted = [launch.words[2:] for launch in recorder.run(inputs(9)).launches]
    recorder._record.make_room(1, 2, 3)
    recorder._record.room = 1
    assert [launch.words[2:] for launch in recorder.run(inputs(9)).launches] == wanted
    assert recorder._record.room > 1


def test_a_program_that_does_not_list_its_kernels(exe: Executable) -> None:
    recorder = Recorder(exe)
    recorder._record.header.kernel_count = 0
    with pytest.raises(RunError, match="does not list its kernels"):
        recorder.run(inputs(1))
