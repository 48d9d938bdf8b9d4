"""Messages of the Vercel AI SDK, versions 5 to 7: those of its user interfaces, and those for models."""
