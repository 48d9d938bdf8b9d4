"""What is known of models: capabilities, token estimates, sizes of media."""
