"""Messages of frameworks for agents, and of the protocols that they share."""
