"""Server tools on each wire: the tables of the adapters, and how they are read in both directions."""
