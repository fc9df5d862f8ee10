"""The secrets that a configuration names: read from environment variables and files, never from the configuration itself.

Out: upstream configurations with their keys, and the client keys. Raises SecretError with a message that holds no secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from proxy.config.tree import Auth, Upstream
from proxy.transport import UpstreamConfig


class SecretError(ValueError):
    """A named secret cannot be had."""


def upstream_config(name: str, upstream: Upstream, environ: Mapping[str, str]) -> UpstreamConfig:
    """What the transport needs for this upstream. Raises SecretError, and ValueError for a URL that cannot work."""
    key = _secret(upstream.key_env, upstream.key_file, environ, ("key_env", "key_file"))
    return UpstreamConfig(
        name=name,
        url=upstream.url,
        key=key.strip() if key is not None else None,
        key_header=upstream.key_header,
        proxy=upstream.proxy,
        ca_file=upstream.ca_file,
        connect_s=upstream.connect_s,
        traits=upstream.traits,
    )


def client_keys(auth: Auth, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Every client key; empty when none is configured. Raises SecretError."""
    found: list[str] = []
    if auth.keys_env is not None:
        found += (_secret(auth.keys_env, None, environ, ("keys_env", "keys_file")) or "").replace(",", " ").split()
    if auth.keys_file is not None:
        lines = (_secret(None, auth.keys_file, environ, ("keys_env", "keys_file")) or "").splitlines()
        found += [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    if (auth.keys_env is not None or auth.keys_file is not None) and not found:
        raise SecretError("keys_env, keys_file: name no key at all")
    return tuple(dict.fromkeys(found))


def _secret(variable: str | None, file: str | None, environ: Mapping[str, str], names: tuple[str, str]) -> str | None:
    if variable is not None and file is not None:
        raise SecretError(f"{names[0]} and {names[1]}: only one of the two may be given")
    if variable is not None:
        value = environ.get(variable)
        if not value or not value.strip():
            raise SecretError(f"{names[0]} = {variable!r}: this environment variable is not set")
        return value
    if file is None:
        return None
    try:
        text = Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise SecretError(f"{names[1]} = {file!r}: cannot be read: {getattr(exc, 'strerror', None) or 'not UTF-8'}") from None
    if not text.strip():
        raise SecretError(f"{names[1]} = {file!r}: is empty")
    return text
