"""Exports of published architectures with dynamic axes: which compile, and agree with ONNX Runtime at several sizes."""
