"""Importers for the histories of other libraries, read only. They read JSON and database rows,
and instantiate nothing.
"""
