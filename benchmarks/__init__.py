"""Benchmarks: ours and the peer in one run, printed as ratios. `python -m benchmarks --help`."""
