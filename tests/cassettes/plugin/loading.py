"""How the plugin is loaded: by its entry point if the installation has it, otherwise by name."""

from importlib.metadata import entry_points

PLUGIN = "dragoman.testing.plugin"
LOADING = () if any(entry.value == PLUGIN for entry in entry_points(group="pytest11")) else ("-p", PLUGIN)
