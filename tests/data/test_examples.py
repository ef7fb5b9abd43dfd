"""Examples: texts, labels and lines of the usable rows, and every bad row."""

from pathlib import Path

import pytest

from plait.data.examples import Examples, examples_from, sound_examples
from plait.data.kinds import Kind
from plait.data.labels import Labels, labels_from
from plait.data.read import read_rows
from plait.errors import DataError
from reading import HEADER, bad, csv_rows, line_of, read, sources


def read_examples(folder: Path, content: str, labels: Labels, text: tuple[str, ...] = ("text",)) -> Examples:
    rows = read(folder, "dev.csv", content, (*text, "label"))
    return sound_examples(rows, text, ["label"], labels)


def test_examples_have_texts_labels_and_lines(tmp_path):
    content = 'text,more,label\n"a\nb",x,high\nc,y,low\n'
    examples = read_examples(tmp_path, content, labels_from({"label": ["low", "high"]}, "classes"), ("text", "more"))
    assert examples.texts == (["a\nb", "c"], ["x", "y"])
    assert examples.labels.tolist() == [0, 1]  # classes are sorted: high, low
    assert examples.origins == ["dev.csv:2", "dev.csv:4"]
    chosen = examples.chosen([1])
    assert (chosen.texts, chosen.labels.tolist(), chosen.origins) == ((["c"], ["y"]), [1], ["dev.csv:4"])


def test_an_unknown_class_is_reported_with_file_and_line(tmp_path):
    with pytest.raises(DataError) as caught:
        read_examples(
            tmp_path,
            'text,label\n"a\nb",low\nc,middle\n ,high\n,\n',
            labels_from({"label": ["low", "high"]}, "classes"),
        )
    assert caught.value.mistakes == (
        "dev.csv:4: the label 'middle' is not one of the classes of the training data: high, low",
        "dev.csv:5: the text in column 'text' is empty",
        "dev.csv:6: the label is empty",
    )


def test_only_20_bad_labels_are_listed_and_the_rest_counted(tmp_path):
    with pytest.raises(DataError) as caught:
        read_examples(tmp_path, "text,label\n" + "a,7\n" * 25, labels_from({"label": ["0", "1"]}, "yes_no"))
    assert len(caught.value.mistakes) == 21
    assert caught.value.mistakes[-1] == "dev.csv: ... and 5 more bad rows, 25 in all"


# ---------------------------------------------------------------- bad rows

RANGE = "is outside the range 0 to 5; the label's `range` sets it"
LABELS: dict[str, tuple[Kind, dict, list[str], dict[int, str]]] = {
    "given classes": (
        "classes",
        {"classes": {"low": "low", "high": "high"}},
        ["low", "mid", "", "nan", "NaN", " high ", "inf", "LOW"],
        {
            3: "the label 'mid' is not one of the classes of the training data: low, high",
            4: "the label is empty",
            5: "the label is nan, not a number",
            6: "the label is NaN, not a number",
            8: "the label 'inf' is not one of the classes of the training data: low, high",
            9: "the label 'LOW' is not one of the classes of the training data: low, high",
        },
    ),
    "scores": (
        "score",
        {"range": (0, 5)},
        ["0", "5.0", "5.01", "-1", "high", "NaN", "nan", "inf", "-Infinity", "", "  ", "1,5", "0x1", "1_0", "1e400"],
        {
            4: f"the label 5.01 {RANGE}",
            5: f"the label -1 {RANGE}",
            6: "the label 'high' is not a number",
            7: "the label is NaN, not a number",
            8: "the label is nan, not a number",
            9: "the label 'inf' is not a number",
            10: "the label '-Infinity' is not a number",
            11: "the label is empty",
            12: "the label is empty",
            13: "the label '1,5' is not a number",
            14: "the label '0x1' is not a number",
            15: "the label '1_0' is not a number",
            16: "the label '1e400' is not a number",
        },
    ),
    "yes or no": (
        "yes_no",
        {},
        ["1", "no", "2", "", "NaN", "maybe", "TRUE"],
        {
            4: "the label '2' is neither yes (1, true) nor no (0, false)",
            5: "the label is empty",
            6: "the label is NaN, not a number",
            7: "the label 'maybe' is neither yes (1, true) nor no (0, false)",
        },
    ),
    "multilabel with a separator": (
        "multilabel",
        {"classes": {"a": "a", "b": "b"}, "separator": "|"},
        ["a|b", "", "b", "a|c", "c|d"],
        {
            5: "the label 'c' is not one of the classes of the training data: a, b",
            6: "the label 'c' is not one of the classes of the training data: a, b",
        },
    ),
    "multilabel lists": (
        "multilabel",
        {"classes": {"a": "a", "b": "b"}},
        ['["a"]', "[]", "a", '{"a": 1}', '["a", ["b"]]', "[null]", '["x"]'],
        {
            4: "the label 'a' is not a JSON list; give the label's `separator` if it lists words",
            5: "the label '{\"a\": 1}' is not a JSON list; give the label's `separator` if it lists words",
            6: 'the label \'["a", ["b"]]\' is not a JSON list; give the label\'s `separator` if it lists words',
            7: "the label '[null]' is not a JSON list; give the label's `separator` if it lists words",
            8: "the label 'x' is not one of the classes of the training data: a, b",
        },
    ),
}


@pytest.mark.parametrize("case", LABELS)
def test_every_invalid_label_is_a_bad_row(tmp_path, case):
    kind, given_labels, values, expected = LABELS[case]
    content = "".join(
        csv_rows([("text", "label"), *((f"text {number}", value) for number, value in enumerate(values))])
    )
    rows = read(tmp_path, "a.csv", content.encode())
    labels = labels_from({"label": values}, kind, **given_labels)
    examples, found = examples_from(rows, ["text"], ["label"], labels)
    assert {line_of(row.where): row.problem for row in found} == expected
    assert examples.origins == [f"a.csv:{line}" for line in range(2, 2 + len(values)) if line not in expected]
    assert [row.row for row in found] == [
        {"text": f"text {line - 2}", "label": values[line - 2]} for line in sorted(expected)
    ]


def test_empty_texts_are_bad_rows(tmp_path):
    content = b'text,more,label\na,b,1\n,b,1\na,"  ",1\n"\n",b,1\nc,d,0\n\xc2\xa0,b,1\n'
    rows = read(tmp_path, "a.csv", content, ("text", "more", "label"))
    examples, found = examples_from(rows, ["text", "more"], ["label"], labels_from({"label": []}, "yes_no"))
    assert bad(found) == [
        (3, "the text in column 'text' is empty"),
        (4, "the text in column 'more' is empty"),
        (5, "the text in column 'text' is empty"),
        (8, "the text in column 'text' is empty"),
    ]
    assert examples.texts == (["a", "c"], ["b", "d"])


def test_a_lone_surrogate_is_a_bad_row(tmp_path):
    lines = [
        b'{"text": "\\ud83d\\ude00", "label": "x"}',
        b'{"text": "\\ud83d", "label": "x"}',
        b'{"text": "a", "label": "\\udc00"}',
    ]
    rows = read(tmp_path, "a.jsonl", b"\n".join(lines))
    labels = labels_from({"label": rows.columns["label"]}, "classes", classes={"x": "x", "y": "y"})
    examples, found = examples_from(rows, ["text"], ["label"], labels)
    assert examples.texts == (["😀"],)
    assert bad(found) == [
        (2, "the text in column 'text' contains a lone surrogate, which is half a character"),
        (3, "the label contains a lone surrogate, which is half a character"),
    ]


def test_bad_rows_are_sorted_by_file_and_line(tmp_path):
    (tmp_path / "a.csv").write_bytes(HEADER + b",1\nb\nc,7\n")
    (tmp_path / "b.csv").write_bytes(HEADER + b"a,1\n" * 7 + b",1\nb\n,1\n")
    rows = read_rows(sources(tmp_path, "a.csv", "b.csv"), ["text", "label"])
    _, found = examples_from(rows, ["text"], ["label"], labels_from({"label": []}, "yes_no"))
    assert [row.where for row in found] == ["a.csv:2", "a.csv:3", "a.csv:4", "b.csv:9", "b.csv:10", "b.csv:11"]
