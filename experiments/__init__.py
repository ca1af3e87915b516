"""Programs with absl flags; the only place that reads flags."""
