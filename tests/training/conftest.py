from collections.abc import Callable

import pytest


@pytest.fixture
def staged(tiny_recipe) -> Callable[..., dict]:
    """First `near` for four epochs, then `mood` and `same` for two; keyword arguments change the two stages."""

    def make(first: dict | None = None, second: dict | None = None, **changes) -> dict:
        recipe = tiny_recipe(dropout=0.3, lr=1e-2, **changes)
        stages = [{"tasks": ["near"], "epochs": 4, **(first or {})}, {"tasks": ["mood", "same"], **(second or {})}]
        return {**recipe, "stages": stages}

    return make
