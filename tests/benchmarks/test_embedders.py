"""Batch sizes of peers are measured, texts are drawn by the seed, and the limit is the matrix products alone."""

import csv
import json

import embedders
import pytest
import texts
import torch
from embedders import best_batch, share_of_padding
from limit import Products


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Files in the format of the data sets, with 60 texts each, some of them twice."""
    folder = tmp_path / "cs224n"
    folder.mkdir()
    for name, (file, columns, _) in texts.SETS.items():
        with (folder / file).open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, delimiter="\t")
            writer.writerow(["", "id", *columns])
            writer.writerows([row, row, *(f'{name} "{column}" {row % 60}' for column in columns)] for row in range(70))
    monkeypatch.setenv("PLAIT_DATA", str(tmp_path))
    monkeypatch.setattr(texts, "REDUCED", 100)


def test_every_data_set_has_its_share_and_no_text_occurs_twice(data):
    drawn = texts.draw(full=False)
    assert {name: len(found) for name, found in drawn.items()} == {"SST": 30, "Quora": 30, "STS": 30, "CFIMDB": 10}
    mixed = texts.mixed(full=False)
    assert sorted(mixed) == sorted({text for found in drawn.values() for text in found}) and len(mixed) == 100
    assert mixed == texts.mixed(full=False)


def test_batch_sizes_grow_until_clearly_slower_and_the_fastest_wins(monkeypatch):
    clock, tried = [0.0], []
    cost = {2: 4.0, 4: 3.0, 8: 1.0, 16: 1.05, 32: 1.2, 64: 0.5}  # 64 is not tried: 32 is clearly slower than 8

    def embed(found, batch):
        tried.append((len(found), batch))
        clock[0] += cost[batch]

    monkeypatch.setattr(embedders.time, "perf_counter", lambda: clock[0])
    assert best_batch(embed, ["x" * length for length in range(300)]) == 8
    assert tried == [(2, 2), *((128, batch) for batch in (2, 4, 8, 16, 32, 8, 16))]  # those close to the best, again


def test_padding_is_counted_in_batches_sorted_by_length(minilm):
    found = ["one", "one two three", "one two", "one two three four"]  # and two special tokens each
    assert share_of_padding(found, 4, minilm) == f"{1 - 18 / 24:.1%}"
    assert share_of_padding(found, 2, minilm) == f"{1 - 18 / 20:.1%}"
    assert share_of_padding(found, 1, minilm) == "0.0%"


def test_texts_are_truncated_to_the_limit_of_the_model(minilm):
    limit = json.loads((minilm / "sentence_bert_config.json").read_text())["max_seq_length"]
    assert embedders.token_lengths(["word " * 1000, "word"], minilm) == [limit, 3]


def test_matrix_products_are_recorded_and_replayed():
    layer = torch.nn.Linear(8, 4)

    def work():
        with torch.inference_mode():
            states = torch.nn.functional.gelu(layer(torch.ones(6, 8)))
            parts = states.view(1, 2, 6, 2)
            torch.nn.functional.scaled_dot_product_attention(parts, parts, parts)
            torch.bmm(torch.ones(3, 2, 5), torch.ones(3, 5, 7))
            layer(torch.ones(2, 5, 8))

    with Products() as products:
        work()
    assert len(products.calls) == 4 and products.tokens == 16
    assert products.largest == 3 * 5 * 7
    seen = Products()
    with seen:
        products.work(torch.randn(products.largest))()
    assert len(seen.calls) == 5 and seen.tokens == 16  # attention is two products


def test_work_without_products_has_no_limit():
    with pytest.raises(SystemExit, match="no matrix product was seen"):
        Products().work(torch.zeros(0))
