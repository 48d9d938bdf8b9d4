"""Alembic's migrations: one file a step, numbered, never changed once released."""
