"""Files with a conversation a line: data sets for training, and batches of requests."""
