"""What restarts after a failure, when, and how often."""
