"""Relay functions that call tensor programs → host functions of the loop language."""
