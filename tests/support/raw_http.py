"""Bytes to a port on loopback and bytes back: for what no HTTP client would send."""

from __future__ import annotations

import asyncio


async def converse(port: int, data: bytes, until: bytes = b"", within_s: float = 5.0) -> bytes:
    """Send and read until this mark has come, or the other side closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        answer = b""
        async with asyncio.timeout(within_s):
            while not until or until not in answer:
                piece = await reader.read(65536)
                if not piece:
                    break
                answer += piece
        return answer
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)
