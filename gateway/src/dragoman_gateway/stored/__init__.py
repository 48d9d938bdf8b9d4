"""Stored responses: what `/v1/responses` keeps, so that clients can read, continue, cancel and delete it."""
