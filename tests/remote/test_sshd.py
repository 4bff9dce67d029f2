"""The same over a real ssh: a server of our own on this machine, with its own keys, on a port that is free."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from legato.base.errors import RunError
from legato.remote import Connection, place
from tests.remote.test_remote import CALL

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
SSH = shutil.which("ssh")
pytestmark = pytest.mark.skipif(SSHD is None or SSH is None, reason="there is no sshd: apt-get install openssh-server")


class Server:
    """A running sshd, and the configuration of the ssh that reaches it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("host", "user", "stranger"):
            keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(keygen, check=True, stdin=subprocess.DEVNULL)
        (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        (folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile {folder}/pid\nUsePAM no\n"
            f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nPasswordAuthentication no\n"
            f"PermitRootLogin prohibit-password\nSetEnv XDG_CACHE_HOME={folder}/cache\n"
        )
        self.trust("host")
        self.be("user")
        assert SSHD is not None
        command = [SSHD, "-D", "-e", "-f", str(folder / "sshd_config")]
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log)

    @property
    def url(self) -> str:
        return f"ssh://127.0.0.1:{self.port}{sys.executable}"

    def trust(self, key: str) -> None:
        """Whose key the client takes for the server's."""
        kind, data, _ = (self.folder / f"{key}.pub").read_text().split()
        (self.folder / "known").write_text(f"[127.0.0.1]:{self.port} {kind} {data}\n")

    def be(self, key: str) -> None:
        """Whom the client is."""
        (self.folder / "ssh_config").write_text(
            f"IdentityFile {self.folder}/{key}\nIdentitiesOnly yes\nUserKnownHostsFile {self.folder}/known\n"
            "GlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\n"
        )

    def is_up(self) -> bool:
        """Whether it listens."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def cut(self) -> None:
        """Ends all connections, as a network does."""
        for child in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where an sshd that root starts leaves its privileges
    here = tmp_path / "here"
    here.mkdir()
    (here / "ssh").write_text(f'#!/bin/sh\nexec "{SSH}" -F "{tmp_path}/ssh_config" "$@"\n')
    (here / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{here}{os.pathsep}{os.environ['PATH']}")
    made = Server(tmp_path)
    try:
        for _ in range(600):
            if made.is_up() or made.process.poll() is not None:
                break
            time.sleep(0.1)
        assert made.process.poll() is None, (tmp_path / "log").read_text()
        yield made
    finally:
        made.process.terminate()
        made.process.wait()


def call(url: str, artifact: Path, given: dict[str, np.ndarray] | None) -> dict[str, np.ndarray]:
    with Connection(place(url)) as there:
        return dict(there.run(artifact, CALL, given).outputs)


def test_a_program_over_ssh(server: Server, artifact: Path, x: np.ndarray) -> None:
    np.testing.assert_array_equal(call(server.url, artifact, {"x": x})["output"], np.maximum(x, 0))
    assert len(list((server.folder / "cache/legato/sent").iterdir())) == 2


def test_a_wrong_key_is_refused(server: Server, artifact: Path) -> None:
    server.be("stranger")
    with pytest.raises(RunError, match=r"127\.0\.0\.1 cannot be reached: .*Permission denied"):
        call(server.url, artifact, None)
    server.be("user")
    server.trust("stranger")
    with pytest.raises(RunError, match=r"127\.0\.0\.1 cannot be reached: Host key verification failed"):
        call(server.url, artifact, None)


def test_a_connection_that_is_cut(server: Server, artifact: Path) -> None:
    told: list[str] = []

    def tell(what: str) -> None:
        told.append(what)
        if "round 1 " in what:
            server.cut()

    with (
        Connection(place(server.url)) as there,
        pytest.raises(RunError, match=r"the connection to 127\.0\.0\.1 was lost"),
    ):
        there.run(artifact, {**CALL, "rounds": 1000, "block": 0.01, "fill": "ones"}, tell=tell)
    assert any("round 1 of 1000" in what for what in told)
