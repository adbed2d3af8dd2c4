"""What moves on the data path: batches of records and the control elements between them."""
