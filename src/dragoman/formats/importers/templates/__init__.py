"""Conversations as one text for a model: what chat templates write, and OpenAI's Harmony, also as JSON."""

from dragoman.formats.importers.templates.harmony import START, from_harmony
from dragoman.formats.importers.templates.texts import from_chat_template, template_of

__all__ = ["START", "from_chat_template", "from_harmony", "template_of"]
