"""Messages of the Vercel AI SDK, versions 5 to 7: those of its user interfaces, and those for models."""

from dragoman.formats.importers.vercel.messages import from_vercel_model, from_vercel_ui

__all__ = ["from_vercel_model", "from_vercel_ui"]
