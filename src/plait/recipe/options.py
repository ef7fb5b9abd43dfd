"""The options of a variant are the keyword-only parameters of its function or class, with the defaults given there."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from plait.errors import did_you_mean
from plait.names import excerpt
from plait.recipe.normalize import LARGEST

__all__ = ["complete_options", "explain", "options_of"]

_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
# Findings of pydantic whose messages would mention Python types.
_EXPECTED = {
    "model_type": "a name, or keys and values",
    "dict_type": "keys and values",
    "tuple_type": "a list",
    "list_type": "a list",
    "too_short": "at least one",
    "too_long": "fewer",
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
}
_COMPARED = ("greater than", "less than")


def options_of(variant: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """The keyword-only parameters of a variant, by name."""
    parameters = inspect.signature(variant).parameters.values()
    return {parameter.name: parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}


def complete_options(variant: Callable[..., object], given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The options with every default filled in, and what is wrong with those given."""
    allowed = options_of(variant)
    hints = get_type_hints(variant.__init__ if inspect.isclass(variant) else variant, include_extras=True)
    options: dict[str, Any] = {}
    mistakes = [f": unknown key {key!r}; {did_you_mean(str(key), allowed)}" for key in given if key not in allowed]
    for name, parameter in allowed.items():
        if name not in given:
            if parameter.default is inspect.Parameter.empty:
                mistakes.append(f": missing key {name!r}")
            else:
                options[name] = parameter.default
            continue
        value = tuple(given[name]) if isinstance(given[name], list) else given[name]
        if isinstance(value, int) and abs(value) > LARGEST:
            mistakes.append(f".{name}: expected a number up to {LARGEST:,}, found {_shown(value)}")
            continue
        try:
            options[name] = TypeAdapter(hints[name], config=_STRICT).validate_python(value)
        except ValidationError as error:
            mistakes.append(f".{name}: {explain(error.errors()[0])}")
    return options, mistakes


def explain(error: Mapping[str, Any]) -> str:
    """pydantic's finding as a phrase that ends with what was found."""
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    if error["type"] == "value_error":
        return message
    found = error.get("input")
    message = _EXPECTED.get(error["type"], message)
    shown = _shown(found)
    return f"expected {'a number ' if message.startswith(_COMPARED) else ''}{message}, found {shown}"


def _shown(found: object) -> str:
    if isinstance(found, str | float | bool | None):
        return repr(excerpt(found) if isinstance(found, str) else found)
    if isinstance(found, int):
        return f"{found}" if abs(found) < 10**40 else "a number of more than 40 digits"
    if isinstance(found, Mapping):
        return "keys and values" if found else "no keys"
    if isinstance(found, list | tuple):
        return "a list" if found else "an empty list"
    return type(found).__name__
