"""The policy of one conversation: which hook judges what, with which extensions, and what may leave."""
