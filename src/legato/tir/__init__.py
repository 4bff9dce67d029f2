"""Loop-level programs: kernels and the host functions that call them."""
