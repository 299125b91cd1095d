"""Imported by kernels that use CUDA's math library; empty, since no kernel body runs."""
