"""Agents and libraries that people use, each through a whole task with a tool call, with another wire behind."""
