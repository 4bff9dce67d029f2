"""Fused groups become kernels, graph functions become host functions: IR → tir."""

from __future__ import annotations

from legato.base import compiler as _compiler  # noqa: F401  # a MissingError where its packages are not
