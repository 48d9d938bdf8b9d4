"""The state of a run on disk: its manifest, its lock and its writes."""
