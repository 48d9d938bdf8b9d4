"""How commands read their input and show their output."""
