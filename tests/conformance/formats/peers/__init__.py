"""Histories written for other libraries, loaded and sent by these libraries in environments of their own."""
