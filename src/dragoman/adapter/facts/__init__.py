"""Facts about models: capabilities, token estimates, sizes of media."""
