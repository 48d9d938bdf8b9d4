"""Proof of identity for providers: keys, functions, and the credentials of clouds.

`Credentials` is what a program implements for a source of its own; `Authorization` is what it returns.
"""

from dragoman.credentials.contract import ApiKey, Authorization, Credentials, SignableRequest

__all__ = ["ApiKey", "Authorization", "Credentials", "SignableRequest"]
