"""What runs came to, as the programs wrote it."""
