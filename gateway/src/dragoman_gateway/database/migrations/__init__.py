"""Alembic's migrations of the gateway's tables."""
