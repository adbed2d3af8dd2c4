"""The records of the data path: batches, the control elements between them, and keys."""
