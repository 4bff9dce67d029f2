"""How many threads a process may use: CPU affinity and cgroup quotas."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from legato.runtime import cpu_count
from legato.runtime.binding import library

ROOT = Path(__file__).parents[2]
V2 = "36 25 0:31 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
OTHER = (
    "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)


def quota(root: Path, mountinfo: str, cgroup: str, files: dict[str, str]) -> float:
    """The quota that is found in a made-up system: two files of /proc/self, and files below /sys/fs/cgroup."""
    for name, text in ({"proc/self/mountinfo": mountinfo, "proc/self/cgroup": cgroup} | files).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return float(library().lg_cgroup_cpus(os.fsencode(root)))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 0),
        ({"a/b/cpu.max": "max 100000\n"}, 0),
        ({"a/b/cpu.max": "150000 100000\n"}, 1.5),
        ({"a/b/cpu.max": "max 100000\n", "a/cpu.max": "50000 100000\n"}, 0.5),
        ({"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "300000 100000\n", "cpu.max": "max 100000\n"}, 3),
        ({"a/b/cpu.max": "nonsense"}, 0),
    ],
)
def test_version_2(tmp_path: Path, files: dict[str, str], expected: float) -> None:
    below = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    assert quota(tmp_path, OTHER + V2, "0::/a/b\n", below) == expected


def test_version_1(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us": "250000\n",
        "sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    }
    groups = "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n0::/\n"
    assert quota(tmp_path, OTHER + V1, groups, files) == 2.5


def test_version_1_in_a_container(tmp_path: Path) -> None:
    # The mount shows the container's folder of the host's tree as its root.
    mount = V1.replace(" / /sys", " /docker/x /sys")
    files = {
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    }
    assert quota(tmp_path, mount, "4:cpu,cpuacct:/docker/x\n", files) == 0.5


def test_both_versions(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "300000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu.max": "200000 100000\n",
    }
    assert quota(tmp_path, V1 + V2, "4:cpu,cpuacct:/\n0::/\n", files) == 2


def test_no_cgroups(tmp_path: Path) -> None:
    assert library().lg_cgroup_cpus(os.fsencode(tmp_path)) == 0
    assert quota(tmp_path, OTHER, "", {}) == 0
    assert quota(tmp_path, V2, "no colons here\n0:\n", {}) == 0


def test_affinity() -> None:
    one = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, [{one}]); from legato.runtime import cpu_count; print(cpu_count())"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT / "src")
    assert done.stdout == "1\n"
    assert 1 <= cpu_count() <= len(os.sched_getaffinity(0))


several = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this process has one CPU only")


def said(code: str, **environment: str) -> list[str]:
    """The lines that `code` prints in a process of its own; `cpus` are those of the process."""
    start = "import os, threading\ncpus = sorted(os.sched_getaffinity(0))\n"
    done = subprocess.run(
        [sys.executable, "-c", start + code], check=True, capture_output=True, text=True, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": "src:."} | environment,
    )  # fmt: skip
    return done.stdout.splitlines()


BOUND = """
wait = threading.Event()
threading.Thread(target=wait.wait).start()  # one that may run anywhere, as OpenMP's other threads together
os.sched_setaffinity(0, cpus[:1])
from legato.runtime import cpu_count
print(cpu_count() == len(cpus), cpu_count() == 1)
wait.set()
"""


@several
@pytest.mark.parametrize(
    ("environment", "counts_all"),
    [
        ({}, False),
        ({"OMP_PROC_BIND": "true"}, True),
        ({"OMP_PROC_BIND": "false"}, False),
        ({"KMP_AFFINITY": "x"}, True),
    ],
)
def test_openmp_binds_the_calling_thread(environment: dict[str, str], counts_all: bool) -> None:
    unset = {"OMP_PROC_BIND": "", "GOMP_CPU_AFFINITY": "", "KMP_AFFINITY": ""}
    assert said(BOUND, **(unset | environment)) == [f"{counts_all} {not counts_all}"]


@several
def test_threads_of_the_pool_run_where_the_process_may() -> None:
    code = """
import numpy as np
from tests.runtime.images import executable
exe = executable("team", threads=2)
os.sched_setaffinity(0, cpus[:1])
exe(np.zeros(1, np.int64))
for task in os.listdir("/proc/self/task"):
    if open(f"/proc/self/task/{task}/comm").read() == "legato\\n":
        print(sorted(os.sched_getaffinity(int(task))) == cpus)
"""
    assert said(code) == ["True"]


@several
def test_a_forked_child_counts_again() -> None:
    code = """
from legato.runtime import cpu_count
print(cpu_count() == len(cpus), flush=True)
os.sched_setaffinity(0, cpus[:1])
child = os.fork()
if not child:
    print(cpu_count(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(cpu_count() == len(cpus))
"""
    assert said(code) == ["True", "1", "True"]
