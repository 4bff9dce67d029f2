"""The language: expressions, types, modules, text."""
