"""The adapter for Cohere's chat."""
