"""Endpoints with OpenAI's wire, as data: one table of endpoints.toml each, and a user's own.

``dragoman_adapters.openai_chat`` and ``dragoman_adapters.openai_responses`` encode and decode. The modules here turn
tables into adapters: `endpoint_row` (the fields of a table), `user_file` (a user's own tables) and `adapter` (from a
table to a class, also for endpoints that a program registers).
"""

from dragoman_adapters.compatible.adapter import register_endpoint

__all__ = ["register_endpoint"]
