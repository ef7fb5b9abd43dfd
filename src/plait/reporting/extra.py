"""The packages that draw a report, which are an extra."""

from importlib.util import find_spec

from plait.errors import RequestError

__all__ = ["has_extra", "require_extra"]

_PACKAGES = {"altair": "altair", "jinja2": "jinja2", "vl_convert": "vl-convert-python"}


def has_extra() -> bool:
    """Whether a report can be drawn here."""
    return all(find_spec(module) for module in _PACKAGES)


def require_extra() -> None:
    """Refuse a request for a page that cannot be drawn, and say what to install."""
    missing = [name for module, name in _PACKAGES.items() if not find_spec(module)]
    if missing:
        raise RequestError(f'a report needs the packages {", ".join(missing)}; pip install "plait[report]"')
