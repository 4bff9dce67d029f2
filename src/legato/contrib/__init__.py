"""What scripts for TVM import from `tvm.contrib` to run programs and see them: `graph_executor`, `debugger`,
`relay_viz`, `utils`."""
