"""Declaring and launching kernels."""
