"""Texts → token ids."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from plait.data.batch import make_batch, tokenize_views, views_of
from plait.data.tokenize import TokenTable, load_tokenizer, tokenize, tokenize_pairs
from plait.encoder.config import read_config
from plait.errors import EncoderError, PlaitError
from tiny import sentences

CLS, SEP = 2, 3  # of the tiny BERT


@pytest.fixture(scope="module")
def tokenizer(tiny_bert: Path) -> Tokenizer:
    return load_tokenizer(tiny_bert)


def rows(table: TokenTable) -> list[list[int]]:
    return [table.row(row).tolist() for row in range(len(table))]


def test_token_table_by_hand():
    table = TokenTable(np.array([7, 8, 9, 5, 6, 4], np.int32), np.array([0, 3, 3, 6]), np.array([2, 0, 3], np.int32), 0)
    assert len(table) == 3
    assert rows(table) == [[7, 8, 9], [], [5, 6, 4]]
    assert table.lengths.tolist() == [3, 0, 3]


def test_a_table_of_no_texts_is_empty(tokenizer):
    for table in (tokenize(tokenizer, [], 8), tokenize_pairs(tokenizer, [], [], 8)):
        assert len(table) == 0 and table.starts.tolist() == [0] and table.truncated == 0


def test_texts_have_their_special_tokens_and_one_segment(tokenizer):
    good, film = tokenizer.token_to_id("good"), tokenizer.token_to_id("film")
    table = tokenize(tokenizer, ["good film", "", "film"], 8)
    assert rows(table) == [[CLS, good, film, SEP], [CLS, SEP], [CLS, film, SEP]]
    assert table.starts.tolist() == [0, 4, 6, 9]
    assert table.firsts.tolist() == [4, 2, 3] and table.truncated == 0


def test_pairs_have_their_special_tokens_and_two_segments(tokenizer):
    good, film = tokenizer.token_to_id("good"), tokenizer.token_to_id("film")
    table = tokenize_pairs(tokenizer, ["good film", "film"], ["film", "good good"], 8)
    assert rows(table) == [[CLS, good, film, SEP, film, SEP], [CLS, film, SEP, good, good, SEP]]
    assert table.firsts.tolist() == [4, 3]


def test_roberta_has_one_segment_for_a_pair(tiny_roberta):
    table = tokenize_pairs(load_tokenizer(tiny_roberta), ["good film"], ["film"], 30)
    assert table.firsts.tolist() == table.lengths.tolist()


def words(count: int, word: str = "good") -> str:
    """A text of this many tokens."""
    return " ".join([word] * count)


def test_texts_that_were_cut_are_counted(tokenizer):
    # With [CLS] and [SEP], 8 words are 10 tokens: the limit is met by 8 words and passed by 9.
    table = tokenize(tokenizer, [words(7), words(8), words(9), words(30)], 10)
    assert table.lengths.tolist() == [9, 10, 10, 10]
    assert table.truncated == 2


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        (10, 3, (5, 3)),  # 8 places: the longer first gives all five that are too many
        (3, 10, (3, 5)),
        (2, 6, (2, 6)),  # exactly full
        (9, 7, (4, 4)),  # down to the other's length, then both in turn
    ],
)
def test_the_longer_side_of_a_pair_is_cut_first(tokenizer, first, second, left):
    table = tokenize_pairs(tokenizer, [words(first)], [words(second, "film")], 11)  # 8 words and 3 special tokens
    good, film = tokenizer.token_to_id("good"), tokenizer.token_to_id("film")
    assert rows(table) == [[CLS, *[good] * left[0], SEP, *[film] * left[1], SEP]]
    assert table.firsts.tolist() == [left[0] + 2]
    assert table.truncated == (first + second > 8)


def test_no_text_is_longer_than_the_limit_and_only_cut_ones_are_counted(tokenizer):  # property
    columns = sentences(80, seed=1, longest=30), sentences(80, seed=2, longest=30)
    for read, texts in ((tokenize, columns[:1]), (tokenize_pairs, columns)):
        whole = read(tokenizer, *texts, 1000).lengths
        for limit in range(5, 80):
            table = read(tokenizer, *texts, limit)
            assert table.lengths.tolist() == np.minimum(whole, limit).tolist()
            assert table.truncated == (whole > limit).sum()


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_a_limit_without_room_for_the_text_is_refused(tokenizer, limit):
    with pytest.raises(PlaitError, match=rf"\b{limit}\b"):
        tokenize(tokenizer, ["a good film"], limit)
    with pytest.raises(PlaitError, match=rf"\b{limit}\b"):
        tokenize_pairs(tokenizer, ["a good film"], ["a film"], limit)


def test_one_limit_does_not_change_the_next(tiny_bert):
    texts = sentences(20, seed=3, longest=30)
    used = load_tokenizer(tiny_bert)
    tokenize_pairs(used, texts, texts, 9)
    tokenize(used, texts, 5)
    assert rows(tokenize(used, texts, 40)) == rows(tokenize(load_tokenizer(tiny_bert), texts, 40))


TEXTS = ["The GOOD film", "naïve Café, it's “quoted”", "你好 world", "tab\tand\nline", "xyzzy 12345", "a" * 200, ""]


def vocab_only(folder: Path, place: Path, config: dict | None = None) -> Path:
    """The folder's vocabulary as a vocab.txt and no tokenizer.json."""
    place.mkdir()
    ids = load_tokenizer(folder).get_vocab()
    (place / "vocab.txt").write_text("\n".join(sorted(ids, key=ids.__getitem__)) + "\n", encoding="utf-8")
    if config is not None:
        (place / "tokenizer_config.json").write_text(json.dumps(config))
    return place


@pytest.mark.parametrize("config", [None, {"do_lower_case": True, "strip_accents": None}])
def test_a_vocab_alone_gives_the_tokens_of_the_tokenizer_file(tiny_bert, tmp_path, config):
    texts = [*TEXTS, *sentences(50, seed=4)]
    ours, expected = load_tokenizer(vocab_only(tiny_bert, tmp_path / "vocab", config)), load_tokenizer(tiny_bert)
    assert rows(tokenize(ours, texts, 40)) == rows(tokenize(expected, texts, 40))
    pairs = tokenize_pairs(ours, texts, texts[::-1], 40), tokenize_pairs(expected, texts, texts[::-1], 40)
    assert rows(pairs[0]) == rows(pairs[1]) and pairs[0].firsts.tolist() == pairs[1].firsts.tolist()


def test_the_vocab_of_minilm_gives_the_tokens_of_its_tokenizer_file(minilm, tmp_path):
    shutil.copy(minilm / "vocab.txt", tmp_path)
    texts = [*TEXTS, *sentences(50, seed=5)]
    ours, expected = load_tokenizer(tmp_path), load_tokenizer(minilm)
    assert rows(tokenize(ours, texts, 256)) == rows(tokenize(expected, texts, 256))


def test_a_cased_vocab_keeps_capitals_and_accents(tmp_path):
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "dog", "Dog", "cafe", "café"]
    (tmp_path / "vocab.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    assert rows(tokenize(load_tokenizer(tmp_path), ["Dog café dog"], 9)) == [[CLS, 6, 8, 5, SEP]]
    (tmp_path / "tokenizer_config.json").unlink()  # BERT's own default is uncased
    assert rows(tokenize(load_tokenizer(tmp_path), ["Dog café dog"], 9)) == [[CLS, 5, 7, 5, SEP]]


def test_a_folder_without_a_tokenizer_and_a_broken_one_are_named(tmp_path):
    with pytest.raises(EncoderError, match=r"has neither tokenizer\.json nor vocab\.txt"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(EncoderError, match=r"tokenizer\.json"):
        load_tokenizer(tmp_path)


def test_minilm_has_the_limit_of_sentence_transformers_and_not_that_of_its_tokenizer_file(minilm):
    # sentence-transformers' file says 256, the tokenizer's config 512, and tokenizer.json cuts and pads to 128
    limit = read_config(minilm).limit
    assert limit == 256
    table = tokenize(load_tokenizer(minilm), [words(400), words(200), words(3)], limit)
    assert table.lengths.tolist() == [256, 202, 5]
    assert table.truncated == 1


def test_a_limit_is_the_smallest_that_any_file_names(tiny_bert, tmp_path):
    folder = tmp_path / "encoder"
    shutil.copytree(tiny_bert, folder)
    assert read_config(folder).limit == 40  # the tokenizer's; the weights have 42 positions
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 17}')
    assert read_config(folder).limit == 17
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": null}')
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 1e30}')  # how tokenizers say "none"
    assert read_config(folder).limit == 42


def test_views_are_columns_and_pairs_of_them(tokenizer):
    first, second = sentences(10, seed=6), sentences(10, seed=7)
    assert views_of(["apart", "joined_both", "joined", "single"]) == ("first", "second", "joined", "swapped")
    tables = tokenize_views(tokenizer, [first, second], ["first", "second", "joined", "swapped"], 12)
    assert rows(tables["first"]) == rows(tokenize(tokenizer, first, 12))
    assert rows(tables["second"]) == rows(tokenize(tokenizer, second, 12))
    assert rows(tables["joined"]) == rows(tokenize_pairs(tokenizer, first, second, 12))
    assert rows(tables["swapped"]) == rows(tokenize_pairs(tokenizer, second, first, 12))


def test_a_batch_holds_the_inputs_of_its_views_one_after_the_other(tokenizer):
    columns = [[words(1), words(2), words(3)], [words(4), words(5), words(6)]]
    tables = tokenize_views(tokenizer, columns, ["first", "second"], 9)
    batch = make_batch("same", [2, 0], np.array([10, 11, 12]), tables)
    assert batch.rows == (2, 0) and batch.labels.tolist() == [12, 10]
    assert [len(ids) for ids in batch.ids] == [5, 3, 8, 6]  # two special tokens each
    assert batch.firsts == (5, 3, 8, 6)
    assert batch.views == {"first": slice(0, 2), "second": slice(2, 4)}


def test_a_text_far_beyond_the_limit_gives_the_tokens_of_the_whole(tiny_bert):
    tokenizer = load_tokenizer(tiny_bert)
    long = " ".join(sentences(4000, seed=3))
    blanks = "good" + " " * 100_000 + "film was very bad"
    assert len(long) > 20 * 200 and len(blanks) > 20 * 200
    for text in (long, blanks):
        tokenizer.no_truncation()
        whole = tokenizer.encode(text).ids
        table = tokenize(tokenizer, [text], 20)
        last = [whole[-1]]
        assert table.row(0).tolist() == (whole if len(whole) <= 20 else whole[:19] + last)
        assert table.truncated == (len(whole) > 20)
        tokenizer.no_truncation()
        tokenizer.enable_truncation(20, strategy="longest_first")
        pair = tokenizer.encode(text, "a dog").ids
        assert tokenize_pairs(tokenizer, [text], ["a dog"], 20).row(0).tolist() == pair
