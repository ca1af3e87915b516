"""What `experiments.bench` measures: ratios in one run, never seconds across runs."""
