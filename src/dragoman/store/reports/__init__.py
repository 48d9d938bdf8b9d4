"""Reports over stored replies."""
