"""What `plait init` recognizes in a file: texts, label, kind of label."""

import json
from pathlib import Path

import pytest

import plait
from drafts import draft_for, draft_of, texts
from plait.drafting.columns import profile_file
from plait.drafting.guess import Guess, guess_task
from plait.recipe.task import Source
from plait.resolve.run import resolve_tasks
from tiny import write_csv

STARTER = Path(plait.__file__).parent / "data" / "starter"
NO_LABEL = "it has no label column; name it with --label, or use the file with plait predict or plait embed"
PAIR = ("sentence1", "sentence2")
FIVE = ("0", "1", "2", "3", "4")
# File → text columns, label columns, kind, classes or range, other columns that could be labels; or why it is not used.
REAL = {
    "cs224n/ids-cfimdb-dev.csv": (("sentence",), ("sentiment",), "classes", ("0", "1"), ()),
    "cs224n/ids-cfimdb-train.csv": (("sentence",), ("sentiment",), "classes", ("0", "1"), ()),
    "cs224n/ids-sst-dev.csv": (("sentence",), ("sentiment",), "classes", FIVE, ()),
    "cs224n/ids-sst-test-student.csv": NO_LABEL,
    "cs224n/ids-sst-train.csv": (("sentence",), ("sentiment",), "classes", FIVE, ()),
    "cs224n/quora-dev.csv": (PAIR, ("is_duplicate",), "yes_no", (), ()),
    "cs224n/quora-train.csv": (PAIR, ("is_duplicate",), "yes_no", (), ()),
    "cs224n/sst-phrases.csv": (("sentence",), ("sentiment",), "classes", FIVE, ()),
    "cs224n/sts-dev.csv": (PAIR, ("similarity",), "score", (0, 5), ()),
    "cs224n/sts-test-student.csv": NO_LABEL,
    "cs224n/sts-train.csv": (PAIR, ("similarity",), "score", (0, 5), ()),
    "nli/sick-test.csv": (PAIR, ("relatedness",), "score", (1, 5), ("entailment",)),
    "nli/sick-train.csv": (PAIR, ("relatedness",), "score", (1, 5), ("entailment",)),
    "nli/snli-dev.csv": (
        ("premise", "hypothesis"),
        ("label",),
        "classes",
        ("contradiction", "entailment", "neutral"),
        (),
    ),
    "nli/snli-test.csv": (
        ("premise", "hypothesis"),
        ("label",),
        "classes",
        ("contradiction", "entailment", "neutral"),
        (),
    ),
    "nli/triplets.csv": (("sent0", "sent1", "hard_neg"), (), "triplets", (), ()),
    "pairs/mrpc-test.csv": (PAIR, ("is_duplicate",), "yes_no", (), ()),
    "pairs/mrpc-train.csv": (PAIR, ("is_duplicate",), "yes_no", (), ()),
    "senteval/cr.csv": (("sentence",), ("label",), "classes", ("0", "1"), ()),
    "senteval/imdb-10k.csv": (("sentence",), ("label",), "classes", ("0", "1"), ()),
    "senteval/mpqa.csv": (("sentence",), ("label",), "classes", ("0", "1"), ()),
    "senteval/mr.csv": (("sentence",), ("label",), "classes", ("0", "1"), ()),
    "senteval/sst2.csv": (("sentence",), ("label",), "classes", ("0", "1"), ()),
    "senteval/subj.csv": (("sentence",), ("label",), "classes", ("0", "1"), ()),
    "senteval/trec.csv": (
        ("sentence",),
        ("label",),
        "classes",
        ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"),
        ("fine_label",),
    ),
}
STARTER_FILES = {
    **{
        f"reviews-{split}.csv": (("sentence",), ("sentiment",), "classes", FIVE, ())
        for split in ("train", "dev", "test")
    },
    **{f"questions-{split}.csv": (PAIR, ("is_duplicate",), "yes_no", (), ()) for split in ("train", "dev", "test")},
    **{f"pairs-{split}.csv": (PAIR, ("similarity",), "score", (0, 5), ()) for split in ("train", "dev", "test")},
}


def found(path: Path) -> tuple | str:
    guess = guess_task(profile_file(Source(file=str(path))))
    if isinstance(guess, str):
        return guess
    return guess.text, guess.label, guess.kind, guess.range or guess.classes, guess.others


@pytest.mark.parametrize("name", REAL)
def test_real_files_are_recognized(real_data, name):
    assert found(real_data / name) == REAL[name]


def test_every_real_file_is_tested(real_data):
    files = {f"{path.parent.name}/{path.name}" for path in real_data.glob("*/*.csv")}
    assert files == set(REAL)


@pytest.mark.parametrize("name", STARTER_FILES)
def test_starter_files_are_recognized(name):
    assert found(STARTER / name) == STARTER_FILES[name]


def test_columns_of_0_and_1_are_multilabel(tmp_path):
    rows = [[text, n % 2, n % 3 == 0, n % 5 == 0] for n, text in enumerate(texts())]
    rows = [[text, *map(int, flags)] for text, *flags in rows]
    draft, recipe = draft_of(tmp_path, {"comments.csv": (["comment", "toxic", "insult", "threat"], rows)})
    label = recipe.tasks["comments"].label
    assert (label.column, label.kind) == (("toxic", "insult", "threat"), "multilabel")
    assert draft.tasks[0].notes[0] == (
        "treating 3 columns of 0 and 1 as one multilabel task; to use a single column, write label: toxic"
    )


def test_labels_with_a_separator_are_multilabel(tmp_path):
    tags = ["red|blue", "red", "blue|green", "green", "red|blue|green"]
    rows = [[text, tags[n % 5]] for n, text in enumerate(texts())]
    draft, recipe = draft_of(tmp_path, {"posts.csv": (["text", "tags"], rows)})
    label = recipe.tasks["posts"].label
    assert (label.column, label.kind, label.separator) == (("tags",), "multilabel", "|")
    assert resolve_tasks(recipe, limit=40, width=16).tasks["posts"].spec.labels.classes == ("blue", "green", "red")
    assert draft.tasks[0].notes[0] == (
        "splitting tags at '|' into several labels; to treat each cell as one class, write label: tags"
    )


def test_lists_in_jsonl_are_multilabel(tmp_path):
    path = tmp_path / "posts.jsonl"
    lines = [json.dumps({"text": text, "tags": [["a"], ["a", "b"], []][n % 3]}) for n, text in enumerate(texts())]
    path.write_text("\n".join(lines))
    _, recipe = draft_for(tmp_path, path.name)
    assert resolve_tasks(recipe, limit=40, width=16).tasks["posts"].spec.labels.classes == ("a", "b")


def test_one_of_two_unrelated_texts_is_chosen_and_noted(tmp_path):
    rows = [[text, f"{text} and more of it than a title has", "ab"[n % 2]] for n, text in enumerate(texts())]
    draft, recipe = draft_of(tmp_path, {"news.csv": (["title", "body", "label"], rows)})
    assert recipe.tasks["news"].text == ("body",)
    assert draft.tasks[0].notes[0] == "using body as the text; to train on pairs, write text: [body, title]"


def test_three_texts_without_a_label_are_triplets(tmp_path):
    rows = list(zip(texts(seed=1), texts(seed=2), texts(seed=3), strict=True))
    draft, recipe = draft_of(tmp_path, {"t.csv": (["query", "good", "poor"], rows)})
    assert recipe.tasks["t"].text == ("query", "good", "poor")
    assert recipe.tasks["t"].label is None
    assert draft.tasks[0].notes[0] == "treating the three texts as anchor, positive and hard negative, in this order"


def test_a_few_integers_are_classes_and_could_be_a_score(tmp_path):
    rows = [[text, 1 + n % 5] for n, text in enumerate(texts())]
    draft, recipe = draft_of(tmp_path, {"reviews.csv": (["review", "stars"], rows)})
    assert recipe.tasks["reviews"].label.classes == {word: word for word in "12345"}
    assert draft.tasks[0].notes[0] == (
        "treating the numbers in stars as classes; to predict a score instead, write "
        "label: {column: stars, kind: score}"
    )


def test_many_integers_are_a_score(tmp_path):
    rows = [[text, 3 * (n // 2)] for n, text in enumerate(texts(80))]
    _, recipe = draft_of(tmp_path, {"reviews.csv": (["review", "percent"], rows)})
    assert recipe.tasks["reviews"].label.range == (0, 117)


def test_other_label_columns_are_noted(tmp_path):
    rows = [[text, "ab"[n % 2], "xyz"[n % 3]] for n, text in enumerate(texts())]
    draft, _ = draft_of(tmp_path, {"posts.csv": (["text", "label", "topic"], rows)})
    assert draft.tasks[0].notes[0] == "using label as the label; alternatives: topic (see the end of the task)"
    comment = "# To also train on topic, copy this task under another name with label: topic"
    assert comment in (tmp_path / "recipe.yaml").read_text()


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        (["x", "x"], "every row has the same 'label', 'x'; there is nothing to learn"),
        (["3,5", "2,5"], "the numbers in 'label' contain commas or percent signs; write them like 3.5"),
        (["['a']", "['b']"], """the lists in 'label' are not JSON; write ["a", "b"] with double quotes, or a|b"""),
    ],
)
def test_unusable_labels_are_reported(tmp_path, labels, why):
    write_csv(tmp_path / "a.csv", ["text", "label"], [[text, labels[n % 2]] for n, text in enumerate(texts())])
    assert found(tmp_path / "a.csv") == why


def test_a_missing_header_is_noted(tmp_path):
    draft, _ = draft_of(
        tmp_path, {"a.csv": (["a good day", "b"], [[text, "ab"[n % 2]] for n, text in enumerate(texts())])}
    )
    assert draft.tasks[0].notes[0] == (
        "the first line is read as the header, but 'b' is also a value; is the header missing?"
    )


def test_a_guess_is_frozen():
    with pytest.raises(AttributeError):
        Guess(("a",), ("b",), "classes").text = ("c",)  # type: ignore[misc]
