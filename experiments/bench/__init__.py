"""Speed, measured side by side: ratios in one run, never seconds across runs."""
