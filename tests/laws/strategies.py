"""The strategies of the laws are public: see `dragoman.testing.strategies`."""

from dragoman.testing.strategies import BLOCKS_BY_KIND, TOOL_IDS, histories, json_objects, json_values, messages, texts

__all__ = ["BLOCKS_BY_KIND", "TOOL_IDS", "histories", "json_objects", "json_values", "messages", "texts"]
