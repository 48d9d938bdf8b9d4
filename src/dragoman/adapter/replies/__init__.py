"""Wire to canonical: framing, stream decoding, reply building, usage and errors."""
