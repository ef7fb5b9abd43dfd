"""plait.json with each key damaged in turn, by an author who renews the manifest: an answer or a clear error."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import plait
from hostile_corpus import renew_manifest
from plait.errors import ModelError, PlaitError
from plait.files import sha256_of
from plait.model.directory.record import open_directory
from plait.model.directory.schema import record_mistakes

MISSING = object()
DAMAGES = (MISSING, None, True, -1, 10**18, 1e308, "", "x", [], [1], {}, {"x": [{}]})
Place = tuple[str | int, ...]


def places_in(value: Any, above: Place = ()) -> Iterator[Place]:
    """The path of every nested value, apart from the free text of a recipe."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*above, key)
        if key not in ("recipe", "data"):
            yield from places_in(inner, (*above, key))


def damaged(value: dict[str, Any], place: Place, new: object) -> dict[str, Any]:
    copy = json.loads(json.dumps(value))
    inside = copy
    for part in place[:-1]:
        inside = inside[part]
    if new is MISSING:
        del inside[place[-1]]
    else:
        inside[place[-1]] = new
    return copy


@pytest.fixture(scope="module")
def model(untrained, tmp_path_factory) -> Path:
    """A copy of a model with three of its tasks, which a test may damage."""
    place = Path(shutil.copytree(untrained, tmp_path_factory.mktemp("damaged") / "model"))
    value = json.loads((place / "plait.json").read_text())
    value["tasks"] = [task for task in value["tasks"] if task["name"] in ("mood", "same", "near")]
    write_record(place, value)
    return place


def write_record(model: Path, value: object) -> None:
    """plait.json with this content, and a manifest that fits it."""
    (model / "plait.json").write_text(json.dumps(value))
    manifest = json.loads((model / "manifest.json").read_text())
    manifest["sha256"]["plait.json"] = sha256_of(model / "plait.json")
    (model / "manifest.json").write_text(json.dumps(manifest))


def test_every_damaged_key_is_refused_or_harmless(model):
    """Opening must refuse with one line that names the file, or give a record whose tasks are as before."""
    value = json.loads((model / "plait.json").read_text())
    honest = open_directory(model).record
    refused = accepted = 0
    for place in places_in(value):
        for new in DAMAGES:
            write_record(model, damaged(value, place, new))
            try:
                record = open_directory(model).record
            except ModelError as error:
                refused += 1
                assert all(f"{model}" in mistake and "\n" not in mistake for mistake in error.mistakes)
                continue
            accepted += 1
            for task in record.tasks.values():
                assert task.head_class and task.views and task.link and task.labels.describe(), (place, new)
            assert set(record.tasks) <= {*honest.tasks, "x"}, (place, new)
    write_record(model, value)
    assert refused > 500 > accepted / 4


@pytest.mark.parametrize(
    ("place", "new"),
    [
        (("tasks", 0, "head_options"), {"x": 1}),
        (("tasks", 0, "labels", "classes"), ["a", "b"]),
        (("tasks", 0, "labels", "names"), ["a", "a"]),
        (("tasks", 0, "max_length"), 1),
        (("tasks", 1, "same_as"), "mood"),
        (("tasks", 0, "link"), "sigmoid"),
        (("tasks", 0, "head"), "concat.v1"),
        (("shared_layer",), "tanh"),
        (("shared_layer",), {"name": "tanh", "x": 1}),
        (("pooling",), "weighted"),
        (("pooling",), "pooler"),
        (("kind",), "ensemble"),
        (("members",), [{}, {}]),
    ],
    ids=str,
)
def test_a_record_of_the_right_shape_that_does_not_fit_is_refused_or_answers(model, tmp_path, place, new):
    copy = Path(shutil.copytree(model, tmp_path / "copy"))
    value = json.loads((copy / "plait.json").read_text())
    (copy / "plait.json").write_text(json.dumps(damaged(value, place, new)))
    renew_manifest(copy)
    try:
        predictor = plait.load(copy, device="cpu")
        assert predictor.predict("near", [("a film", "a book")])[0].score is not None
        assert predictor.predict("mood", ["a good film"])[0].label in predictor.tasks["mood"].labels.names
    except PlaitError as error:
        assert "\n" not in str(error) or len(error.mistakes) > 1


def test_unreadable_heads_are_refused(model, tmp_path):
    copy = Path(shutil.copytree(model, tmp_path / "copy"))
    (copy / "heads.safetensors").write_bytes(b"\xff" * 100)
    renew_manifest(copy)
    with pytest.raises(ModelError, match=r"heads\.safetensors: cannot be read as safetensors: .*copy the whole model"):
        plait.load(copy, device="cpu")


@pytest.mark.parametrize("file", ["plait.json", "manifest.json"])
@pytest.mark.parametrize("content", ["[" * 100_000, "3", "\xff", '{"sha256": 3}'])
def test_records_that_are_no_records(model, tmp_path, file, content):
    copy = Path(shutil.copytree(model, tmp_path / "copy"))
    (copy / file).write_bytes(content.encode("latin-1"))
    with pytest.raises(ModelError, match=rf"{copy}"):
        plait.load(copy, device="cpu")


def test_messages_name_the_place(model):
    value = json.loads((model / "plait.json").read_text())
    value["tasks"][0]["labels"]["low"] = "x"
    value["tasks"][1]["max_length"] = 10**18
    del value["tasks"][2]["link"]
    assert list(record_mistakes(value)) == [
        "tasks.0.labels.low: expected a number, found 'x'",
        "tasks.1.max_length: expected a number less than or equal to 10000000, found 1000000000000000000",
        "tasks.2.link: missing",
    ]
