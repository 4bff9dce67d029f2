"""Machine code: tir → LLVM → objects → one image. The one user of llvmlite."""
