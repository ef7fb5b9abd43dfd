"""`plait index` and `plait search` on the command line."""

import csv
import json

import pytest
from click.shell_completion import ShellComplete

from plait.cli.main import cli
from search_corpus import TEXTS, write_corpus


@pytest.fixture
def built(plait, tiny_bert, tmp_path):
    """A folder with a corpus and its index."""
    write_corpus(tmp_path / "corpus.csv", range(40))
    plait("index", tiny_bert, "--corpus", tmp_path / "corpus.csv", "--id", "name", "--out", tmp_path / "index")
    return tmp_path


def test_build_describe_change_and_check(plait, built, tiny_bert):
    assert plait("index", built / "index")[0] == f"40 rows in {built}/index, embedded by {tiny_bert}\n"
    write_corpus(built / "more.csv", range(38, 45))
    out, _ = plait("index", built / "index", "--corpus", built / "more.csv")
    assert out.splitlines()[0] == "rows added or replaced: 7"
    out, _ = plait("index", built / "index", "--delete", "n1", "--delete", "other", "--check")
    assert out.splitlines() == [
        "rows deleted: 1; ids that were not found: 1",
        "every file is intact; recall@10 against exact search: 1.000",
        f"44 rows in {built}/index, embedded by {tiny_bert}",
    ]
    result = json.loads(plait("index", built / "index", "--check", "--json")[0].splitlines()[-1])
    assert (result["rows"], result["search"], result["recall"]) == (44, "exact", 1.0)


def test_search_for_a_text(plait, built):
    out, _ = plait("search", built / "index", TEXTS[5], "--top-k", 2)
    assert "1.000" in out and "n5" in out and TEXTS[5] in out
    result = json.loads(plait("search", built / "index", TEXTS[5], "--top-k", 2, "--json")[0])
    assert result["hits"][0]["id"] == "n5" and len(result["hits"]) == 2
    assert result["hits"][0]["row"] == {"name": "n5", "text": TEXTS[5], "topic": "2"}


def test_search_for_every_row_of_a_file(plait, built):
    queries = built / "queries.csv"
    queries.write_text(f'text\n"{TEXTS[5]}"\n""\n"{TEXTS[9]}"\n')
    out, _ = plait("search", built / "index", "--input", queries, "--output", built / "found.csv", "--top-k", 3)
    assert out == f"3 rows in {built}/found.csv, 1 of them bad and left empty: {built}/found.csv.errors.jsonl\n"
    with (built / "found.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["id_1"] for row in rows] == ["n5", "", "n9"] and rows[0]["text_1"] == TEXTS[5]
    assert float(rows[0]["score_1"]) >= float(rows[0]["score_2"]) >= float(rows[0]["score_3"])


def test_wrong_requests(plait, built, tiny_bert, tiny_roberta):
    for arguments, problem in (
        (("index", tiny_bert), "give --corpus FILE and --out DIR"),
        (("index", tiny_bert, "--check"), f"--delete and --check are for an index; {tiny_bert} is none"),
        (("index", built / "index", "--text", "text"), "is an index, which keeps its --text, --id and --kind"),
        (("index", built / "index", "--resume"), "--resume goes with --corpus"),
        (("search", built / "index"), "give a query, or --input FILE"),
        (("search", built, "dog"), f"plait: {built}: not an index: index.json is missing"),
        (("search", built / "index", "dog", "--model", tiny_roberta), "was built with another model than"),
        (
            ("index", tiny_bert, "--corpus", built / "corpus.csv", "--out", built / "index"),
            "is an index already; add to it, or choose another --out",
        ),
        (("index", tiny_bert, "--corpus", built / "none.csv", "--out", built / "new"), "none.csv: no such file"),
    ):
        assert problem in plait(*arguments, code=2)[1]
    assert not (built / "new").exists()


def test_completion_knows_the_tasks_of_the_model(trained_run):
    words = ["duplicates", "texts.csv", "--model", str(trained_run), "--by"]
    found = ShellComplete(cli, {}, "plait", "_PLAIT_COMPLETE").get_completions(words, "")
    assert {item.value for item in found} >= {"same", "near", "cosine"}
