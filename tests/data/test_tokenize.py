"""Texts → token ids, truncated to a limit."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from plait.data.batch import make_batch, tokenize_views, views_of
from plait.data.tokenize import TextTokenizer, TokenTable, load_tokenizer
from plait.encoder.config import read_config
from plait.errors import EncoderError, PlaitError
from tiny import sentences

CLS, SEP = 2, 3  # in the tiny BERT


@pytest.fixture(scope="module")
def tokenizer(tiny_bert: Path) -> TextTokenizer:
    return tokenizer_of(tiny_bert)


@pytest.fixture(scope="module")
def ids(tiny_bert: Path) -> dict[str, int]:
    """The id of each token."""
    return load_tokenizer(tiny_bert).get_vocab()


def tokenizer_of(folder: Path) -> TextTokenizer:
    return TextTokenizer(load_tokenizer(folder), limit=40)


def rows(table: TokenTable) -> list[list[int]]:
    return [table.row(row).tolist() for row in range(len(table))]


def test_token_table_by_hand():
    table = TokenTable(
        np.array([7, 8, 9, 5, 6, 4], np.int32), np.array([0, 3, 3, 6]), np.array([2, 0, 3], np.int32), np.zeros(3, bool)
    )
    assert len(table) == 3
    assert rows(table) == [[7, 8, 9], [], [5, 6, 4]]
    assert table.lengths.tolist() == [3, 0, 3]


def test_a_table_of_no_texts_is_empty(tokenizer):
    for table in (tokenizer.tokenize([], 8), tokenizer.tokenize([], 8, [])):
        assert len(table) == 0 and table.starts.tolist() == [0] and table.is_truncated.sum() == 0


def test_texts_have_special_tokens_and_one_segment(tokenizer, ids):
    good, film = ids["good"], ids["film"]
    table = tokenizer.tokenize(["good film", "", "film"], 8)
    assert rows(table) == [[CLS, good, film, SEP], [CLS, SEP], [CLS, film, SEP]]
    assert table.starts.tolist() == [0, 4, 6, 9]
    assert table.firsts.tolist() == [4, 2, 3] and table.is_truncated.sum() == 0


def test_pairs_have_special_tokens_and_two_segments(tokenizer, ids):
    good, film = ids["good"], ids["film"]
    table = tokenizer.tokenize(["good film", "film"], 8, ["film", "good good"])
    assert rows(table) == [[CLS, good, film, SEP, film, SEP], [CLS, film, SEP, good, good, SEP]]
    assert table.firsts.tolist() == [4, 3]


def test_roberta_has_one_segment_for_a_pair(tiny_roberta):
    table = tokenizer_of(tiny_roberta).tokenize(["good film"], 30, ["film"])
    assert table.firsts.tolist() == table.lengths.tolist()


def words(count: int, word: str = "good") -> str:
    """A text of this many tokens."""
    return " ".join([word] * count)


def test_truncated_texts_are_counted(tokenizer):
    # With [CLS] and [SEP], 8 words are 10 tokens: 8 words just fit, 9 do not.
    table = tokenizer.tokenize([words(7), words(8), words(9), words(30)], 10)
    assert table.lengths.tolist() == [9, 10, 10, 10]
    assert table.is_truncated.sum() == 2 and table.is_truncated.tolist() == [False, False, True, True]


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        (10, 3, (5, 3)),  # 8 fit: all five surplus words come off the longer text
        (3, 10, (3, 5)),
        (2, 6, (2, 6)),  # exactly full
        (9, 7, (4, 4)),  # down to equal length, then from both in turn
    ],
)
def test_the_longer_text_of_a_pair_is_truncated_first(tokenizer, ids, first, second, left):
    table = tokenizer.tokenize([words(first)], 11, [words(second, "film")])  # 8 words and 3 special tokens
    good, film = ids["good"], ids["film"]
    assert rows(table) == [[CLS, *[good] * left[0], SEP, *[film] * left[1], SEP]]
    assert table.firsts.tolist() == [left[0] + 2]
    assert table.is_truncated.sum() == (first + second > 8)


def test_no_text_is_longer_than_the_limit_and_only_truncated_ones_are_counted(tokenizer):  # property
    columns = sentences(80, seed=1, longest=30), sentences(80, seed=2, longest=30)
    for second in (None, columns[1]):
        whole = tokenizer.tokenize(columns[0], 1000, second).lengths
        for limit in range(5, 80):
            table = tokenizer.tokenize(columns[0], limit, second)
            assert table.lengths.tolist() == np.minimum(whole, limit).tolist()
            assert table.is_truncated.sum() == (whole > limit).sum()


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_a_limit_without_room_for_text_is_rejected(tokenizer, limit):
    with pytest.raises(PlaitError, match=rf"\b{limit}\b"):
        tokenizer.tokenize(["a good film"], limit)
    with pytest.raises(PlaitError, match=rf"\b{limit}\b"):
        tokenizer.tokenize(["a good film"], limit, ["a film"])


def test_one_limit_does_not_affect_the_next(tiny_bert):
    texts = sentences(20, seed=3, longest=30)
    used = tokenizer_of(tiny_bert)
    used.tokenize(texts, 9, texts)
    used.tokenize(texts, 5)
    assert rows(used.tokenize(texts, 40)) == rows(tokenizer_of(tiny_bert).tokenize(texts, 40))


TEXTS = ["The GOOD film", "naïve Café, it's “quoted”", "你好 world", "tab\tand\nline", "xyzzy 12345", "a" * 200, ""]


def write_vocab(folder: Path, target: Path, config: dict | None = None) -> Path:
    """A folder with the same vocabulary as vocab.txt, without tokenizer.json."""
    target.mkdir()
    ids = load_tokenizer(folder).get_vocab()
    (target / "vocab.txt").write_text("\n".join(sorted(ids, key=ids.__getitem__)) + "\n", encoding="utf-8")
    if config is not None:
        (target / "tokenizer_config.json").write_text(json.dumps(config))
    return target


@pytest.mark.parametrize("config", [None, {"do_lower_case": True, "strip_accents": None}])
def test_vocab_txt_gives_the_same_tokens_as_tokenizer_json(tiny_bert, tmp_path, config):
    texts = [*TEXTS, *sentences(50, seed=4)]
    found, expected = tokenizer_of(write_vocab(tiny_bert, tmp_path / "vocab", config)), tokenizer_of(tiny_bert)
    assert rows(found.tokenize(texts, 40)) == rows(expected.tokenize(texts, 40))
    pairs = found.tokenize(texts, 40, texts[::-1]), expected.tokenize(texts, 40, texts[::-1])
    assert rows(pairs[0]) == rows(pairs[1]) and pairs[0].firsts.tolist() == pairs[1].firsts.tolist()


def test_vocab_txt_of_minilm_gives_the_same_tokens_as_its_tokenizer_json(minilm, tmp_path):
    shutil.copy(minilm / "vocab.txt", tmp_path)
    texts = [*TEXTS, *sentences(50, seed=5)]
    found, expected = tokenizer_of(tmp_path), tokenizer_of(minilm)
    assert rows(found.tokenize(texts, 256)) == rows(expected.tokenize(texts, 256))


def test_a_cased_vocab_keeps_capitals_and_accents(tmp_path):
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "dog", "Dog", "cafe", "café"]
    (tmp_path / "vocab.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    assert rows(tokenizer_of(tmp_path).tokenize(["Dog café dog"], 9)) == [[CLS, 6, 8, 5, SEP]]
    (tmp_path / "tokenizer_config.json").unlink()  # BERT's default is uncased
    assert rows(tokenizer_of(tmp_path).tokenize(["Dog café dog"], 9)) == [[CLS, 5, 7, 5, SEP]]


def test_a_missing_or_broken_tokenizer_is_reported(tmp_path):
    with pytest.raises(EncoderError, match=r"contains neither tokenizer\.json nor vocab\.txt"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(EncoderError, match=r"tokenizer\.json"):
        load_tokenizer(tmp_path)


def test_vocab_txt_that_is_not_of_bert_is_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text("<s>\n<pad>\n</s>\n[UNK]\ndog\n", encoding="utf-8")  # as MPNet has it
    with pytest.raises(EncoderError) as caught:
        load_tokenizer(tmp_path)
    message = "no [CLS] and [SEP], so not BERT's; add a tokenizer.json"
    assert caught.value.mistakes == (f"{tmp_path}/vocab.txt: {message}",)


def test_minilm_has_the_limit_of_sentence_transformers(minilm):
    # sentence-transformers says 256, the tokenizer config 512, and tokenizer.json truncates and pads to 128
    limit = read_config(minilm).limit
    assert limit == 256
    table = tokenizer_of(minilm).tokenize([words(400), words(200), words(3)], limit)
    assert table.lengths.tolist() == [256, 202, 5]
    assert table.is_truncated.sum() == 1


def test_the_limit_is_the_smallest_in_any_file(tiny_bert, tmp_path):
    folder = tmp_path / "encoder"
    shutil.copytree(tiny_bert, folder)
    assert read_config(folder).limit == 40  # from the tokenizer; the weights have 42 positions
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 17}')
    assert read_config(folder).limit == 17
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": null}')
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 1e30}')  # means no limit
    assert read_config(folder).limit == 42


def test_chosen_inputs_keep_their_tokens(tokenizer):
    table = tokenizer.tokenize([words(1), words(9), words(3)], 6)
    chosen = table.chosen([2, 1, 2])
    assert rows(chosen) == [rows(table)[row] for row in (2, 1, 2)]
    assert chosen.firsts.tolist() == [5, 6, 5] and chosen.is_truncated.tolist() == [False, True, False]
    assert len(table.chosen([])) == 0


def test_threads_with_different_limits_do_not_affect_each_other(tokenizer):
    texts = sentences(200, seed=8, longest=30)
    expected = {limit: rows(tokenizer.tokenize(texts, limit)) for limit in range(5, 21)}
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda limit: rows(tokenizer.tokenize(texts, limit)), list(expected) * 4)
        assert list(found) == list(expected.values()) * 4


def test_views_are_single_columns_or_pairs_of_them(tokenizer):
    first, second = sentences(10, seed=6), sentences(10, seed=7)
    assert views_of(["apart", "joined_both", "joined", "single"]) == ("first", "second", "joined", "swapped")
    tables = tokenize_views(tokenizer, [first, second], ["first", "second", "joined", "swapped"], 12)
    assert rows(tables["first"]) == rows(tokenizer.tokenize(first, 12))
    assert rows(tables["second"]) == rows(tokenizer.tokenize(second, 12))
    assert rows(tables["joined"]) == rows(tokenizer.tokenize(first, 12, second))
    assert rows(tables["swapped"]) == rows(tokenizer.tokenize(second, 12, first))


def test_a_batch_contains_the_inputs_of_its_views_in_order(tokenizer):
    columns = [[words(1), words(2), words(3)], [words(4), words(5), words(6)]]
    tables = tokenize_views(tokenizer, columns, ["first", "second"], 9)
    batch = make_batch("same", [2, 0], np.array([10, 11, 12]), tables)
    assert batch.rows == (2, 0) and batch.labels.tolist() == [12, 10]
    assert [len(ids) for ids in batch.ids] == [5, 3, 8, 6]  # two special tokens each
    assert batch.firsts == (5, 3, 8, 6)
    assert batch.views == {"first": slice(0, 2), "second": slice(2, 4)}


def test_a_text_far_beyond_the_limit_gives_the_tokens_of_the_full_text(tiny_bert):
    reference, tokenizer = load_tokenizer(tiny_bert), tokenizer_of(tiny_bert)
    long = " ".join(sentences(4000, seed=3))
    blanks = "good" + " " * 100_000 + "film was very bad"
    assert len(long) > 20 * 200 and len(blanks) > 20 * 200
    for text in (long, blanks):
        reference.no_truncation()
        whole = reference.encode(text).ids
        table = tokenizer.tokenize([text], 20)
        last = [whole[-1]]
        assert table.row(0).tolist() == (whole if len(whole) <= 20 else whole[:19] + last)
        assert table.is_truncated.sum() == (len(whole) > 20)
        reference.enable_truncation(20, strategy="longest_first")
        pair = reference.encode(text, "a dog").ids
        assert tokenizer.tokenize([text], 20, ["a dog"]).row(0).tolist() == pair
