"""What scripts for TVM import from `tvm.contrib` to run programs: `graph_executor`, `debugger`, `utils`."""
