"""Hooks for code generators, as Relay's scripts name them."""
