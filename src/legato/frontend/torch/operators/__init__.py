"""Converters by family."""
