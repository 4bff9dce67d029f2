"""Fused groups become kernels, graph functions become host functions: IR → tir."""
