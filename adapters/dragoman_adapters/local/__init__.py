"""A model in this process. The wire between the adapter and `dragoman.local` is the project's own."""
