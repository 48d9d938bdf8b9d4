"""Runs Alembic's migrations on the connection, and in the transaction, that the store has opened."""

from alembic import context

from dragoman.store.schema import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"], version_table=VERSION_TABLE, transactional_ddl=True
)
context.run_migrations()
