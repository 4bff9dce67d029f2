"""Scripts of both levels: graph functions (`R`) and tensor programs (`T`) of one module (`I`), read from Python."""
