"""The extensions of a message: context that travels with it, such as the subject, labels and headers."""
