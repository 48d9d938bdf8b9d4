"""The adapters that come with Dragoman, one package for each provider or wire."""
