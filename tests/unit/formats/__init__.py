"""Conversations in other formats."""
