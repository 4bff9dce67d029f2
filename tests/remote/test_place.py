"""URLs of other machines: what they name, and that nothing in them can be more than a name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.base.errors import RunError
from legato.remote import Place, place


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ssh://lab", Place("lab")),
        ("ssh://lab/", Place("lab")),
        ("ssh://me@lab-7.example.org:2222", Place("lab-7.example.org", "me", 2222)),
        ("ssh://[2001:db8::1]:22", Place("2001:db8::1", None, 22)),
        ("ssh://10.0.0.7/opt/venv/bin/python3.12", Place("10.0.0.7", python="/opt/venv/bin/python3.12")),
    ],
)
def test_urls(text: str, wanted: Place) -> None:
    assert place(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "", "lab", "ssh:lab", "ssh://", "http://lab", "ssh://-oProxyCommand=id", "ssh://-l@lab", "ssh://a@-x",
        "ssh://lab;id", "ssh://lab$(id)", "ssh://lab`id`", "ssh://lab:0", "ssh://lab:65536", "ssh://lab:22x",
        "ssh://a b", "ssh://lab/bin/py thon", "ssh://lab/bin/python;id", "ssh://lab/bin/'python", "ssh://lab\n", "ssh://lab/python\n",
        "ssh://lab:٢٢", "ssh://läb", "ssh://me:secret@lab", "ssh://lab//bin/$HOME", "ssh://lab/~root/python",
    ],
)  # fmt: skip
def test_text_that_is_no_url(text: str) -> None:
    with pytest.raises(RunError, match="wanted ssh://HOST"):
        place(text)


def test_nothing_of_the_user_goes_along() -> None:
    options = place("ssh://lab").command("true")
    assert {"ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "Tunnel=no"} <= set(options)


@given(
    st.text(st.characters(codec="ascii"), max_size=12),
    st.sampled_from(["ssh://{}", "ssh://a{}", "ssh://{}@a", "ssh://a/{}"]),
)
def test_whatever_is_taken_means_nothing_to_a_shell_or_to_ssh(text: str, around: str) -> None:
    try:
        found = place(around.format(text))
    except RunError:
        return
    *options, host, command = found.command("true")
    assert command == "true"
    assert options[-1] == "--"
    assert not host.startswith("-")
    for word in (host, found.user or "", found.python):
        assert not set(word) & set(" \t\n;&|<>$`'\"\\(){}*?#~!=^%")
