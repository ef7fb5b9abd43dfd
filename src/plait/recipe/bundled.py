"""The recipes and suites that come with plait."""

from pathlib import Path

__all__ = ["BUNDLED", "bundled_recipes"]

BUNDLED = Path(__file__).parent.parent / "recipes"


def bundled_recipes() -> dict[str, Path]:
    """Every bundled recipe by its name, rows of suites aside: `starter`, `best/minilm`, …"""
    files = [*BUNDLED.glob("*.yaml"), *BUNDLED.glob("best/*.yaml")]
    return {file.relative_to(BUNDLED).with_suffix("").as_posix(): file for file in sorted(files)}
