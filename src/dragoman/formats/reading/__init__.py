"""What all readers share: fields that are used up, losses with their path, and turns that become messages."""
