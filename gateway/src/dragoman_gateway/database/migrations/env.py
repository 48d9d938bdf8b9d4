"""Runs the migrations on the connection, and in the transaction, that `Database` has opened."""

from alembic import context

from dragoman_gateway.database.tables import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"], version_table=VERSION_TABLE, transactional_ddl=True
)
context.run_migrations()
