"""Scalar expressions: shapes, subscripts and the values that loops compute."""
