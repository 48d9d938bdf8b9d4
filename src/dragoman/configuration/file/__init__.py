"""The configuration file `dragoman.toml`: found, read, checked as a whole, and turned into the settings of a client."""

from dragoman.configuration.file.build import build_settings, load_configuration
from dragoman.configuration.file.files import ConfigurationFile, Origin, find_configuration, read_configuration
from dragoman.configuration.file.providers import build_provider, untrusted_settings
from dragoman.configuration.file.schema import ProviderTable
from dragoman.configuration.file.trust import is_trusted, trust

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
