"""Words as YAML reads them back."""

import re

__all__ = ["quoted"]

PLAIN = re.compile(r"[A-Za-z_][\w./-]*|\.{1,2}/[\w./-]*|/[\w./-]*", re.ASCII)
WORDS_OF_YAML = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def quoted(word: str | None) -> str:
    """A word as YAML reads it back; numbers in quotes, since the names of columns and tasks are words."""
    text = word or ""
    if PLAIN.fullmatch(text) and text.lower() not in WORDS_OF_YAML:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
