"""The configuration file `dragoman.toml`: found, read, checked as a whole, and turned into the settings of a client."""

from dragoman.configuration.file.build import build_provider, build_settings, load_configuration, untrusted_settings
from dragoman.configuration.file.files import (
    ConfigurationFile,
    Origin,
    find_configuration,
    is_trusted,
    read_configuration,
    trust,
)
from dragoman.configuration.file.schema import ProviderTable

__all__ = [
    "ConfigurationFile",
    "Origin",
    "ProviderTable",
    "build_provider",
    "build_settings",
    "find_configuration",
    "is_trusted",
    "load_configuration",
    "read_configuration",
    "trust",
    "untrusted_settings",
]
