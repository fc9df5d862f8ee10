"""`toolgraft demo`: a text-only model, the proxy and two real agents on this machine, every step shown."""

from __future__ import annotations

import asyncio
import os
from importlib.util import find_spec

import click
from rich.console import Console


@click.command("demo")
@click.option("--upstream", help="Base URL of any OpenAI-compatible chat endpoint, ending in /v1, instead of a local model.")
@click.option("--model", help="Model name at --upstream.")
@click.option("--key-env", help="Environment variable that holds the key for --upstream.")
@click.option("--scripted", is_flag=True, help="Take the embedded scripted model even where the real small one is installed.")
@click.option("--full", is_flag=True, help="Leave nothing out of long texts.")
def command(upstream: str | None, model: str | None, key_env: str | None, *, scripted: bool, full: bool) -> None:
    """Show tool calling with a model that has none: what goes in and out at every step."""
    from proxy.demo.real_model import model_file  # noqa: PLC0415 - the other commands start without the demo's parts
    from proxy.demo.show import DemoError, Endpoint, show  # noqa: PLC0415

    missing = [name for name in ("openai", "anthropic") if find_spec(name) is None]
    if missing:
        raise click.ClickException(f"the demo's agents need {' and '.join(missing)}: install toolgraft with its extra 'demo'")
    endpoint = None
    if upstream is not None:
        if model is None:
            raise click.UsageError("--upstream needs --model")
        key = os.environ.get(key_env, "") if key_env else ""
        endpoint = Endpoint(upstream, model, key or "none", f"{model} at {upstream}")
    real = not scripted and model_file() is not None
    console = Console()
    if endpoint is None and not real and not scripted:
        console.print("The real small model is not installed (README says how): the embedded scripted one plays its part.")
    try:
        code = asyncio.run(show(endpoint, real=real, full=full, console=console))
    except DemoError as exc:
        raise click.ClickException(str(exc)) from exc
    raise SystemExit(code)
