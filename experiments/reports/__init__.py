"""What a report is made of: tables, plots, and the papers' figures beside ours."""
