"""Kernels that copy a tensor from one layout to another, and that fill halos."""

from __future__ import annotations
