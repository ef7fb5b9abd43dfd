"""Texts → token ids, by the tokenizers library."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer, normalizers
from tokenizers.implementations.bert_wordpiece import BertWordPieceTokenizer

from plait.errors import EncoderError
from plait.files import read_json

__all__ = ["TextTokenizer", "TokenTable", "Word", "load_tokenizer"]

_LONGEST_TOKEN = 200  # characters; a long text is cut to this many per token that fits before it is tokenized


@dataclass(frozen=True)
class TokenTable:
    """The token ids of many inputs in one array.

    `ids[starts[i]:starts[i + 1]]` are the ids of input i; its first `firsts[i]` tokens belong to segment 0.
    """

    ids: np.ndarray  # (all tokens,) int32
    starts: np.ndarray  # (inputs + 1,) int64
    firsts: np.ndarray  # (inputs,) int32
    is_truncated: np.ndarray  # (inputs,) bool

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each input."""
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.firsts)

    def row(self, index: int) -> np.ndarray:
        """The ids of one input."""
        return self.ids[self.starts[index] : self.starts[index + 1]]

    def chosen(self, rows: Sequence[int]) -> "TokenTable":
        """Only these inputs, in this order."""
        ids = [self.row(row) for row in rows]
        starts = np.concatenate([[0], np.cumsum([len(row) for row in ids])]).astype(np.int64)
        chosen = list(rows)
        return TokenTable(np.concatenate([*ids, self.ids[:0]]), starts, self.firsts[chosen], self.is_truncated[chosen])


@dataclass(frozen=True)
class Word:
    """A word of an input as the encoder sees it, or a special token."""

    text: str
    start: int  # its first token
    end: int  # after its last token


class TextTokenizer:
    """Tokenizes and truncates without shared state: threads with different limits can use it at the same time."""

    def __init__(self, tokenizer: Tokenizer, limit: int) -> None:
        self.limit = limit
        self.json: str = tokenizer.to_str()  # tokenizer.json, without truncation
        self.special_ids = sorted({*tokenizer.encode("").ids, *tokenizer.encode("", "").ids})
        self.largest_id = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
        self._special = {pair: tokenizer.num_special_tokens_to_add(pair) for pair in (False, True)}
        self._lock = Lock()
        self._by_limit: dict[int, Tokenizer] = {}
        if limit > self._special[False]:
            tokenizer.enable_truncation(limit, strategy="longest_first")
            self._by_limit[limit] = tokenizer

    def special_tokens(self, *, pair: bool) -> int:
        """The number of special tokens that are added to a text, or to a pair."""
        return self._special[pair]

    def tokenize(self, texts: Sequence[str], limit: int, second: Sequence[str] | None = None) -> TokenTable:
        """Each text with its special tokens, truncated to the limit.

        With `second`, each input joins two texts; if they are too long, the longer one is truncated first.
        """
        encodings = self._encode(self._limited_to(limit, pair=second is not None), texts, limit, second)
        lengths, count = [len(encoding.ids) for encoding in encodings], len(encodings)
        ids = np.fromiter((token for encoding in encodings for token in encoding.ids), np.int32, sum(lengths))
        firsts = np.fromiter((encoding.type_ids.count(0) for encoding in encodings), np.int32, count)
        is_truncated = np.fromiter((bool(encoding.overflowing) for encoding in encodings), np.bool_, count)
        return TokenTable(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), firsts, is_truncated)

    def words(self, texts: Sequence[str], limit: int, second: Sequence[str] | None = None) -> list[list[Word]]:
        """The words behind the tokens of the same inputs, in lower case if the encoder ignores case."""
        tokenizer = self._limited_to(limit, pair=second is not None)
        encodings = self._encode(tokenizer, texts, limit, second)
        return [
            _words(tokenizer, encoding, [column[row] for column in (texts, second) if column is not None])
            for row, encoding in enumerate(encodings)
        ]

    @staticmethod
    def _encode(tokenizer: Tokenizer, texts: Sequence[str], limit: int, second: Sequence[str] | None) -> list[Encoding]:
        most = limit * _LONGEST_TOKEN
        inputs: list[str] | list[tuple[str, str]] = list(texts)
        beginnings: list[str] | list[tuple[str, str]] = [text[:most] for text in texts]
        if second is not None:
            inputs = list(zip(texts, second, strict=True))
            beginnings = [(one[:most], two[:most]) for one, two in inputs]
        encodings: list[Encoding] = tokenizer.encode_batch(beginnings)
        for number, encoding in enumerate(encodings):
            if (
                beginnings[number] != inputs[number] and not encoding.overflowing
            ):  # the beginning does not fill the limit
                encodings[number] = tokenizer.encode_batch([inputs[number]])[0]
        return encodings

    def _limited_to(self, limit: int, *, pair: bool) -> Tokenizer:
        """The tokenizer that truncates to a limit. It is never changed afterwards, so that threads can share it."""
        if limit <= self._special[pair]:  # tokenizers itself would ignore such a limit
            room = f"a limit of {limit} tokens leaves no room for text beside {self._special[pair]} special tokens"
            raise EncoderError(f"{room}; raise max_length")
        with self._lock:
            if limit not in self._by_limit:
                tokenizer = Tokenizer.from_str(self.json)
                tokenizer.enable_truncation(limit, strategy="longest_first")
                self._by_limit[limit] = tokenizer
            return self._by_limit[limit]


def _words(tokenizer: Tokenizer, encoding: Encoding, texts: Sequence[str]) -> list[Word]:
    """The words of one input; consecutive tokens with the same number belong to one word."""
    numbers = list(zip(encoding.sequence_ids, encoding.word_ids, strict=True))
    found = []
    for start, (text, word) in enumerate(numbers):
        if text is None or word is None:
            found.append(Word(encoding.tokens[start], start, start + 1))
        elif not start or numbers[start - 1] != (text, word):
            end = next((place for place in range(start, len(numbers)) if numbers[place] != (text, word)), len(numbers))
            written = texts[text][encoding.offsets[start][0] : encoding.offsets[end - 1][1]].strip()
            normal = tokenizer.normalizer.normalize_str(written) if tokenizer.normalizer else written
            found.append(Word(normal or encoding.tokens[start], start, end))  # RoBERTa has tokens of spaces
    return found


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a checkpoint: tokenizer.json, or a BERT vocab.txt."""
    if (path := folder / "tokenizer.json").is_file():
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing more specific
            raise EncoderError(f"{path}: not a valid tokenizer: {error}") from None
    elif (path := folder / "vocab.txt").is_file():
        config = _read_settings(folder / "tokenizer_config.json")
        pieces = set(path.read_text(encoding="utf-8", errors="replace").splitlines())
        if missing := {"[CLS]", "[SEP]"} - pieces:  # MPNet's, for example
            raise EncoderError(f"{path}: no {' and '.join(sorted(missing))}, so not BERT's; add a tokenizer.json")
        try:
            tokenizer = Tokenizer.from_str(
                BertWordPieceTokenizer(
                    str(path),
                    lowercase=config.get("do_lower_case", True),
                    strip_accents=config.get("strip_accents"),
                    handle_chinese_chars=config.get("tokenize_chinese_chars", True),
                ).to_str()
            )
        except Exception as error:
            raise EncoderError(f"{path}: not a valid vocabulary: {error}") from None
    else:
        raise EncoderError(f"{folder}: contains neither tokenizer.json nor vocab.txt; add one of them")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if _read_settings(folder / "sentence_bert_config.json").get("do_lower_case"):
        others = [tokenizer.normalizer] if tokenizer.normalizer else []
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *others])
    return tokenizer


def _read_settings(path: Path) -> dict[str, Any]:
    """The keys of a JSON file with settings of the tokenizer; none if there is no such file."""
    try:
        value = read_json(path) if path.is_file() else {}
    except ValueError as error:
        raise EncoderError(f"{path}: is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise EncoderError(f"{path}: expected a JSON object, found a {type(value).__name__}")
    return value
