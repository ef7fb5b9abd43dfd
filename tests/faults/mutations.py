"""Random changes of files: what disks, editors, exports and attackers do to bytes, text and JSON."""

import json
import random
from typing import Any

__all__ = ["mutate_bytes", "mutate_json", "mutate_text"]

_BYTES = [
    *(b"\0", b'"', b"'", b"\r", b"\n", b"\r\n", b"\t", b",", b";", b"\\", b"{", b"[" * 50, b"-", b"\x1a"),
    *(b"nan", b"1e400", b"=1+1"),
    *(b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80"),
]
_TEXTS = [
    *("", " ", "\t", "- ", ": ", "? ", "{", "}", "[", "]", "|", ">", "#", "'", '"', "---\n", "...\n", "%YAML 9.9\n"),
    *("&a ", "*a", "<<: *a", "!!python/object:os.system ", "null", "~", "true", "no"),
    *("NaN", ".inf", "-.inf", "1e400", "1e-320", "0x1F", "-1", "0", "1.5", str(10**18), str(-(10**30))),
    *("/etc/passwd", "../..", "\0", "\x07", "\u2028", "é", "😀", "a" * 5_000, "[" * 300, "{a: " * 100),
    *("hub:none", "minilm", "round_robin", "surgery", "focal"),
]
_VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 1.5, 1e308, 1e-320, 10**9, 10**18, -(10**18), float("nan"), float("inf")),
    *("", "x", "../../etc/passwd", "/etc/passwd", "\0", "a" * 5_000, "é\u2028"),
    *([], {}, [[]], [None], {"": None}, ["x"] * 2_000, {"name": "linear"}),
]


def mutate_bytes(data: bytes, chance: random.Random) -> bytes:
    """One change in the middle of some bytes."""
    at, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    end = min(end, at + chance.choice([1, 3, 40, len(data)]))
    way = chance.randrange(7)
    if way == 0 and at < len(data):  # a bit
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if way == 1:  # gone
        return data[:at] + data[end:]
    if way == 2:  # twice
        return data[:end] + data[at:]
    if way == 3:  # cut off
        return data[:at]
    if way == 4:  # noise
        return data[:at] + chance.randbytes(end - at) + data[end:]
    return data[:at] + chance.choice(_BYTES) + data[end if way == 5 else at :]


def mutate_text(text: str, chance: random.Random) -> str:
    """One change of a line, a word or a place in a text of keys and values."""
    lines = text.splitlines(keepends=True) or [""]
    at = chance.randrange(len(lines))
    way = chance.randrange(8)
    if way == 0:
        lines.pop(at)
    elif way == 1:
        lines.insert(at, chance.choice(lines))
    elif way == 2:
        lines[at] = " " * chance.randrange(9) + lines[at].lstrip(" ")
    elif way in (3, 4) and ":" in lines[at]:  # another value
        lines[at] = f"{lines[at].split(':')[0]}: {chance.choice(_TEXTS)}\n"
    elif way == 5 and ":" in lines[at]:  # another key
        lines[at] = f"{chance.choice(_TEXTS)}:{lines[at].partition(':')[2]}"
    elif way == 6:
        place = chance.randrange(len(lines[at]) + 1)
        lines[at] = lines[at][:place] + chance.choice(_TEXTS) + lines[at][place:]
    else:
        return mutate_bytes(text.encode(), chance).decode("utf-8", "replace")
    return "".join(lines)


def mutate_json(value: Any, chance: random.Random) -> Any:
    """One change somewhere inside a value: another value, another key, one less, one twice."""
    value = json.loads(json.dumps(value))
    holder: Any = {"": value}
    key: Any = ""
    while isinstance(holder[key], dict | list) and holder[key] and chance.random() < 0.85:
        holder = holder[key]
        key = chance.choice(list(holder)) if isinstance(holder, dict) else chance.randrange(len(holder))
        if not isinstance(holder[key], dict | list):
            break
    top = key == "" and not isinstance(holder, list) and holder.get("") is value
    way = chance.randrange(5)
    if top or way < 3:
        changed = chance.choice(_VALUES)
        if top:
            return changed
        holder[key] = changed
    elif way == 3:
        del holder[key]
    elif isinstance(holder, dict):
        holder[chance.choice([f"{key}x", "", "__class__", "format"])] = holder.pop(key)
    else:
        holder.insert(key, holder[key])
    return value
