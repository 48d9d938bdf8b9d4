"""Alembic migrations: one numbered file each, never changed after release."""
