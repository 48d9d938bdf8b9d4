"""How each client is started: its program, its settings, and the model names that it asks for.

The clients are installed in a folder of their own: ``npm/`` holds packages of npm, ``python/``, ``litellm/`` and
``aider/`` are virtual environments, because the last two pin older releases. The folder is DRAGOMAN_AGENTS.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "DRAGOMAN_AGENTS"
HERE = Path(__file__).parent
PROMPT = "Read the file notes.txt in this folder and tell me the secret word."
NPM_AGENTS = ("@anthropic-ai/claude-code", "@openai/codex", "opencode-ai", "@google/gemini-cli")
NPM_LIBRARIES = (
    "openai", "@anthropic-ai/sdk", "ai@6", "@ai-sdk/openai@3", "@ai-sdk/anthropic@3", "@ai-sdk/openai-compatible@2",
    "zod@4", "@google/genai", "ollama", "@mistralai/mistralai", "cohere-ai",
)  # fmt: skip
ENVIRONMENTS = {
    "python": ("langchain-openai", "langchain-anthropic", "pydantic-ai-slim[openai,anthropic]", "llm"),
    "litellm": ("litellm",),
    "aider": ("aider-chat",),
}
LIBRARIES = {
    "openai-js-chat": "chat", "openai-js-responses": "responses", "anthropic-js-messages": "messages",
    "ai-sdk-chat": "chat",
    "ai-sdk-responses": "responses", "ai-sdk-messages": "messages", "langchain-chat": "chat",
    "langchain-responses": "responses", "langchain-messages": "messages", "pydantic-ai-chat": "chat",
    "pydantic-ai-responses": "responses", "pydantic-ai-messages": "messages", "litellm-chat": "chat",
    "litellm-messages": "messages", "litellm-responses": "responses", "llm-chat": "chat",
    "google-js-google": "google", "ollama-js-ollama": "ollama",
}  # fmt: skip
"""The cases of libraries.py and libraries.mjs, with the client's wire."""
NODE_LIBRARIES = tuple(name for name in LIBRARIES if "-js-" in name or name.startswith("ai-sdk-"))
"""Those of libraries.mjs."""
CLIENTS = {
    "claude-code": "messages", "codex": "responses", "opencode-chat": "chat", "opencode-messages": "messages",
    "opencode-responses": "responses", "aider-chat": "chat", "aider-messages": "messages", "gemini": "google",
    **LIBRARIES,
}  # fmt: skip
"""All clients, with the wire that each speaks."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run. ``arguments`` begins with its file."""

    arguments: list[str]
    environment: Mapping[str, str]
    folder: Path


def folder() -> Path | None:
    """Return the folder of the installed clients; None if it is not set."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named and Path(named).is_dir() else None


def install(into: Path) -> None:
    """Install the newest clients with npm and uv."""
    install_npm(into, (*NPM_AGENTS, *NPM_LIBRARIES))
    for name, packages in ENVIRONMENTS.items():
        subprocess.run(["uv", "venv", "-q", "--clear", "--python", "3.11", str(into / name)], check=True)
        interpreter = str(into / name / "bin" / "python")
        subprocess.run(["uv", "pip", "install", "-q", "--python", interpreter, *packages], check=True)


def install_npm(into: Path, packages: Sequence[str]) -> None:
    """Install the newest packages with npm."""
    (into / "npm").mkdir(parents=True, exist_ok=True)
    (into / "npm" / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    subprocess.run(["npm", "install", *quiet, *packages], cwd=into / "npm", check=True)


def missing(client: str, installed: Path) -> str | None:
    """Return why a client cannot run; None if it can."""
    program = _file(client, installed)
    return None if program.exists() or shutil.which(str(program)) else f"{program.name} is not installed"


def _file(client: str, installed: Path) -> Path:
    kind = client.partition("-")[0]
    if client in ("claude-code", "codex", "gemini") or kind == "opencode":
        return installed / "npm" / "node_modules" / ".bin" / kind
    if kind == "aider":
        return installed / "aider" / "bin" / "aider"
    if client in NODE_LIBRARIES:
        names = {"anthropic": "@anthropic-ai/sdk", "google": "@google/genai"}
        return installed / "npm" / "node_modules" / names.get(kind, kind)
    environment = "litellm" if kind == "litellm" else "python"
    return installed / environment / "bin" / ("llm" if kind == "llm" else "python")


def program(client: str, model: str, address: str, installed: Path, scratch: Path) -> Program:
    """Return how a client is run in an empty folder, with a home of its own."""
    home, work = scratch / "home", scratch / "work"
    home.mkdir()
    work.mkdir()
    (work / "notes.txt").write_text("The secret word is PEAR-7731.\n", encoding="utf-8")
    shared = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8", "NO_COLOR": "1",
              "CI": "1", "BASE": address, "MODEL": model}  # fmt: skip
    file = str(_file(client, installed))
    match client.partition("-")[0]:
        case "claude":
            quiet = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER",
                     "DISABLE_ERROR_REPORTING")  # fmt: skip
            own = {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "none", **dict.fromkeys(quiet, "1")}
            arguments = [file, "-p", PROMPT, "--output-format", "json", "--model", model, "--max-turns", "4"]
        case "codex":
            settings = home / ".codex"
            settings.mkdir()
            (settings / "config.toml").write_text(_codex(model, address), encoding="utf-8")
            own = {"GATEWAY_KEY": "none", "CODEX_HOME": str(settings)}
            arguments = [file, "exec", "--skip-git-repo-check", "--json", PROMPT]
        case "opencode":
            (work / "opencode.json").write_text(json.dumps(_opencode(client, model, address)), encoding="utf-8")
            names = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "SHARE")
            own = {f"OPENCODE_DISABLE_{name}": "1" for name in names}
            arguments = [file, "run", "-m", f"gateway/{model}", PROMPT]
        case "aider":
            vendor = "anthropic" if client.endswith("messages") else "openai"
            own = {"OPENAI_API_BASE": f"{address}/v1", "OPENAI_API_KEY": "none", "ANTHROPIC_API_BASE": address,
                   "ANTHROPIC_API_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # fmt: skip
            flags = ("--yes-always", "--no-git", "--no-check-update", "--no-show-model-warnings", "--no-gitignore",
                     "--analytics-disable", "--no-show-release-notes")  # fmt: skip
            arguments = [file, "--model", f"{vendor}/{model}", "--message", PROMPT, *flags, "notes.txt"]
        case "gemini":
            settings = home / ".gemini"
            settings.mkdir()
            chosen = {
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                "privacy": {"usageStatisticsEnabled": False},
            }
            (settings / "settings.json").write_text(json.dumps(chosen), encoding="utf-8")
            own = {"GOOGLE_GEMINI_BASE_URL": address, "GEMINI_API_KEY": "none"}
            arguments = [file, "-p", PROMPT, "-m", model, "--yolo", "--skip-trust", "--output-format", "json"]
        case "openai" | "anthropic" | "ai" | "google" | "ollama":
            own = {}
            script = installed / "npm" / "libraries.mjs"  # packages are found next to the file
            shutil.copy(HERE / "libraries.mjs", script)
            arguments = ["node", str(script), client]
        case _:
            own = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LLM_USER_PATH": str(home / "llm")}
            interpreter = Path(file).with_name("python")
            arguments = [str(interpreter), str(HERE / "libraries.py"), client]
    return Program(arguments, shared | own, work)


def _codex(model: str, address: str) -> str:
    return f"""model = "{model}"
model_provider = "gateway"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.gateway]
name = "Gateway"
base_url = "{address}/v1"
env_key = "GATEWAY_KEY"
wire_api = "responses"
"""


def _opencode(client: str, model: str, address: str) -> dict[str, object]:
    packages = {"chat": "@ai-sdk/openai-compatible", "messages": "@ai-sdk/anthropic", "responses": "@ai-sdk/openai"}
    provider = {
        "npm": packages[client.rpartition("-")[2]],
        "name": "Gateway",
        "options": {"baseURL": f"{address}/v1", "apiKey": "none"},
        "models": {model: {"name": model, "limit": {"context": 128000, "output": 8000}}},
    }
    return {"autoupdate": False, "share": "disabled", "provider": {"gateway": provider}}
