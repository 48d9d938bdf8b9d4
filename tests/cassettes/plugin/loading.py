"""How the plugin gets into a run of pytest: by its entry point where the installation has it, by name elsewhere."""

from importlib.metadata import entry_points

PLUGIN = "dragoman.testing.plugin"
LOADING = () if any(entry.value == PLUGIN for entry in entry_points(group="pytest11")) else ("-p", PLUGIN)
