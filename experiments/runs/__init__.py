"""What a run is made of: configuration, training, predictions and scores."""
