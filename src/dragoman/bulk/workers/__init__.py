"""The workers of a Ray cluster that send the requests of a run."""
