"""Bodies of requests: received, inflated, counted, parsed, and changed in a field, as bytes."""
