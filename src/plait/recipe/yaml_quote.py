"""Strings as YAML reads them back."""

import re

__all__ = ["quoted"]

_PLAIN = re.compile(r"[A-Za-z_][\w./-]*|\.{1,2}/[\w./-]*|/[\w./-]*", re.ASCII)
_YAML_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def quoted(word: str | None) -> str:
    """A string as YAML reads it back; numbers are quoted, since names of columns and tasks are strings."""
    text = word or ""
    if _PLAIN.fullmatch(text) and text.lower() not in _YAML_WORDS:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
