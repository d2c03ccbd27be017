"""Benchmarks: what `tandem bench` runs. Figures are ratios between programs measured in the same run."""
