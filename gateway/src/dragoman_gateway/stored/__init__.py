"""Stored responses of `/v1/responses`, which clients can read, continue, cancel and delete."""
