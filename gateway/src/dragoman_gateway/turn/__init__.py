"""The path of one request: read, asked, and answered whole or as a stream."""
