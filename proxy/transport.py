"""The upstream connection: what one upstream is set to, and one request to it.

In: an `UpstreamRequest` and the client's headers. Out: status, lower-case headers and the body's raw bytes as they arrive.
Promise: no redirect is followed, no cookie kept, no environment read; a key goes only where it is meant to go (U-K), and an
upstream that quotes its own key does not tell it on; what fails on the
wire is a `TransportError` with its outcome, and `abort` closes the connection at once. First-byte and idle deadlines are the engine's.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from io import BytesIO
from typing import Literal, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec
from yarl import URL

from pipeline import json_values
from pipeline.settings import UpstreamTraits
from pipeline.stage import UpstreamRequest
from pipeline.verdicts import Api, UpstreamOutcome
from proxy.masking import key_mask

_BIG_BODY = 1 << 20
_MODELS_TIMEOUT_S = 5.0
_MAX_MODELS_BYTES = 8 << 20
_GRACE_S = 2.0  # U03: how long a connection may take to end after the answer has
_TAIL = 512
_THE_END = re.compile(rb'\[DONE\]|"message_stop"|"choices": ?\[\].{0,200}"usage": ?\{|"usage": ?\{.{0,400}"choices": ?\[\]', re.DOTALL)
_ENDPOINT = re.compile(r"/(?:chat/completions|messages|models)/*\Z")
_MESSAGES_VERSION = "2023-06-01"
_AGENT = "toolgraft"

KeyHeader = Literal["auto", "bearer", "x-api-key", "api-key"]


class UpstreamConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One upstream: where it is, how it is reached, what it takes.

    `url` is the base URL; without a path, `/v1` is meant. `key` is secret and never printed. `key_header` "auto" is `x-api-key` for a
    Messages upstream and a Bearer token else. `proxy` is an egress proxy's URL, `ca_file` a PEM bundle. `connect_s` in seconds.
    The traits take this upstream's name, and know whether the key is its own. Raises ValueError for a URL that cannot work, or that holds
    credentials: beside a key two of them would claim the same header.
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
        if "@" in urlsplit(self.url).netloc:
            raise ValueError("url: holds a user name or password; name the upstream's key with key_env or key_file instead")
        if self.proxy is not None:
            _check_url("proxy", self.proxy)
        own_key = self.key is not None
        if self.traits.name != self.name or self.traits.own_key != own_key:
            traits = msgspec.structs.replace(self.traits, name=self.name, own_key=own_key)
            msgspec.structs.force_setattr(self, "traits", traits)

    def __repr__(self) -> str:
        """Name and host only: no key, and no credentials that stand in a URL."""
        return f"UpstreamConfig(name={self.name!r}, host={urlsplit(self.url).hostname!r}, key={'***' if self.key else None})"

    def endpoint(self, path: str) -> URL:
        """The full URL of a path below the base; a query of the base stays. A base that names an endpoint means its parent."""
        base = URL(self.url)
        root = _ENDPOINT.sub("", base.raw_path).rstrip("/")
        if base.raw_path in ("", "/"):
            root = "/v1"
        return base.with_path(root + path, encoded=True).with_query(base.query) if base.query else base.with_path(root + path, encoded=True)


def _check_url(field: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and bool(URL(url).host)
    except ValueError:  # a port or an address that is none; its words quote the URL
        usable = False
    if not usable:
        raise ValueError(f"{field}: an http:// or https:// URL with a host is needed")


class TransportError(Exception):
    """A request failed on the wire. `outcome` is CONNECT (no connection) or CUT (it broke off). The message holds no data of a peer."""

    def __init__(self, outcome: UpstreamOutcome) -> None:
        """Carry the outcome."""
        super().__init__(outcome.value)
        self.outcome = outcome


class UpstreamResponse:
    """An answer: `status`, `headers` (lower-case names), and its body's bytes as they arrive. Iterate over it, or `read`."""

    __slots__ = ("_last", "_lingering", "_mask", "_response", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse, lingering: set[asyncio.Task[None]], key: str | None = None) -> None:
        """Take a response whose headers are in. `lingering` holds the tasks that wait for connections to end; `key` never stands in what is read."""
        self._mask = key_mask(key)
        self._response = response
        self._lingering = lingering
        self._last = b""
        self.status = response.status
        self.headers = _lower(response)

    @property
    def content_type(self) -> str:
        """The media type as the upstream wrote it."""
        return self.headers.get("content-type", "")

    async def read(self) -> bytes:
        """What has arrived, at least one byte; empty at the end of the body. Raises TransportError when it was cut."""
        if self._mask is None:
            return await self._read()
        while data := await self._read():
            if masked := self._mask.feed(data):
                return masked
        return self._mask.close()

    async def _read(self) -> bytes:
        try:
            data = await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as exc:
            self._response.close()
            raise TransportError(UpstreamOutcome.CUT) from exc
        if data:
            self._last = data
        return data

    def __aiter__(self) -> Self:
        """Iterate over reads."""
        return self

    async def __anext__(self) -> bytes:
        """The next read."""
        data = await self.read()
        if not data:
            raise StopAsyncIteration
        return data

    def abort(self) -> None:
        """Close the connection at once; nothing when the body has ended.

        An answer that has said its last word is the exception: its connection has a moment to end in order, and can then be used again.
        """
        if self._response.closed or self._response.connection is None:
            return
        if self._last and _THE_END.search(self._last[-_TAIL:]):
            task = asyncio.get_running_loop().create_task(self._linger())
            self._lingering.add(task)
            task.add_done_callback(self._lingering.discard)
        else:
            self._response.close()

    async def _linger(self) -> None:
        try:
            async with asyncio.timeout(_GRACE_S):
                while await self._response.content.readany():
                    pass
        except (aiohttp.ClientError, OSError, TimeoutError):
            pass
        finally:
            self._response.close()  # after an orderly end the connection is back in the pool already


class Transport:
    """All upstreams of a process, each with its own connections. To be used in one event loop, and closed there."""

    def __init__(self, upstreams: Iterable[UpstreamConfig]) -> None:
        """Take the upstreams. Raises OSError and ssl.SSLError for a CA bundle that cannot be read."""
        self._upstreams = {upstream.name: _Upstream(upstream) for upstream in upstreams}
        self._lingering: set[asyncio.Task[None]] = set()

    async def send(
        self, target: str, request: UpstreamRequest, *, client_key: str | None = None, headers: Mapping[str, str] | None = None
    ) -> UpstreamResponse:
        """Send one request; return once the answer's headers are in. Raises TransportError.

        `client_key` is the client's own key, given only where it is meant for this upstream; an upstream with a key of its own never
        gets it (U-K). `headers` are the caller's further ones, already chosen (trace context).
        """
        return await self._upstreams[target].send(request, client_key, headers or {}, self._lingering)

    async def models(self, target: str, *, client_key: str | None = None) -> list[str]:
        """The names of an upstream's models; none when it cannot say (U-M)."""
        try:
            async with asyncio.timeout(_MODELS_TIMEOUT_S):
                return await self._upstreams[target].models(client_key)
        except (TransportError, TimeoutError):
            return []

    async def close(self) -> None:
        """Close every connection."""
        for task in tuple(self._lingering):
            task.cancel()
        await asyncio.gather(*self._lingering, return_exceptions=True)
        for upstream in self._upstreams.values():
            await upstream.close()


class _Upstream:
    """One upstream's session and what each request to it carries."""

    def __init__(self, config: UpstreamConfig) -> None:
        self._config = config
        self._messages = config.traits.protocol is Api.ANTHROPIC_MESSAGES
        self._key_header = config.key_header
        if config.key_header == "auto":
            self._key_header = "x-api-key" if self._messages else "bearer"
        self._ssl = ssl.create_default_context(cafile=config.ca_file) if config.ca_file else True
        self._proxy = URL(config.proxy) if config.proxy else None
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=config.connect_s)
        self._urls: dict[str, URL] = {}
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self, request: UpstreamRequest, client_key: str | None, headers: Mapping[str, str], lingering: set[asyncio.Task[None]]
    ) -> UpstreamResponse:
        sent = {"content-type": "application/json", **self._headers(client_key), **headers, **dict(request.headers)}
        sent["accept"] = "text/event-stream" if request.stream else "application/json"
        body = request.body if len(request.body) < _BIG_BODY else BytesIO(request.body)  # aiohttp warns of big bytes
        return UpstreamResponse(await self._request("POST", request.path, sent, body), lingering, self._config.key)

    async def models(self, client_key: str | None) -> list[str]:
        response = await self._request("GET", "/models", self._headers(client_key), None)
        try:
            if response.status != HTTPStatus.OK:
                return []
            body = b""
            async for data in response.content.iter_any():
                body += data
                if len(body) > _MAX_MODELS_BYTES:
                    return []
        except (aiohttp.ClientError, OSError) as exc:
            raise TransportError(UpstreamOutcome.CUT) from exc
        finally:
            response.close()
        return _model_names(body)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _request(self, method: str, path: str, headers: Mapping[str, str], body: bytes | BytesIO | None) -> aiohttp.ClientResponse:
        url = self._urls.get(path)
        if url is None:
            url = self._urls[path] = self._config.endpoint(path)
        session = self._session
        if session is None:
            session = self._session = self._open()
        try:
            return await session.request(
                method,
                url,
                data=body,
                headers=headers,
                allow_redirects=False,
                proxy=self._proxy,
                ssl=self._ssl,
            )
        except _NO_CONNECTION as exc:
            raise TransportError(UpstreamOutcome.CONNECT) from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise TransportError(UpstreamOutcome.CUT) from exc

    def _open(self) -> aiohttp.ClientSession:
        """No limit of its own (admission has one), no cookies, no environment, no quotes of what a peer sent."""
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, limit_per_host=0, ttl_dns_cache=30, keepalive_timeout=30),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=self._timeout,
            trust_env=False,
            auto_decompress=True,  # for upstreams that squeeze although identity was asked for
            headers={"accept-encoding": "identity", "user-agent": _AGENT},
        )

    def _headers(self, client_key: str | None) -> dict[str, str]:
        headers: dict[str, str] = {}
        if self._messages:
            headers["anthropic-version"] = _MESSAGES_VERSION
        key = self._config.key if self._config.key is not None else client_key
        if key and key.isascii() and key.isprintable():
            if self._key_header == "bearer":
                headers["authorization"] = f"Bearer {key}"
            else:
                headers[self._key_header] = key
        return headers


_NO_CONNECTION = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
    aiohttp.ServerFingerprintMismatch,
)


def _lower(response: aiohttp.ClientResponse) -> dict[str, str]:
    """Headers by lower-case name, several of one name joined. Those that speak of an encoding which is undone are gone."""
    found: dict[str, str] = {}
    for name, value in response.headers.items():
        key = name.lower()
        found[key] = f"{found[key]}, {value}" if key in found else value
    if found.get("content-encoding", "identity") != "identity":
        del found["content-encoding"]
        found.pop("content-length", None)
    return found


def _model_names(body: bytes) -> list[str]:
    with contextlib.suppress(json_values.NotJsonError):
        listed = json_values.loads(body)
        entries = listed.get("data") if isinstance(listed, dict) else None
        if isinstance(entries, list):
            names = (entry.get("id") for entry in entries if isinstance(entry, dict))
            return [name for name in names if isinstance(name, str) and name]
    return []
