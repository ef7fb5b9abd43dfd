"""YAML text → a document with line numbers, within limits: a small file cannot take long or fill the memory."""

import warnings
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError

__all__ = ["MOST_CHARACTERS", "InvalidYaml", "parse_yaml"]

# A second's work for the parser. The largest recipe of plait has 10 kB and about 1,000 values.
MOST_CHARACTERS = 1_000_000
_MOST_VALUES = 20_000
_MOST_EXPANDED = 100_000  # values, if each is counted as often as an alias repeats it
_MOST_LEVELS = 40
_DATA_ELSEWHERE = "give data as files"
_PROBLEMS = {
    "found character '\\t' that cannot start any token": "a tab; use spaces instead",
    "mapping values are not allowed here": "a key is not expected here; check the indentation",
}


class InvalidYaml(Exception):
    """What is wrong with a text, in one line, and the line of the text if it is known."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


def parse_yaml(text: str) -> Any:
    """The document in a text, of ruamel's types, which know their lines; raises InvalidYaml."""
    if len(text) > MOST_CHARACTERS:
        raise InvalidYaml(f"more than {MOST_CHARACTERS:,} characters; {_DATA_ELSEWHERE}")
    yaml = YAML(typ="rt")
    yaml.Composer = _LimitedComposer
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about anchors that are defined again
            document = yaml.load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        raise InvalidYaml(f"not valid YAML: {_explain(error)}", mark.line + 1 if mark else None) from None
    except YAMLError as error:
        raise InvalidYaml(f"not valid YAML: {str(error).splitlines()[0]}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Of a value that does not suit its tag, such as a date of month 99.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InvalidYaml(f"not valid YAML: a value cannot be read ({reason}); quote it") from None
    _measure(document, {}, 1)
    return document


def _explain(error: MarkedYAMLError) -> str:
    problem = str(error.problem or error.context or "cannot be parsed").splitlines()[0]
    return _PROBLEMS.get(problem, problem)


class _LimitedComposer(Composer):
    """Stops at the first value too many or too deep."""

    values = levels = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.values += 1
        self.levels += 1
        line = self.parser.peek_event().start_mark.line + 1
        if self.values > _MOST_VALUES:
            raise InvalidYaml(f"more than {_MOST_VALUES:,} values; {_DATA_ELSEWHERE}", line)
        if self.levels > _MOST_LEVELS:
            raise InvalidYaml(_TOO_DEEP, line)
        node = super().compose_node(parent, index)
        self.levels -= 1
        return node


_TOO_DEEP = f"nested more than {_MOST_LEVELS} levels deep; write it flatter"


def _measure(node: Any, known: dict[int, tuple[int, int]], level: int) -> tuple[int, int]:
    """The number of values and levels below a node, every alias counted as what it repeats.

    `known` holds them by the identity of the node, (0, 0) while its own values are being counted.
    """
    values = node.values() if isinstance(node, Mapping) else node if isinstance(node, list | tuple) else ()
    if not values:
        return 1, 1
    if id(node) not in known:
        known[id(node)] = (0, 0)
        if level > _MOST_LEVELS:
            raise InvalidYaml(_TOO_DEEP)
        below = [_measure(value, known, level + 1) for value in values]
        known[id(node)] = 1 + sum(count for count, _ in below), 1 + max(levels for _, levels in below)
    count, levels = known[id(node)]
    if not count:
        raise InvalidYaml("an alias refers to a value that contains it; write the value out")
    if count > _MOST_EXPANDED:
        raise InvalidYaml(f"aliases make more than {_MOST_EXPANDED:,} values of it; {_DATA_ELSEWHERE}")
    if level + levels > _MOST_LEVELS + 1:
        raise InvalidYaml(_TOO_DEEP)
    return count, levels
