"""A model in this process. The wire between the adapter and `dragoman.transport.local` is the project's own."""
