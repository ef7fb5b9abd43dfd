"""Texts → token ids, by the tokenizers library."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Encoding, Tokenizer, normalizers
from tokenizers.implementations.bert_wordpiece import BertWordPieceTokenizer

from plait.errors import EncoderError

__all__ = ["TokenTable", "load_tokenizer", "tokenize", "tokenize_pairs"]

LONGEST_TOKEN = 200  # characters; a text is not tokenized far beyond the tokens that are kept


@dataclass(frozen=True)
class TokenTable:
    """The token ids of many texts, one after the other.

    `starts[i]:starts[i + 1]` are the ids of text i; its first `firsts[i]` tokens belong to segment 0.
    """

    ids: np.ndarray  # (all tokens,) int32
    starts: np.ndarray  # (texts + 1,) int64
    firsts: np.ndarray  # (texts,) int32
    truncated: int  # how many texts were cut

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each text."""
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.firsts)

    def row(self, index: int) -> np.ndarray:
        """The ids of one text."""
        return self.ids[self.starts[index] : self.starts[index + 1]]


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a checkpoint: tokenizer.json, or a BERT vocab.txt."""
    if (path := folder / "tokenizer.json").is_file():
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise EncoderError(f"{path}: cannot be read as a tokenizer: {error}") from None
    elif (path := folder / "vocab.txt").is_file():
        config_path = folder / "tokenizer_config.json"
        config = json.loads(config_path.read_text(encoding="utf-8")) if config_path.is_file() else {}
        tokenizer = Tokenizer.from_str(
            BertWordPieceTokenizer(
                str(path),
                lowercase=config.get("do_lower_case", True),
                strip_accents=config.get("strip_accents"),
                handle_chinese_chars=config.get("tokenize_chinese_chars", True),
            ).to_str()
        )
    else:
        raise EncoderError(f"{folder}: has neither tokenizer.json nor vocab.txt")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    sentences = folder / "sentence_bert_config.json"
    if sentences.is_file() and json.loads(sentences.read_text(encoding="utf-8")).get("do_lower_case"):
        others = [tokenizer.normalizer] if tokenizer.normalizer else []
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *others])
    return tokenizer


def tokenize(tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> TokenTable:
    """Each text alone, with its special tokens, cut to the limit."""
    cut_at(tokenizer, limit, pair=False)
    return gather(encode(tokenizer, texts, [text[: limit * LONGEST_TOKEN] for text in texts]))


def tokenize_pairs(tokenizer: Tokenizer, first: Sequence[str], second: Sequence[str], limit: int) -> TokenTable:
    """Two texts in one input; where they are too long, the longer one is cut first."""
    cut_at(tokenizer, limit, pair=True)
    most = limit * LONGEST_TOKEN
    pairs = list(zip(first, second, strict=True))
    return gather(encode(tokenizer, pairs, [(one[:most], two[:most]) for one, two in pairs]))


def encode(
    tokenizer: Tokenizer, inputs: Sequence[str | tuple[str, str]], beginnings: Sequence[str | tuple[str, str]]
) -> list[Encoding]:
    """The encodings of inputs from their beginnings, which is all of most; whole where a beginning fills no limit."""
    encodings: list[Encoding] = tokenizer.encode_batch(list(beginnings))
    for number, encoding in enumerate(encodings):
        if beginnings[number] != inputs[number] and not encoding.overflowing:
            encodings[number] = tokenizer.encode_batch([inputs[number]])[0]
    return encodings


def cut_at(tokenizer: Tokenizer, limit: int, *, pair: bool) -> None:
    """From now on texts are cut to the limit; tokenizers itself ignores one that the special tokens alone pass."""
    special = tokenizer.num_special_tokens_to_add(pair)
    if limit <= special:
        room = f"a limit of {limit} tokens has no room for text beside {special} special tokens"
        raise EncoderError(f"{room}; raise max_length")
    tokenizer.enable_truncation(limit, strategy="longest_first")


def gather(encodings: Sequence[Encoding]) -> TokenTable:
    """One table of many encodings."""
    lengths = [len(encoding.ids) for encoding in encodings]
    ids = np.fromiter((token for encoding in encodings for token in encoding.ids), np.int32, sum(lengths))
    firsts = np.fromiter((encoding.type_ids.count(0) for encoding in encodings), np.int32, len(encodings))
    truncated = sum(bool(encoding.overflowing) for encoding in encodings)
    return TokenTable(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), firsts, truncated)
