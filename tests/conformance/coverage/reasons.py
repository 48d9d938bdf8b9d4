"""Why a program cannot send what an SDK can."""

import tomllib
from pathlib import Path

REASONS: dict[str, dict[str, str]] = tomllib.loads((Path(__file__).parent / "absent.toml").read_text(encoding="utf-8"))
"""By provider and name."""
