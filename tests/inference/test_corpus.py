"""A folder is read as one file, and the shards of a corpus have every row once, in order."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from counting_job import counting, errors_of, run
from plait.errors import DataError, RequestError
from plait.inference import inputs
from plait.inference.corpus import Shard, find_corpus
from streaming import read_rows, rows_of, write_rows

FILES = ["in.csv", "in.tsv", "in.csv.gz", "in.jsonl", "in.jsonl.gz", "in.json", "in.parquet", "in.xlsx"]


def write_folder(folder, rows, kind="csv", sizes=(3, 0, 9, 1)):
    """Rows in several files; those of size 0 have a header only."""
    folder.mkdir()
    for number, size in enumerate(sizes):
        path = folder / f"{number}.{kind}"
        if size:
            write_rows(path, rows[:size])
        elif kind == "csv":
            path.write_text(",".join(rows[0]) + "\n")
        rows = rows[size:]
    assert not rows
    return folder


# Shards


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_the_shards_of_a_file_have_every_row_once(name, count, tmp_path):
    source = write_rows(tmp_path / name, rows_of(13))
    job = counting()
    shards = [list(job.open(str(source), "parquet", shard=Shard(number, count)).records) for number in range(count)]
    whole = list(job.open(str(source), "parquet").records)
    assert [record._replace(file="") for shard in shards for record in shard] == whole
    assert {record.file for shard in shards for record in shard} == {name}
    assert count > 13 or name == "in.json" or all(shards)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_the_shards_of_a_folder_have_every_row_once(kind, tmp_path):
    rows = rows_of(13)
    source = write_folder(tmp_path / "in", rows, kind)
    for count in (1, 3, 6):
        shards = [counting().open(str(source), "parquet", shard=Shard(number, count)) for number in range(count)]
        found = [record for shard in shards for record in shard.records]
        assert [record.values for record in found] == rows
        assert [record.file for record in found] == [f"0.{kind}"] * 3 + [f"2.{kind}"] * 9 + [f"3.{kind}"]
        assert all(shard.columns == shards[0].columns for shard in shards)


def test_lines_that_hold_no_row_do_not_disturb_the_shards(tmp_path):
    lines = [json.dumps({"sentence": f"text {number}"}) + "\n" * (1 + number % 3) for number in range(20)]
    (tmp_path / "in.jsonl").write_text("\n\n" + "".join(lines))
    shards = [counting().open(f"{tmp_path}/in.jsonl", "parquet", shard=Shard(number, 4)).records for number in range(4)]
    found = [record.values["sentence"] for shard in shards for record in shard]
    assert found == [f"text {number}" for number in range(20)]


def test_columns_of_jsonl_are_collected_once(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    write_rows(tmp_path / "in/a.jsonl", [{"sentence": "a", "n": 1}, {"sentence": "b", "x": True}])
    write_rows(tmp_path / "in/b.jsonl", [{"sentence": "c", "n": 0.5}])
    options = {"survey": tmp_path / "_corpus.json"}
    first = counting().open(f"{tmp_path}/in", "parquet", shard=Shard(0, 2), **options)
    assert first.columns == {"sentence": "text", "n": "number", "x": "truth"}
    monkeypatch.setattr(inputs, "_collect_columns", None)
    second = counting().open(f"{tmp_path}/in", "parquet", shard=Shard(1, 2), **options)
    assert second.columns == first.columns and [record.file for record in second.records] == ["b.jsonl"]
    monkeypatch.undo()
    write_rows(tmp_path / "in/b.jsonl", [{"sentence": "c", "y": 0.5}])  # another corpus: it is read again
    assert set(counting().open(f"{tmp_path}/in", "parquet", **options).columns) == {"sentence", "n", "x", "y"}


# Folders


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_folder_gives_the_output_of_one_file(kind, tmp_path):
    rows = rows_of(13)
    source = write_folder(tmp_path / "in", rows, kind)
    whole = write_rows(tmp_path / f"whole.{kind}", rows)
    for output in ("out.csv", "out.jsonl", "out.parquet"):
        run(counting(), source, tmp_path / output)
        run(counting(), whole, tmp_path / f"whole-{output}")
        assert (tmp_path / output).read_bytes() == (tmp_path / f"whole-{output}").read_bytes()


def test_files_are_read_by_name_and_hidden_ones_are_left_out(tmp_path):
    for name in ("b/2.csv", "b/10.csv", "a.csv", "_SUCCESS", ".hidden/x.csv", "b/_part.json", "c.csv/.x.crc"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(f"sentence\n{name}\n")
    run(counting(), tmp_path / "in", tmp_path / "out.csv")
    assert [row["sentence"] for row in read_rows(tmp_path / "out.csv")] == ["a.csv", "b/10.csv", "b/2.csv"]


def test_bad_rows_name_their_file(tmp_path):
    (tmp_path / "in/deep").mkdir(parents=True)
    (tmp_path / "in/a.csv").write_text("sentence,id\ngood,1\ntoo few\n")
    (tmp_path / "in/deep/b.csv").write_text("sentence,id\n,2\n")
    assert run(counting(), tmp_path / "in", tmp_path / "out.csv").bad == 2
    assert [row["where"] for row in errors_of(tmp_path / "out.csv")] == ["a.csv:3", "deep/b.csv:2"]


def test_columns_of_several_files_are_combined(tmp_path):
    (tmp_path / "in").mkdir()
    tables = [{"i": pyarrow.int32(), "m": pyarrow.int64()}, {"i": pyarrow.int64(), "m": pyarrow.string()}]
    for name, types in zip("ab", tables, strict=True):
        values = {"sentence": ["x"], "i": pyarrow.array([1], types["i"]), name: ["only here"]}
        values["m"] = pyarrow.array([5 if name == "a" else "five"], types["m"])
        pyarrow.parquet.write_table(pyarrow.table(values), tmp_path / f"in/{name}.parquet")
    run(counting(), tmp_path / "in", tmp_path / "out.parquet")
    schema = pyarrow.parquet.read_schema(tmp_path / "out.parquet")
    assert schema.field("i").type == pyarrow.int64() and schema.field("m").type == pyarrow.string()
    found = read_rows(tmp_path / "out.parquet")
    assert [(row["i"], row["m"], row["a"], row["b"]) for row in found] == [
        (1, "5", "only here", None),
        (1, "five", None, "only here"),
    ]


def test_an_interrupted_folder_is_resumed_unless_a_file_changed(tmp_path):
    source = write_folder(tmp_path / "in", rows_of(13))
    before = inputs.fingerprint(str(source))
    assert inputs.fingerprint(str(source)) == before
    (source / "1.csv").rename(source / "4.csv")
    assert inputs.fingerprint(str(source)) != before


# Refused


def refused(source, output, job=None) -> tuple[str, ...]:
    with pytest.raises((DataError, RequestError)) as caught:
        run(job or counting(), source, output)
    assert not output.exists()
    return caught.value.mistakes


def test_everything_that_is_wrong_with_a_folder_is_reported_at_once(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    assert refused(source, tmp_path / "out.csv")[0].startswith(f"{source}: the folder holds no data files; plait reads")
    (source / "a.csv").write_text("sentence\nx\n")
    (source / "a.txt").write_text("x")
    (source / "b.md").write_text("x")
    assert refused(source, tmp_path / "out.csv") == tuple(
        f"{source}/{name}: unknown file format; move it away, or begin its name with an underscore"
        for name in ("a.txt", "b.md")
    )
    (source / "a.txt").unlink()
    (source / "b.md").unlink()
    write_rows(source / "b.parquet", rows_of(1))
    assert refused(source, tmp_path / "out.csv") == (
        f"{source}/b.parquet: parquet, but a.csv is csv; keep one format per folder",
    )


def test_every_file_without_a_needed_column_is_reported(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    for number in range(25):
        (source / f"{number:02d}.csv").write_text("sentense\nx\n")
    mistakes = refused(source, tmp_path / "out.csv")
    assert mistakes[0].startswith(f"{source}/00.csv:1: no column 'sentence'; did you mean 'sentense'?")
    assert len(mistakes) == 21 and mistakes[-1] == "... and 5 more files like these"


def test_an_output_in_the_input_folder_is_refused(tmp_path):
    source = write_folder(tmp_path / "in", rows_of(13))
    assert refused(source, source / "out.csv") == (
        f"--output {source}/out.csv: lies in the input folder; choose another place",
    )


def test_a_corpus_is_known_by_its_content_not_its_place(tmp_path):
    first, second = (write_folder(tmp_path / name, rows_of(13)) for name in ("a", "b"))
    assert find_corpus(first).digest == find_corpus(second).digest
    text = (second / "3.csv").read_text()
    (second / "3.csv").write_text(text.replace("Zoë", "Zoe"))
    assert find_corpus(first).digest != find_corpus(second).digest
