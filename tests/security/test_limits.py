"""Small files that once ended in a traceback, or took minutes and gigabytes: each is refused by name at once.

The time of the processor is limited generously, since the machine may be busy: what is tested took 100 times as long.
"""

import gzip
import json
import resource
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from plait.data.read import read_rows
from plait.data.readers.xlsx import read_xlsx
from plait.encoder.config import read_config
from plait.errors import DataError, EncoderError, RecipeError
from plait.recipe.task import Source
from plait.schedules import Plan, TaskRows, sampled, together
from recipe_files import MOOD, PLAIN, mistakes, read

SECONDS, MEGABYTES = 5, 300


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "mood.csv").write_text(MOOD)
    (tmp_path / "near.csv").write_text("one,two,near\na,b,4.5\na,c,0.5\n")
    return tmp_path


@pytest.fixture(autouse=True)
def within_limits():
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert time.process_time() - began < SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < MEGABYTES


# ---------------------------------------------------------------- recipes

BOMB = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 9)
)
CHAIN = "a0: &a0 [1]\n" + "".join(f"a{level}: &a{level} [*a{level - 1}]\n" for level in range(1, 200))


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ("x: " + "[" * 300 + "]" * 300, "recipe.yaml:11: nested more than 40 levels deep; write it flatter"),
        ("x: " + "[" * 5000, "recipe.yaml:11: nested more than 40 levels deep; write it flatter"),
        (BOMB, "recipe.yaml: aliases make more than 100,000 values of it; give data as files"),
        (CHAIN, "recipe.yaml: nested more than 40 levels deep; write it flatter"),
        ("x: '" + "x" * 1_000_000 + "'", "recipe.yaml: more than 1,000,000 characters; give data as files"),
        ("x: [" + "1, " * 20_000 + "]", "recipe.yaml:11: more than 20,000 values; give data as files"),
        ("seed: 2020-99-99", "recipe.yaml: not valid YAML: a value cannot be read (month must be in 1..12); quote it"),
        ("seed: !!python/name:os.system", "recipe.yaml:11: seed: expected an integer, found ''"),
        ("seed: !!python/object/apply:os.system [id]", "recipe.yaml:11: seed: expected an integer, found a list"),
        (
            f"rows: {10**18}",
            f"recipe.yaml:11: rows: expected a number less than or equal to 1000000000, found {10**18}",
        ),
        (
            f"evaluate_every: {10**18}",
            "recipe.yaml:11: evaluate_every: expected 'epoch' or a positive number of steps, at most 1,000,000,000",
        ),
        (
            f"seed: {10**400}",
            f"recipe.yaml:11: seed: expected a number less than {2**63}, found a number of more than 40 digits",
        ),
        (
            "schedule: {name: sampled, by: temperature, t: 1e-320}",
            "recipe.yaml:11: schedule.sampled.t: expected a number greater than or equal to 0.1, found 1e-320",
        ),
        (
            "schedule: {name: sampled, weights: {mood: 1e300}}",
            "recipe.yaml:11: schedule.sampled.weights: expected a number less than or equal to 1000000, found 1e+300",
        ),
    ],
    ids=lambda value: value[:20],
)
def test_a_recipe(folder, added, message):
    assert mistakes(folder, PLAIN + added + "\n") == [message]


def test_a_task_that_only_merges_an_anchor_is_read(folder):
    text = (
        "tasks:\n  mood: &mood {train: mood.csv, text: sentence, label: mood}\n  again:\n    <<: *mood\nencoder: tiny\n"
    )
    assert list(read(folder, text).tasks) == ["mood", "again"]


def test_an_empty_list_of_labels(folder):
    (found,) = mistakes(folder, PLAIN.replace("label: mood", "label: []"))
    assert found == "recipe.yaml:6: tasks.mood.label.column: expected at least one, found an empty list"


def test_a_chain_of_recipes(folder):
    for number in range(30):
        (folder / f"{number}.yaml").write_text(f"extends: {number + 1}.yaml\n")
    (found,) = mistakes(folder, "extends: 0.yaml\n")
    assert found.endswith("extends: a chain of more than 20 recipes; shorten it")


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/b", '"a\\u0000b"', '"a\\nb"', "a\\b", '" "', "x" * 250])
def test_names_of_tasks_and_profiles_that_cannot_be_paths(folder, name):
    (found,) = mistakes(folder, PLAIN.replace("  mood:", f"  ? {name}\n  :"))
    assert "cannot be the name of a task; it " in found
    profile = json.loads(name) if '"' in name else name
    (found,) = mistakes(folder, PLAIN + f"profiles:\n  ? {name}\n  : {{lr: 1}}\n", profile=profile)
    assert "of a profile " in found and found.endswith("choose another")


@pytest.mark.parametrize("key", ["encoder", "train"])
@pytest.mark.parametrize(("path", "problem"), [('"a\\0b"', "contains a NUL"), ("a" * 300, "is too long for a path")])
def test_paths_that_no_system_has(folder, key, path, problem):
    value = {"encoder": "encoder: tiny", "train": "train: mood.csv"}[key]
    assert problem in mistakes(folder, PLAIN.replace(value, f"{key}: {path}"))[0]


def test_plans_that_cannot_be_made():
    rows = {"a": TaskRows(np.ones(24, int), 8, 1.0)}
    with pytest.raises(RecipeError, match="the schedule has 10,000,000 epochs and 30,000,000 steps, at most"):
        Plan(rows, together, 10**7, 1)
    with pytest.raises(RecipeError, match="lower epochs, steps or the schedule's weights"):
        sampled({"a": 1000}, 100, "", weights={"a": 1e6})
    long = Plan(rows, together, 100_000, 1)
    assert long.drawn_before(99_999) == {"a": 299_997}
    assert long.drawn(299_999) == {"a": (299_999, 8 * 299_999)}


# ---------------------------------------------------------------- data


def read_file(path: Path) -> list[str]:
    """What is wrong with a file of data, or with its rows."""
    try:
        return [row.problem for row in read_rows([Source(file=str(path))], ["sentence", "mood"]).bad]
    except DataError as error:
        return list(error.mistakes)


def test_many_columns(tmp_path):
    names = [f"c{number}" for number in range(100_000)]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n")
    assert "no column 'sentence'; allowed: c0, c1" in read_file(tmp_path / "wide.csv")[0]
    (tmp_path / "wide.csv").write_text(",".join([*names, "c7"]) + "\n")
    assert read_file(tmp_path / "wide.csv")[0].endswith("duplicate column 'c7'; rename one of them")


def test_a_parquet_file_with_huge_cells(tmp_path):
    table = pyarrow.table(
        {
            "sentence": pyarrow.DictionaryArray.from_arrays([0] * 2000 + [1, None], ["x" * 20_000_000, "a film"]),
            "mood": ["a"] * 2001 + ["b"],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "huge.parquet", compression="zstd", store_schema=False)
    assert (tmp_path / "huge.parquet").stat().st_size < 100_000
    del table
    rows = read_rows([Source(file=str(tmp_path / "huge.parquet"))], ["sentence", "mood"])
    assert rows.columns == {"sentence": ["a film", ""], "mood": ["a", "b"]}
    assert rows.bad[0].problem == "the row has 20,000,001 bytes; shorten it to 10,000,000 or less"
    assert len(rows.bad) == 2000


@pytest.mark.parametrize(
    ("name", "start", "middle"),
    [("a.csv.gz", b"sentence,mood\n", b"a,b\n"), ("a.csv.gz", b"", b"\0"), ("a.json.gz", b'[{"a": "', b"x")],
)
def test_a_file_that_unpacks_to_much_more_than_its_size(tmp_path, name, start, middle):
    (tmp_path / name).write_bytes(gzip.compress(start + middle * (20_000_000 // len(middle))))
    (found,) = read_file(tmp_path / name)
    assert found.endswith(
        "unpacks to more than 100 times its size, so it is no text; unpack it yourself if you trust it"
    )


def test_compressed_text_is_read(tmp_path):
    rows = "".join(f"the film number {number} was good,high\n" for number in range(20_000))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(f"sentence,mood\n{rows}".encode()))
    assert read_file(tmp_path / "a.csv.gz") == []


def test_a_spreadsheet_that_unpacks_to_much_more_than_its_size(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(21):
            archive.writestr(str(number), b"x" * 10_000_000)
    with pytest.raises(DataError, match="more than 200,000,000 bytes once it is unpacked"):
        read_xlsx(tmp_path / "a.xlsx")


def test_a_quoted_field_that_never_ends(tmp_path):
    (tmp_path / "a.csv").write_bytes(b'sentence,mood\n"' + (b"x" * 6_000_000 + b"\n") * 3 + b"a,b\n")
    assert (
        "a quoted field is longer than 10,000,000 bytes; is a closing quote missing?"
        in read_file(tmp_path / "a.csv")[0]
    )


# ---------------------------------------------------------------- configs


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", {"num_hidden_layers": 10**5}, "inconsistent sizes: .*num_hidden_layers 100000"),
        ("config.json", {"hidden_size": 10**18}, "inconsistent sizes: .*hidden_size 1000000000000000000"),
        ("config.json", {"layer_norm_eps": "x"}, "layer_norm_eps: expected a number from 0.0 to 1.0, found 'x'"),
        ("config.json", {"type_vocab_size": -1}, "type_vocab_size: expected an integer from 1 to 1000, found -1"),
        ("config.json", {"hidden_dropout_prob": True}, "hidden_dropout_prob: expected a number"),
        ("config.json", {"model_type": ["bert"]}, "is not supported"),
        ("config.json", "[" * 100_000, "is not valid JSON: nested too deeply"),
        ("tokenizer_config.json", [1], "expected a JSON object, found a list"),
        ("tokenizer_config.json", {"model_max_length": "x"}, "model_max_length: expected a number of tokens"),
        ("sentence_bert_config.json", {"max_seq_length": -3}, "max_seq_length: expected a number of tokens, found -3"),
        ("modules.json", [{"type": 3, "path": ""}], "expected a list of modules, each with type and path"),
        ("modules.json", 3, "expected a list of modules, each with type and path"),
        ("plait.json", {"pooling": 3}, "names no pooling"),
    ],
    ids=str,
)
def test_a_config(tiny_bert, tmp_path, file, content, message):
    from checkpoints import changed_copy

    place = changed_copy(tiny_bert, tmp_path / "other")
    if isinstance(content, dict) and (place / file).is_file():
        content = {**json.loads((place / file).read_text()), **content}
    (place / file).write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(EncoderError, match=message):
        read_config(place)
