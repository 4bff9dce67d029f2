"""`debug_executor`, which shows every intermediate tensor; `debug_runtime` is its old name."""
