"""Texts of a request → examples, tokenized and ready for a worker. Nothing here imports torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from plait.data.batch import view_columns
from plait.data.tokenize import TextTokenizer

__all__ = ["EMBEDDING", "Example", "Member", "make_examples", "pack_examples", "unpack_examples"]

EMBEDDING = ""  # what is asked of a model beside its tasks


@dataclass(frozen=True, slots=True)
class Example:
    """One text, pair or triplet as the encoder reads it: distinct inputs for each member of the model."""

    ids: list[np.ndarray]  # token ids of each input, member by member
    firsts: list[int]  # tokens of each input in segment 0
    counts: list[int]  # inputs of each member
    reads: dict[str, list[list[int]]]  # task or EMBEDDING → member → the input of each view
    tokens: int
    truncated: bool


@dataclass(frozen=True)
class Member:
    """How one member of a model reads texts."""

    tokenizer: TextTokenizer
    reads: Mapping[str, tuple[tuple[str, ...], int]]  # task or EMBEDDING → its views, and the tokens it truncates to

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Member":
        tokenizer = TextTokenizer(Tokenizer.from_str(value["tokenizer"]), value["limit"])
        return Member(tokenizer, {name: (tuple(views), limit) for name, (views, limit) in value["reads"].items()})


def make_examples(members: Sequence[Member], asked: Sequence[str], columns: Sequence[Sequence[str]]) -> list[Example]:
    """One example per row of the columns, for some tasks or EMBEDDING; every text is tokenized once per limit."""
    rows = range(len(columns[0]))
    examples = [Example([], [], [], {name: [] for name in asked}, 0, False) for _ in rows]
    tokens, truncated = [0] * len(examples), [False] * len(examples)
    for member in members:
        tables = {}
        for views, limit in dict.fromkeys(member.reads[name] for name in asked):
            for view in views:
                first, second = view_columns(view, columns)
                tables[view, limit] = member.tokenizer.tokenize(first, limit, second)
        starts = {key: table.starts.tolist() for key, table in tables.items()}
        firsts = {key: table.firsts.tolist() for key, table in tables.items()}
        for row in rows:
            example = examples[row]
            places: dict[tuple[str, int], int] = {}  # of the inputs, by view and limit
            found: dict[object, int] = {}  # of the inputs, by content
            for key, table in tables.items():
                ids, segment = table.ids[starts[key][row] : starts[key][row + 1]], firsts[key][row]
                content = (ids.tobytes(), segment) if len(tables) > 1 else key
                if content not in found:
                    found[content] = len(found)
                    example.ids.append(ids)
                    example.firsts.append(segment)
                    tokens[row] += len(ids)
                places[key] = found[content]
            example.counts.append(len(found))
            for name in asked:
                views, limit = member.reads[name]
                example.reads[name].append([places[view, limit] for view in views])
        for table in tables.values():
            for row in np.flatnonzero(table.is_truncated).tolist():
                truncated[row] = True
    return [
        Example(one.ids, one.firsts, one.counts, one.reads, tokens[row], truncated[row])
        for row, one in enumerate(examples)
    ]


def pack_examples(examples: Sequence[Example]) -> tuple[dict[str, Any], bytes]:
    """Examples as a JSON header and the bytes of their token ids."""
    header = {
        "lengths": [len(ids) for example in examples for ids in example.ids],
        "firsts": [first for example in examples for first in example.firsts],
        "counts": [example.counts for example in examples],
        "reads": [example.reads for example in examples],
    }
    return header, b"".join(ids.tobytes() for example in examples for ids in example.ids)


def unpack_examples(header: Mapping[str, Any], payload: bytes) -> list[Example]:
    """The examples that `pack_examples` packed."""
    lengths = header["lengths"]
    inputs = np.split(np.frombuffer(payload, np.int32), np.cumsum(lengths)[:-1])
    found, start = [], 0
    for counts, reads in zip(header["counts"], header["reads"], strict=True):
        end = start + sum(counts)
        ids, firsts = inputs[start:end], header["firsts"][start:end]
        found.append(Example(ids, firsts, counts, reads, sum(lengths[start:end]), False))
        start = end
    return found
