"""The one way in which a request is sent under a client's rules."""
