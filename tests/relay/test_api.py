"""The names of TVM's Relay under three namespaces: nearly all are here, and the others say why they are not."""

from __future__ import annotations

import pytest

from tests.relay.api import NAMES, found_and_missing

TABLE = found_and_missing([n for n in NAMES if n.startswith(("tvm.relay.transform", "tvm.relay.analysis",
                                                             "tvm.relay.dataflow_pattern",
                                                             "tvm.relay.qnn"))])  # fmt: skip
# The least share of each that is here.
SHARES = {"relay.analysis": 0.9, "relay.dataflow_pattern": 1.0, "relay.qnn": 0.9, "relay.transform": 0.9}


@pytest.mark.parametrize("key", SHARES)
def test_names_are_here(key: str) -> None:
    here, missing = TABLE[key]
    assert len(here) >= SHARES[key] * (len(here) + len(missing)), missing


@pytest.mark.parametrize("key", SHARES)
def test_other_names_say_why_they_are_not_here(key: str) -> None:
    for name, why in TABLE[key][1].items():
        assert ": " in why, name
