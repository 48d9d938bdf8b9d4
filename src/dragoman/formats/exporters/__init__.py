"""Writers for the histories and data sets of other libraries. Each writes what the library's own loader accepts."""
