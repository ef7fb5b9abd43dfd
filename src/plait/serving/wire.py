"""Messages between the server and its workers: a JSON header and the bytes of an array, each preceded by its length."""

import asyncio
import struct
from typing import IO, Any

import orjson

__all__ = ["pack_message", "read_message", "receive_message"]

_LENGTHS = struct.Struct("<IQ")


def pack_message(header: Any, payload: bytes = b"") -> bytes:
    """A message as bytes."""
    text = orjson.dumps(header)
    return b"".join((_LENGTHS.pack(len(text), len(payload)), text, payload))


def read_message(file: IO[bytes]) -> tuple[Any, bytes]:
    """The next message; raises EOFError if there is none."""
    header, payload = _LENGTHS.unpack(_read(file, _LENGTHS.size))
    return orjson.loads(_read(file, header)), _read(file, payload)


async def receive_message(stream: asyncio.StreamReader) -> tuple[Any, bytes]:
    """The same for the server; raises IncompleteReadError, an EOFError."""
    header, payload = _LENGTHS.unpack(await stream.readexactly(_LENGTHS.size))
    return orjson.loads(await stream.readexactly(header)), await stream.readexactly(payload)


def _read(file: IO[bytes], count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise EOFError
    return data
