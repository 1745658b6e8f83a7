"""Measurements that the documentation quotes. Run from the repository's root: ``python -m benchmarks.<name>``."""
