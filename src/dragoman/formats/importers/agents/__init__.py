"""Conversations of agents: their logs, their messages to each other, and their traces."""
