"""Conversations in other shapes."""
