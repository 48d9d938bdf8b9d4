"""Conversations as one text for a model: what chat templates write, and OpenAI's Harmony, also as JSON."""
