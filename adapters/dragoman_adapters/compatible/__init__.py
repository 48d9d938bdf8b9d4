"""Endpoints with OpenAI's wire, as data: a table of endpoints.toml each, or of the user's own file.

``dragoman_adapters.openai_chat`` and ``dragoman_adapters.openai_responses`` encode and decode. The modules here turn
tables into adapters: `endpoint_row` has the fields of a table, and `adapter` builds classes, also for endpoints of the
user's own file and for those that a program registers.
"""

from dragoman_adapters.compatible.adapter import register_endpoint

__all__ = ["register_endpoint"]
