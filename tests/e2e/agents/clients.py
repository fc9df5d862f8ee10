"""How each real agent runs headless against a server on loopback, with nothing of the caller's: no variable, key, account or setting.

In: where it may work and where the server is. Out: a command and its environment; configuration files are written under the fresh home.
Versions differ in small ways; what stands here was measured with those of November 2026.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TASK = "Create a file hello.txt in the current folder with the content: hi"


def installed() -> Path:
    """The folder with the clients: `TOOLGRAFT_CLIENTS`, or one among the temporary files."""
    return Path(os.environ.get("TOOLGRAFT_CLIENTS") or Path(tempfile.gettempdir()) / "toolgraft-clients")


@dataclass(frozen=True)
class Place:
    """A server's port, the folder of the task, and a home of its own."""

    port: int
    folder: Path
    home: Path
    task: str = TASK

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def v1(self) -> str:
        return f"{self.root}/v1"

    def write(self, name: str, content: Any) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
        return path


@dataclass(frozen=True)
class Launch:
    """A command and what its environment has besides the bare one."""

    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)


def _npm(client: str, program: str) -> str:
    return str(installed() / "npm" / client / "node_modules" / ".bin" / program)


def claude_code(place: Place, *extra: str, model: str = "claude-sonnet-4-5") -> Launch:
    command = [_npm("claude-code", "claude"), "-p", place.task, "--model", model, "--output-format", "json"]
    return Launch(
        [*command, "--permission-mode", "acceptEdits", "--allowedTools", "Write,Edit,Bash,Read", *extra],
        {
            "ANTHROPIC_BASE_URL": place.root,
            "ANTHROPIC_API_KEY": "sk-ant-dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "CLAUDE_CONFIG_DIR": str(place.home / ".claude"),
        },
    )


def claude_code_other_model(place: Place) -> Launch:
    """A model name that is not Claude's: the system prompt changes, and system messages stand inside the conversation."""
    return claude_code(place, model="any-model")


def claude_code_bare(place: Place) -> Launch:
    return claude_code(place, "--bare")


_CODEX = """
model = "any-model"
model_provider = "toolgraft"
check_for_update_on_startup = false
[features]
apps = false
plugins = false
remote_plugin = false
plugin_sharing = false
tool_suggest = false
skill_mcp_dependency_install = false
[analytics]
enabled = false
[feedback]
enabled = false
[model_providers.toolgraft]
name = "toolgraft"
base_url = "{url}"
env_key = "SOME_KEY"
wire_api = "responses"
"""


def codex(place: Place) -> Launch:
    place.write(".codex/config.toml", _CODEX.format(url=place.v1))
    flags = ["--json", "--skip-git-repo-check", "-C", str(place.folder), "--dangerously-bypass-approvals-and-sandbox"]
    return Launch([_npm("codex", "codex"), "exec", *flags, place.task], {"SOME_KEY": "dummy", "CODEX_HOME": str(place.home / ".codex")})


def opencode(place: Place, sdk: str = "@ai-sdk/openai-compatible") -> Launch:
    model = {"name": "Any", "tool_call": True, "limit": {"context": 128000, "output": 8192}}
    provider = {"npm": sdk, "name": "any", "options": {"baseURL": place.v1, "apiKey": "dummy"}, "models": {"any-model": model}}
    names = {"model": "any/any-model", "small_model": "any/any-model", "enabled_providers": ["any"]}
    place.write(".config/opencode/opencode.json", {"autoupdate": False, "share": "disabled", **names, "provider": {"any": provider}})
    off = ("AUTOUPDATE", "DEFAULT_PLUGINS", "MODELS_FETCH", "LSP_DOWNLOAD", "SHARE")
    folders = {"DATA": "data", "STATE": "state", "CACHE": "cache", "CONFIG": ".config"}
    return Launch(
        [_npm("opencode", "opencode"), "run", "--auto", "-m", "any/any-model", "--format", "json", place.task],
        {f"OPENCODE_DISABLE_{name}": "1" for name in off}
        | {"OPENCODE_PURE": "1"}
        | {f"XDG_{name}_HOME": str(place.home / folder) for name, folder in folders.items()},
    )


def opencode_messages(place: Place) -> Launch:
    return opencode(place, "@ai-sdk/anthropic")


def opencode_responses(place: Place) -> Launch:
    return opencode(place, "@ai-sdk/openai")


def pi(place: Place, api: str = "openai-completions") -> Launch:
    url = place.root if api == "anthropic-messages" else place.v1
    provider = {"baseUrl": url, "api": api, "apiKey": "dummy", "models": [{"id": "any-model"}]}
    place.write(".pi/agent/models.json", {"providers": {"any": provider}})
    command = [_npm("pi", "pi"), "--offline", "-p", "--mode", "json", "--provider", "any", "--model", "any-model", place.task]
    return Launch(command, {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"})


def pi_messages(place: Place) -> Launch:
    return pi(place, "anthropic-messages")


def pi_responses(place: Place) -> Launch:
    return pi(place, "openai-responses")


def copilot(place: Place, kind: str = "openai", wire: str = "completions") -> Launch:
    return Launch(
        [_npm("copilot", "copilot"), "-p", place.task, "--yolo", "--no-auto-update", "--output-format", "json"],
        {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": place.root if kind == "anthropic" else place.v1,
            "COPILOT_PROVIDER_TYPE": kind,
            "COPILOT_PROVIDER_API_KEY": "dummy",
            "COPILOT_PROVIDER_WIRE_API": wire,
            "COPILOT_MODEL": "any-model",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_HOME": str(place.home / ".copilot"),
        },
    )


def copilot_messages(place: Place) -> Launch:
    return copilot(place, "anthropic")


def copilot_responses(place: Place) -> Launch:
    return copilot(place, "openai", "responses")


def qwen(place: Place, auth: str = "openai") -> Launch:
    quiet = {"enableAutoUpdate": False, "disableAutoUpdate": True, "disableUpdateNag": True}
    settings = {"privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}, "general": quiet}
    place.write(".qwen/settings.json", {**settings, "security": {"auth": {"selectedType": auth}}, "model": {"name": "any-model"}})
    prefix, url = ("ANTHROPIC", place.root) if auth == "anthropic" else ("OPENAI", place.v1)
    environment = {f"{prefix}_API_KEY": "dummy", f"{prefix}_BASE_URL": url, f"{prefix}_MODEL": "any-model"}
    return Launch([_npm("qwen", "qwen"), "--auth-type", auth, "--yolo", "-o", "json", place.task], environment)


def qwen_messages(place: Place) -> Launch:
    return qwen(place, "anthropic")


_CONTINUE = """name: any
version: 0.0.1
schema: v1
models:
  - name: any
    provider: {provider}
    model: any-model
    apiBase: {url}
    apiKey: dummy
    roles: [chat]
    capabilities: [tool_use]
"""


def continue_cli(place: Place, provider: str = "openai") -> Launch:
    config = place.write("continue.yaml", _CONTINUE.format(provider=provider, url=place.v1))
    quiet = {"CONTINUE_TELEMETRY_ENABLED": "0", "CONTINUE_METRICS_ENABLED": "0", "CONTINUE_CLI_ENABLE_TELEMETRY": "0", "DO_NOT_TRACK": "1"}
    return Launch([_npm("continue", "cn"), "--config", str(config), "--auto", "-p", place.task], quiet)


def continue_messages(place: Place) -> Launch:
    return continue_cli(place, "anthropic")


AGENTS: dict[str, Callable[[Place], Launch]] = {
    "claude-code": claude_code,
    "claude-code-other-model": claude_code_other_model,
    "claude-code-bare": claude_code_bare,
    "codex": codex,
    "opencode": opencode,
    "opencode-messages": opencode_messages,
    "opencode-responses": opencode_responses,
    "pi": pi,
    "pi-messages": pi_messages,
    "pi-responses": pi_responses,
    "copilot": copilot,
    "copilot-messages": copilot_messages,
    "copilot-responses": copilot_responses,
    "qwen": qwen,
    "qwen-messages": qwen_messages,
    "continue": continue_cli,
    "continue-messages": continue_messages,
}

PACKAGES: dict[str, tuple[str, ...]] = {
    "claude-code": ("@anthropic-ai/claude-code",),
    "codex": ("@openai/codex",),
    "opencode": ("opencode-ai",),
    "pi": ("@mariozechner/pi-coding-agent",),
    "copilot": ("@github/copilot",),
    "qwen": ("@qwen-code/qwen-code",),
    "continue": ("@continuedev/cli",),
}
"""npm packages by the folder they are installed in; an agent's name begins with its folder's."""

PROJECTS: dict[str, Path] = {"sdk_js": Path(__file__).parents[1] / "sdk_js"}
"""npm projects of ours, installed as they stand, with their scripts."""

WHEELS: dict[str, tuple[str, ...]] = {
    "old": ("openai==1.68.2", "anthropic==0.49.0", "httpx<0.28"),
    "loops": ("openai-agents", "pydantic-ai-slim[openai,anthropic]", "langchain", "langgraph", "langchain-openai", "langchain-anthropic"),
}
"""PyPI packages by the name of the virtual environment they are installed in."""


def package_of(agent: str) -> str:
    """The npm folder of an agent."""
    return max((name for name in PACKAGES if agent.startswith(name)), key=len)
