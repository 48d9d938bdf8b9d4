"""The canonical form of a conversation: frozen data without I/O, below all other packages."""
