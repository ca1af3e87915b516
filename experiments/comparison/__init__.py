"""The comparison of methods at nano scale: its systems, its runs, its table."""
