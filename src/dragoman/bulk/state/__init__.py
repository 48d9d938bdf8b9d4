"""What a run keeps on disk: its manifest, its lock and its writes."""
