"""T5 1.1-small on ten real tasks: what `make real` makes, and the program behind it."""
