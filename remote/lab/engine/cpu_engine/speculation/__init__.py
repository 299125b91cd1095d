"""EAGLE-3's tree building and verify, which SGLang 0.5.9 wires to CUDA kernels only."""
