"""Second attempts at slow tasks of batch jobs; the attempt that finishes first counts."""
