"""The JavaScript that draws charts, in one text; it is made once per version and stored in the user's cache."""

from functools import cache
from importlib.metadata import version

from plait.files import atomic_file
from plait.measurement_cache import cache_file

__all__ = ["chart_library"]

_SNIPPET = "window.vegaEmbed = vegaEmbed;"


@cache
def chart_library() -> str:
    """vega, vega-lite and vega-embed for the version of Vega-Lite that altair writes."""
    import altair
    import vl_convert

    schema = ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    path = cache_file().with_name(f"vega-lite-{schema}-{version('vl-convert-python')}.js")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        pass
    # Inside an HTML page, `</script` ends a script and `<!--` may begin a comment.
    text = vl_convert.javascript_bundle(_SNIPPET, vl_version=schema)
    text = text.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError:  # works without a cache too
        pass
    return text
