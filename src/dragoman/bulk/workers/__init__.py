"""What sends the rows: in this process, or on a cluster."""
