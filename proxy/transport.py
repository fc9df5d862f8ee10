"""The upstream connection: what one upstream is set to, and one request to it.

In: an `UpstreamRequest` and the client's headers. Out: status, lower-case headers and the body's raw bytes as they arrive.
Promise: no redirect is followed, no cookie kept, no environment read; a key goes only where it is meant to go (U-K); what fails on the
wire is a `TransportError` with its outcome, and `abort` closes the connection at once. First-byte and idle deadlines are the engine's.
"""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

import msgspec

from pipeline.settings import UpstreamTraits

KeyHeader = Literal["auto", "bearer", "x-api-key", "api-key"]


class UpstreamConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One upstream: where it is, how it is reached, what it takes.

    `url` is the base URL; without a path, `/v1` is meant. `key` is secret and never printed. `key_header` "auto" is `x-api-key` for a
    Messages upstream and a Bearer token else. `proxy` is an egress proxy's URL, `ca_file` a PEM bundle. `connect_s` in seconds.
    The traits take this upstream's name, and know whether the key is its own. Raises ValueError for a URL that cannot work.
    """

    name: str
    url: str
    key: str | None = None
    key_header: KeyHeader = "auto"
    proxy: str | None = None
    ca_file: str | None = None
    connect_s: float = 5.0
    traits: UpstreamTraits = UpstreamTraits()

    def __post_init__(self) -> None:
        """Check the URL and tell the traits whose they are."""
        _check_url("url", self.url)
        if self.proxy is not None:
            _check_url("proxy", self.proxy)
        own_key = self.key is not None
        if self.traits.name != self.name or self.traits.own_key != own_key:
            traits = msgspec.structs.replace(self.traits, name=self.name, own_key=own_key)
            msgspec.structs.force_setattr(self, "traits", traits)

    def __repr__(self) -> str:
        """Name and host only: no key, and no credentials that stand in a URL."""
        return f"UpstreamConfig(name={self.name!r}, host={urlsplit(self.url).hostname!r}, key={'***' if self.key else None})"


def _check_url(field: str, url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{field}: an http:// or https:// URL with a host is needed")
