"""A model in this process: the wire between the adapter and `dragoman.transport.local` is the project's own."""
