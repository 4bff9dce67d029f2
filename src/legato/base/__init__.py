"""Foundations that depend on nothing of ours: errors, config, dtypes, spans, node walking, rewriting."""
