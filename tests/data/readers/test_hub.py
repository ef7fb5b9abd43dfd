"""Datasets from a local hub server: their rows as text, the cache, and every way that loading can fail."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hub_server import HubServer, hub_environment, run_here
from plait.data.readers.hub import read_hub
from plait.errors import DataError

pytestmark = pytest.mark.skipif(find_spec("datasets") is None, reason="datasets is not installed")

OR_DOWNLOAD = "or download the file and give its path"
READ = """
import json, sys, time
from plait.data.readers.hub import hub_columns, read_hub
from plait.errors import DataError
time.sleep = lambda seconds: None  # between attempts
answers = []
for source, split in json.loads(sys.argv[1]):
    try:
        columns = hub_columns(source, split)
        answers.append([columns, [[record.line, record.values, record.problem] for record in read_hub(source, split)]])
    except DataError as error:
        answers.append(list(error.mistakes))
print(json.dumps(answers))
"""
CONFIGS = """---
configs:
- config_name: usual
  data_files:
  - {split: train, path: rows.jsonl}
  - {split: validation, path: validation.jsonl}
  - {split: test, path: test.jsonl}
- config_name: dev
  data_files:
  - {split: train, path: rows.jsonl}
  - {split: dev, path: dev.jsonl}
- config_name: valid
  data_files:
  - {split: valid, path: valid.jsonl}
---
"""
CLASSES = """---
dataset_info:
  features:
  - {name: text, dtype: string}
  - {name: mood, dtype: {class_label: {names: {'0': bad, '1': good}}}}
  - {name: topics, list: {class_label: {names: {'0': food, '1': film}}}}
---
"""

Read = Callable[..., list[Any]]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_parquet(path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    path.parent.mkdir(parents=True)
    columns = {
        "one": pa.array(['Ünï, "quoted"\nand two lines', "", None]),
        "near": pa.array([3.8, 5.0, float("nan")], pa.float32()),
        "count": pa.array([7, None, 2**60]),
        "same": pa.array([True, False, None]),
        "words": pa.array([["a", "é"], [], None]),
        "day": pa.array([0, 1, None], pa.date32()),
        "picture": pa.array([b"\x89PNG", b"", None]),
    }
    parquet.write_table(pa.table(columns), path)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The datasets on the hub, by name."""
    place = tmp_path_factory.mktemp("sets")
    write(place / "csv" / "train.csv", 'text,label\n"good, really",1\n"a ""bad"" one",0\n')
    write(place / "csv" / "test.csv", "text,label\nlast,1\n")
    write(
        place / "jsonl" / "train.jsonl",
        '{"text": "a", "label": [1, 2], "mixed": 1}\n{"text": null, "label": [], "mixed": "one"}\n',
    )
    write_parquet(place / "parquet" / "data" / "train-00000-of-00001.parquet")
    write(place / "several" / "README.md", CONFIGS)
    for split in ("rows", "validation", "dev", "valid", "test"):
        write(place / "several" / f"{split}.jsonl", f'{{"from": "{split}"}}\n')
    write(place / "classes" / "README.md", CLASSES)
    write(
        place / "classes" / "train.jsonl",
        '{"text": "yum", "mood": 1, "topics": [0]}\n{"text": "boo", "mood": 0, "topics": [0, 1]}\n'
        '{"text": "hidden", "mood": -1, "topics": []}\n{"text": "none", "mood": null, "topics": null}\n',
    )
    write(place / "ragged" / "train.csv", "text,label\na,1\nb,0,extra\n")
    write(place / "unlike" / "train-1.csv", "text,label\na,1\n")
    write(place / "unlike" / "train-2.csv", "text,mood\nb,0\n")
    write(place / "script" / "script.py", f"open({str(place / 'was-run')!r}, 'w')\n")
    write(place / "empty" / "README.md", "Nothing yet.\n")
    return {f"words/{folder.name}": folder for folder in place.iterdir()}


@pytest.fixture
def hub(folders: dict[str, Path]) -> Iterator[HubServer]:
    with HubServer(datasets=folders) as server:
        yield server


@pytest.fixture
def read(hub: HubServer, tmp_path: Path) -> Read:
    """Read sources in a child process with its own cache; returns columns and rows of each, or its mistakes."""

    def answers(*sources: str | tuple[str, str], here: Path | None = None, **settings: Any) -> list[Any]:
        asked = [(source, "train") if isinstance(source, str) else source for source in sources]
        environment = hub_environment(tmp_path / "home", hub.url, **settings)
        answer = run_here(READ, environment, json.dumps(asked), here=here)
        assert (answer.returncode, answer.stderr) == (0, ""), answer.stderr  # no bars, no warnings, no traceback
        return json.loads(answer.stdout)

    return answers


def rows(*values: dict[str, str]) -> list[list[object]]:
    """Good rows, numbered from 1."""
    return [[line, row, None] for line, row in enumerate(values, start=1)]


def test_rows_of_csv_jsonl_and_parquet_are_text(read):
    csv, jsonl, parquet = read("hub:words/csv", "hub:words/jsonl", "hub:words/parquet")
    assert csv == [
        ["text", "label"],
        rows({"text": "good, really", "label": "1"}, {"text": 'a "bad" one', "label": "0"}),
    ]
    assert jsonl == [
        ["text", "label", "mixed"],
        rows({"text": "a", "label": "[1, 2]", "mixed": "1"}, {"text": "", "label": "[]", "mixed": "one"}),
    ]
    columns = ["one", "near", "count", "same", "words", "day"]  # without the picture
    values = [
        ('Ünï, "quoted"\nand two lines', "3.8", "7", "true", '["a", "é"]', "1970-01-01"),
        ("", "5.0", "", "false", "[]", "1970-01-02"),
        ("", "", str(2**60), "", "", ""),
    ]
    assert parquet == [columns, rows(*(dict(zip(columns, row, strict=True)) for row in values))]


def test_classes_are_given_by_name(read):
    (answer,) = read("hub:words/classes")
    assert answer == [
        ["text", "mood", "topics"],
        rows(
            {"text": "yum", "mood": "good", "topics": '["food"]'},
            {"text": "boo", "mood": "bad", "topics": '["food", "film"]'},
            {"text": "hidden", "mood": "", "topics": "[]"},
            {"text": "none", "mood": "", "topics": ""},
        ),
    ]


def test_the_split_follows_from_its_use_unless_it_is_named(read):
    expected = {
        ("hub:words/several:usual", "train"): "rows",
        ("hub:words/several:usual", "dev"): "validation",
        ("hub:words/several:usual", "test"): "test",
        ("hub:words/several:dev", "dev"): "dev",
        ("hub:words/several:valid", "dev"): "valid",
        ("hub:words/several:usual@test", "train"): "test",
        ("hub:words/several:valid@valid", "test"): "valid",
        ("hub:words/csv@test", "dev"): None,
    }
    answers = dict(zip(expected, read(*expected), strict=True))
    assert answers.pop(("hub:words/csv@test", "dev")) == [["text", "label"], rows({"text": "last", "label": "1"})]
    assert answers == {asked: [["from"], rows({"from": name})] for asked, name in expected.items() if name}


def test_a_second_read_uses_the_cache(hub, read):
    sources = ["hub:words/csv", "hub:words/several:usual@validation", "hub:words/classes"]
    first = read(*sources)
    fetched = [request for request in hub.asked_for("GET /datasets/") if not request.endswith("README.md")]
    assert len(fetched) == 6  # two files, three and one

    hub.requests.clear()
    assert read(*sources) == first
    assert hub.asked_for("GET /datasets/") == []

    hub.requests.clear()
    assert read(*sources, offline=True) == first
    assert hub.requests == []

    hub.stop()
    assert read(*sources) == first


def test_a_dataset_is_requested_once_per_process(hub, read):
    read("hub:words/csv", ("hub:words/csv", "test"), "hub:words/csv@test")
    assert len(hub.asked_for("HEAD /datasets/words/csv/resolve/main/README.md")) == 1


def test_a_new_version_on_the_hub_is_read(hub, read, tmp_path):
    folder = shutil.copytree(hub.folders["datasets"]["words/csv"], tmp_path / "csv")
    hub.folders["datasets"]["words/csv"] = folder
    read("hub:words/csv")
    write(folder / "train.csv", "text,label\nnewer,1\n")
    assert read("hub:words/csv") == [[["text", "label"], rows({"text": "newer", "label": "1"})]]


def test_a_local_folder_of_the_same_name_is_ignored(read, tmp_path):
    write(tmp_path / "here" / "words" / "csv" / "train.csv", "other\nrow\n")
    ((columns, _),) = read("hub:words/csv", here=tmp_path / "here")
    assert columns == ["text", "label"]


def test_an_invalid_name_is_reported_without_a_request(hub, read):
    sources = ["hub:", "hub:csv", "hub:a/b/c", "hub:words/csv:", "hub:words/csv@", "hub:words/csv@a@b", "hub:a b/c"]
    form = "hub:OWNER/NAME or hub:OWNER/NAME:CONFIG, optionally followed by @SPLIT"
    assert read(*sources) == [[f"{source}: not a dataset name; write {form}"] for source in sources]
    assert hub.requests == []


def test_a_wrong_configuration_or_split_lists_the_valid_ones(read):
    answers = read(
        "hub:words/several",
        "hub:words/several:usuel",
        "hub:words/several:usual@dev",
        ("hub:words/csv", "dev"),
        "hub:words/several:valid",
    )
    configs, splits = "write hub:words/several:CONFIG with one of:", "@SPLIT with one of:"
    assert answers == [
        [f"hub:words/several: has several configurations; {configs} usual, dev, valid"],
        [f"hub:words/several:usuel: no configuration 'usuel'; {configs} usual, dev, valid"],
        [f"hub:words/several:usual@dev: no split 'dev'; write hub:words/several:usual{splits} train, validation, test"],
        [f"hub:words/csv: no split 'validation'; write hub:words/csv{splits} train, test"],
        [f"hub:words/several:valid: no split 'train'; write hub:words/several:valid{splits} valid"],
    ]


def test_a_dataset_that_is_not_cached_is_reported_when_offline(hub, read):
    read("hub:words/several:usual", "hub:words/several:dev")
    hub.requests.clear()
    answers = read("hub:words/csv", "hub:words/several", "hub:words/several:valid", offline=True)
    advice = f"and HF_HUB_OFFLINE is set; unset it and connect to the network, {OR_DOWNLOAD}"
    assert answers[0] == [f"hub:words/csv: not in the local cache, {advice}"]
    (several,), (valid,) = answers[1:]
    assert several.startswith("hub:words/several: has several configurations; write hub:words/several:CONFIG (")
    assert "usual" in several and "dev" in several
    assert valid.startswith("hub:words/several:valid: not in the local cache (")
    assert valid.endswith(f"), {advice}")
    assert hub.requests == []


def test_an_unreachable_hub_is_reported(hub, read):
    hub.stop()
    assert read("hub:words/csv") == [
        ["hub:words/csv: not in the local cache, and the hub cannot be reached; connect to the network, " + OR_DOWNLOAD]
    ]


@pytest.mark.parametrize("token", ["", "a-token"])
def test_unknown_and_gated_datasets_are_reported(hub, read, token):
    hub.gated.add("words/csv")
    assert read("hub:nobody/csv", "hub:words/csv", token=token) == [
        [f"hub:nobody/csv: not found on the hub; check the spelling, set HF_TOKEN if it is private, {OR_DOWNLOAD}"],
        ["hub:words/csv: gated on the hub; request access on its page and set HF_TOKEN to your token, " + OR_DOWNLOAD],
    ]


def test_a_private_dataset_needs_a_valid_token(hub, read):
    hub.private["words/csv"] = "a-token"
    ((message,),) = read("hub:words/csv")
    assert message.startswith("hub:words/csv: not found on the hub; ")
    ((message,),) = read("hub:words/csv", token="mistyped")
    assert message.startswith(
        "hub:words/csv: the hub rejects the token (401); set HF_TOKEN to a valid one, or unset it"
    )
    ((columns, _),) = read("hub:words/csv", token="a-token")
    assert columns == ["text", "label"]


def test_datasets_that_are_not_tables_are_reported(read, folders):
    ragged, unlike, script, empty = read(*(f"hub:words/{name}" for name in ("ragged", "unlike", "script", "empty")))
    elsewhere = f"choose another dataset, {OR_DOWNLOAD}"
    assert ragged == [
        "hub:words/ragged: cannot be read as a table "
        f"(Error tokenizing data. C error: Expected 2 fields in line 3, saw 3); {elsewhere}"
    ]
    assert unlike[0].startswith("hub:words/unlike: cannot be read as a table (") and unlike[0].endswith(elsewhere)
    assert script == [f"hub:words/script: needs a loading script, and plait never runs code from the hub; {elsewhere}"]
    assert not (folders["words/script"].parent / "was-run").exists()
    assert empty == [f"hub:words/empty: has no files that the datasets package can read; {elsewhere}"]


def test_a_failed_download_is_one_line_and_can_be_repeated(hub, read):
    hub.breaking["train.csv"] = 1000
    ((message,),) = read("hub:words/csv")
    assert message.startswith("hub:words/csv: cannot be loaded (")
    assert message.endswith(f"); check the network and try again, {OR_DOWNLOAD}")
    hub.breaking.clear()
    hub.failing["train.csv"] = 500
    assert read("hub:words/csv") == [[f"hub:words/csv: the hub failed; try again later, {OR_DOWNLOAD}"]]
    hub.failing.clear()
    ((columns, _),) = read("hub:words/csv")
    assert columns == ["text", "label"]


def test_the_settings_of_the_libraries_are_restored(hub, tmp_path):
    code = """
import datasets, huggingface_hub.utils as hub
def settings():
    return [(one.logging.get_verbosity(), one.are_progress_bars_disabled()) for one in (datasets, hub)]
from plait.data.readers.hub import read_hub
datasets.logging.set_verbosity_info()
before = settings()
list(read_hub("hub:words/csv", "train"))
print(before == settings(), before)
"""
    answer = run_here(code, hub_environment(tmp_path / "home", hub.url))
    assert answer.stdout == "True [(20, False), (30, False)]\n", answer.stderr


def test_a_missing_datasets_package_is_reported_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError) as caught:
        read_hub("hub:words/csv", "train")
    assert caught.value.mistakes == (
        'hub:words/csv: hub: sources need the datasets package; pip install "plait[hub-data]", ' + OR_DOWNLOAD,
    )
