"""Rules that rewrite logical plans, in fixed phases."""
