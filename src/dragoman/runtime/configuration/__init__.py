"""The configuration file `dragoman.toml`: found, read, checked as a whole, and turned into the settings of a client."""

from dragoman.runtime.configuration.build import build_settings, load_configuration
from dragoman.runtime.configuration.files import ConfigurationFile, Origin, find_configuration, read_configuration
from dragoman.runtime.configuration.providers import build_provider, untrusted_settings
from dragoman.runtime.configuration.schema import ProviderTable
from dragoman.runtime.configuration.trust import is_trusted, trust

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
