"""`plait predict` for texts on the command line, and its options about answers."""

import json
import re

import pytest

from streaming import read_rows, rows_of, write_rows
from tiny import sentences, write_csv


@pytest.fixture(scope="module")
def many_classes(tiny_bert, tmp_path_factory):
    """A run with one task of eight classes that truncates inputs to eight tokens."""
    import plait

    folder = tmp_path_factory.mktemp("many")
    rows = [(text, f"class {row % 8}") for row, text in enumerate(sentences(48))]
    write_csv(folder / "many.csv", ["sentence", "kind"], rows)
    task = {"train": str(folder / "many.csv"), "text": "sentence", "label": "kind", "max_length": 8}
    recipe = {"encoder": str(tiny_bert), "tasks": {"kind": task}, "epochs": 1}
    return plait.train(recipe, folder / "run", baselines=False).run


def listed(out: str) -> tuple[str, list[str], list[float], str]:
    """The label, the classes with their probabilities, and what follows them."""
    label, _, rest = out.rstrip().removesuffix(")").partition("   (")
    shares, _, more = rest.partition("  … ")
    pairs = [part.rsplit(" ", 1) for part in shares.split("  ")]
    return label, [name for name, _ in pairs], [float(share) for _, share in pairs], more


def test_classes_are_sorted_and_the_longest_list_is_cut(many_classes, trained_run, plait):
    out, err = plait("predict", many_classes, "kind", "a dog")
    label, names, shares, more = listed(out)
    assert names[0] == label and len(names) == 5 and shares == sorted(shares, reverse=True)
    assert more == "and 3 more" and err == ""
    out, _ = plait("predict", many_classes, "kind", "a dog", "--top-k", 2)
    assert listed(out)[1] == names[:2] and listed(out)[3] == "and 6 more"
    out, _ = plait("predict", many_classes, "kind", "a dog", "--top-k", 99)
    assert len(listed(out)[1]) == 8 and listed(out)[3] == ""
    out, _ = plait("predict", trained_run, "mood", "a dog")
    label, names, shares, more = listed(out)
    assert names[0] == label and set(names) == {"high", "low"} and more == ""


def test_an_abstention_is_said(many_classes, plait, tmp_path):
    out, _ = plait("predict", many_classes, "kind", "a dog", "--abstain-below", 0.99)
    assert out.startswith("no prediction, its probability would be below 0.99   (class ")
    found = json.loads(plait("predict", many_classes, "kind", "a dog", "--abstain-below", 0.99, "--json")[0])
    assert found["label"] is None and found["score"] == max(found["probabilities"].values()) < 0.99
    source = write_rows(tmp_path / "in.csv", rows_of(4))
    options = ("--input", source, "--output", tmp_path / "out.csv", "--abstain-below", 0.99, "--top-k", 2)
    _, err = plait("predict", many_classes, "kind", *options)
    assert "4 of 4 rows have no prediction: its probability would be below 0.99\n" in err
    (first, *_) = read_rows(tmp_path / "out.csv")
    assert list(first)[-6:] == ["prediction", "probability", "top 1", "p(top 1)", "top 2", "p(top 2)"]
    assert first["prediction"] == "" and first["probability"] == first["p(top 1)"]


def test_a_threshold_moves_the_answer(trained_run, plait):
    for threshold, label in ((0, "yes"), (1, "no")):
        out, _ = plait("predict", trained_run, "same", "a dog", "a cat", "--threshold", threshold)
        assert out.startswith(f"{label}   (")
    out, _ = plait("predict", trained_run, "tags", "a dog", "--threshold", 0)
    assert out.startswith("x, y, z   (")


def test_a_truncated_text_is_said(many_classes, plait):
    long = "the film was good and " * 5
    out, err = plait("predict", many_classes, "kind", long)
    assert out and err == "the input was truncated to 8 tokens\n"
    assert json.loads(plait("predict", many_classes, "kind", long, "--json")[0])["truncated"] is True
    assert json.loads(plait("predict", many_classes, "kind", "a dog", "--json")[0])["truncated"] is False


def test_truncated_texts_of_a_pair_are_counted(trained_run, plait):
    limit = re.compile(r"1 of 2 inputs were truncated to \d+ tokens\n")
    _, err = plait("predict", trained_run, "near", "a dog " * 500, "a cat")
    assert limit.fullmatch(err)


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        (
            "mood",
            ["--threshold", "0.3"],
            "plait: --threshold is for yes/no and multilabel tasks; the task 'mood' predicts one of several classes; "
            "use --abstain-below",
        ),
        ("near", ["--top-k", "3"], "plait: --top-k is for classes; the task 'near' predicts a score"),
        ("mood", ["--abstain-below", "2"], "Invalid value for '--abstain-below': 2.0 is not in the range 0<=x<=1."),
        ("mood", ["--top-k", "0"], "Invalid value for '--top-k': 0 is not in the range x>=1."),
        (
            "mood",
            ["--encoding", "klingon"],
            "plait: --encoding: unknown encoding 'klingon'; use one such as utf-8, latin-1 or cp1252",
        ),
    ],
)
def test_invalid_options_give_one_message(trained_run, plait, task, options, message, tmp_path):
    source = write_rows(tmp_path / "in.csv", rows_of(2))
    _, err = plait("predict", trained_run, task, "--input", source, "--output", tmp_path / "o.csv", *options, code=2)
    assert message in err and "Traceback" not in err and not (tmp_path / "o.csv").exists()


def test_options_that_do_not_go_together(trained_run, plait):
    _, err = plait("predict", trained_run, "mood", "a dog", "--encoding", "latin-1", code=2)
    assert "go with --input, not with TEXT" in err
    _, err = plait("predict", trained_run, "--every", "mood=x.csv", "--output", "o", "--threshold", "0.2", code=2)
    assert "are for one task, not for --every" in err
    every = ("--every", "mood=x.csv", "--output", "o", "--leaderboard")
    assert "--prefix does not go with" in plait("predict", trained_run, *every, "--prefix", "x", code=2)[1]


def test_predictions_of_a_second_task_get_a_prefix(trained_run, plait, tmp_path):
    source, once, twice = write_rows(tmp_path / "in.csv", rows_of(3)), tmp_path / "once.csv", tmp_path / "twice.csv"
    plait("predict", trained_run, "mood", "--input", source, "--output", once)
    _, err = plait("predict", trained_run, "same", "--input", once, "--output", twice, code=2)
    assert f"{once}: already has the columns 'prediction', 'probability', which the output adds; " in err
    assert not twice.exists()
    _, err = plait("predict", trained_run, "--every", f"same={once}", "--output", tmp_path / "o", code=2)
    assert "already has the columns" in err and not (tmp_path / "o").exists()
    plait("predict", trained_run, "same", "--input", once, "--output", twice, "--prefix", "same ")
    assert {"prediction", "p(high)", "same prediction", "same p(yes)"} <= read_rows(twice)[0].keys()


@pytest.mark.parametrize("command", [["predict", "mood"], ["embed"]])
def test_another_encoding(trained_run, plait, command, tmp_path):
    source, output = tmp_path / "in.csv", tmp_path / "out.jsonl"
    source.write_bytes("sentence,né\nun été,Zoë\n".encode("latin-1"))
    name, *task = command
    options = ("--input", source, "--output", output)
    _, err = plait(name, trained_run, *task, *options, code=2)
    assert err.endswith("save the file as UTF-8, or use --encoding latin-1\n") and "not UTF-8" in err
    plait(name, trained_run, *task, *options, "--encoding", "latin-1")
    assert read_rows(output)[0]["né"] == "Zoë"
    with_every = ("--every", f"mood={source}", "--output", tmp_path / "o", "--encoding", "latin-1")
    plait("predict", trained_run, *with_every)
    assert read_rows(tmp_path / "o/mood.csv")[0]["né"] == "Zoë"
