"""Endpoints that speak OpenAI's wire, as data: one table of endpoints.toml each, and a user's own.

What is read and written is the business of ``dragoman_adapters.openai_chat`` and
``dragoman_adapters.openai_responses``; the rooms here
only turn tables into adapters: `rows` (what a table may say), `configured` (a user's own tables) and `adapter`
(from a table to a class, also for endpoints that a program registers).
"""

from dragoman_adapters.compatible.adapter import register_endpoint

__all__ = ["register_endpoint"]
