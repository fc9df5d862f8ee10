"""A request's body off the wire: whole, decompressed, within its limits, in time.

In: an aiohttp request. Out: bytes, or a StageError with a 4xx of its own. Promise: no more than `max_body_bytes` is ever held, before or after
decompression; a body that drips has `body_s` seconds in all (aiohttp has no such deadline). What is big or packed asks for a place first, so that the
bodies of requests that wait take little memory.
"""

from __future__ import annotations

import asyncio
import importlib
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import ClientPayloadError, web

from pipeline.events import Failed
from pipeline.stage import StageError
from pipeline.verdicts import ErrorKind
from proxy.config.tree import Limits

_IN_A_THREAD = 64 << 10
"""Compressed bodies above this size are unpacked off the loop: 32 MiB take some 100 ms."""


BIG_BYTES = 1 << 20
"""A body above this size is read with its place alone."""
Admit = Callable[[], Awaitable[object]]
"""Waits for a place. Raises StageError where there is none to be had."""


async def read_body(request: web.BaseRequest, limits: Limits, admit: Admit) -> bytes:
    """The body. `admit` is awaited, perhaps more than once, before more than BIG_BYTES are held.

    Raises StageError: TOO_LARGE, TIMEOUT, or INVALID_REQUEST with status 400, 415 or 417, and whatever `admit` raises.
    """
    headers = request.headers
    if request.content_length is not None and request.content_length > limits.max_body_bytes:
        raise _too_large(limits)
    encoding = headers.get("Content-Encoding", "").strip().lower()
    unpack = None if encoding in ("", "identity") else _unpacker(encoding)
    if unpack is not None or (request.content_length or 0) > BIG_BYTES:
        await admit()
    if "Expect" in headers:
        await _expect(request, headers["Expect"])
    try:
        if request.content.is_eof():
            raw = await _read(request, limits, admit)
        else:
            async with asyncio.timeout(limits.body_s):
                raw = await _read(request, limits, admit)
    except TimeoutError:
        raise StageError(Failed(ErrorKind.TIMEOUT, "The request body did not arrive in time.")) from None
    except (ClientPayloadError, web.RequestPayloadError, ValueError):
        raise StageError(Failed(ErrorKind.INVALID_REQUEST, "The request body is broken.")) from None
    if unpack is None:
        return raw
    if len(raw) > _IN_A_THREAD:
        return await asyncio.to_thread(unpack, raw, limits)
    return unpack(raw, limits)


async def _read(request: web.BaseRequest, limits: Limits, admit: Admit) -> bytes:
    first = await request.content.readany()
    if request.content.at_eof() and len(first) <= limits.max_body_bytes:
        return first
    body = bytearray(first)
    while len(body) <= limits.max_body_bytes:
        if len(body) > BIG_BYTES:
            await admit()
        piece = await request.content.readany()
        if not piece:
            return bytes(body)
        body += piece
    raise _too_large(limits)


async def _expect(request: web.BaseRequest, value: str) -> None:
    """Answer `Expect: 100-continue`, as curl sends it with large bodies; the low-level server leaves that to us."""
    if value.strip().lower() != "100-continue":
        raise StageError(Failed(ErrorKind.INVALID_REQUEST, "This expectation cannot be met.", status=417))
    transport = request.transport
    if transport is not None and request.version >= (1, 1) and not request.content.is_eof():
        transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


Unpack = Callable[[bytes, Limits], bytes]


def _unpacker(encoding: str) -> Unpack:
    """How to unpack this encoding. Raises StageError (415) when it is not known here."""
    if encoding in ("gzip", "x-gzip"):
        return lambda raw, limits: _inflate(raw, limits, zlib.MAX_WBITS | 16)
    if encoding == "deflate":
        return _deflate
    zstd = _zstd() if encoding == "zstd" else None
    if zstd is not None:
        return lambda raw, limits: _unzstd(zstd, raw, limits)
    known = "gzip, deflate" + (", zstd" if _zstd() is not None else "")
    raise StageError(Failed(ErrorKind.INVALID_REQUEST, f"This Content-Encoding is not supported; known: {known}.", status=415))


def _inflate(raw: bytes, limits: Limits, wbits: int) -> bytes:
    """One or more members; the output is bounded while it is made, so that a bomb never unfolds."""
    out = bytearray()
    while raw:
        member = zlib.decompressobj(wbits)
        try:
            out += member.decompress(raw, limits.max_body_bytes + 1 - len(out))
        except zlib.error:
            raise _broken() from None
        if len(out) > limits.max_body_bytes or member.unconsumed_tail:
            raise _too_large(limits)
        if not member.eof:
            raise _broken()
        raw = member.unused_data
    return bytes(out)


def _deflate(raw: bytes, limits: Limits) -> bytes:
    """With the zlib header that the standard asks for, or without, as many send it."""
    wrapped = bool(raw) and raw[0] & 0x0F == 8
    return _inflate(raw, limits, zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)


def _unzstd(module: Any, raw: bytes, limits: Limits) -> bytes:
    out = bytearray()
    try:
        while raw:
            frame = module.ZstdDecompressor()
            out += frame.decompress(raw, max_length=limits.max_body_bytes + 1 - len(out))
            if len(out) > limits.max_body_bytes:
                raise _too_large(limits)
            if not frame.eof:
                raise _broken()
            raw = frame.unused_data
    except module.ZstdError:
        raise _broken() from None
    return bytes(out)


def _zstd() -> Any:
    """The module with zstd in it (Python 3.14, or its backport), or None."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


def _broken() -> StageError:
    return StageError(Failed(ErrorKind.INVALID_REQUEST, "The request body is not what its Content-Encoding says."))


def _too_large(limits: Limits) -> StageError:
    return StageError(Failed(ErrorKind.TOO_LARGE, f"The request body is larger than {limits.max_body_bytes} bytes."))
