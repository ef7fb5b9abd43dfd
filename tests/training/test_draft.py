"""What `plait init` finds in files, and that its recipes read back and train as they stand."""

import gzip
import json
from itertools import pairwise
from pathlib import Path

import pytest

import plait
from plait.data.guess import Guess, guess_task
from plait.data.profile import profile_file
from plait.errors import DataError, RequestError
from plait.recipe.read import read_recipe
from plait.recipe.schema import Source
from plait.training.draft import data_files, draft_recipe
from plait.training.draft_text import quoted, write_draft
from plait.training.settle import settle
from plait.training.tables import TABLES
from tiny import sentences, write_csv

STARTER = Path(plait.__file__).parent / "data" / "starter"
NO_LABEL = "it has no column of labels; plait predict and plait embed can read it"
PAIR = ("sentence1", "sentence2")
FIVE = ("0", "1", "2", "3", "4")
# file → text columns, label columns, kind, classes or range, other columns that could be labels; or why it is not used
REAL = {
    "cs224n/ids-cfimdb-dev.csv": (("sentence",), ("sentiment",), "classes", ("0", "1"), ()),
    "cs224n/ids-cfimdb-train.csv": (("sentence",), ("sentiment",), "classes", ("0", "1"), ()),
    "cs224n/ids-sst-dev.csv": (("sentence",), ("sentiment",), "classes", FIVE, ()),
    "cs224n/ids-sst-test-student.csv": NO_LABEL,
    "cs224n/ids-sst-train.csv": (("sentence",), ("sentiment",), "classes", FIVE, ()),
    "cs224n/quora-dev.csv": (PAIR, ("is_duplicate",), "yes_no", (), ()),
    "cs224n/quora-train.csv": (PAIR, ("is_duplicate",), "yes_no", (), ()),
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
OURS = {
    **{
        f"reviews-{split}.csv": (("sentence",), ("sentiment",), "classes", FIVE, ())
        for split in ("train", "dev", "test")
    },
    **{f"questions-{split}.csv": (PAIR, ("is_duplicate",), "yes_no", (), ()) for split in ("train", "dev", "test")},
    **{f"pairs-{split}.csv": (PAIR, ("similarity",), "score", (0, 5), ()) for split in ("train", "dev", "test")},
}
# folder → task → splits (files, or the share), head, loss
FOLDERS = {
    "cs224n": {
        "cfimdb": (["ids-cfimdb-train.csv"], ["ids-cfimdb-dev.csv"], None, "linear", "cross_entropy"),
        "sst": (["ids-sst-train.csv"], ["ids-sst-dev.csv"], None, "linear", "cross_entropy"),
        "quora": (["quora-train.csv"], ["quora-dev.csv"], None, "difference_product", "binary_cross_entropy"),
        "sts": (["sts-train.csv"], ["sts-dev.csv"], None, "cosine", "mse"),
    },
    "nli": {
        "sick": (["sick-train.csv[train]"], ["sick-train.csv[trial]"], ["sick-test.csv"], "cosine", "mse"),
        "snli": (["snli-dev.csv"], 0.1, ["snli-test.csv"], "joined", "cross_entropy"),
        "triplets": (["triplets.csv"], 0.1, None, "nearer", "simcse_supervised"),
    },
    "pairs": {
        "mrpc": (
            ["mrpc-train.csv[train]"],
            ["mrpc-train.csv[val]"],
            ["mrpc-test.csv"],
            "difference_product",
            "binary_cross_entropy",
        )
    },
    "senteval": {
        "cr": (["cr.csv"], 0.2, None, "linear", "cross_entropy"),
        "imdb_10k": (["imdb-10k.csv"], 0.1, None, "linear", "cross_entropy"),
        "mpqa": (["mpqa.csv"], 0.1, None, "linear", "cross_entropy"),
        "mr": (["mr.csv"], 0.1, None, "linear", "cross_entropy"),
        "sst2": (["sst2.csv"], 0.1, None, "linear", "cross_entropy"),
        "subj": (["subj.csv"], 0.1, None, "linear", "cross_entropy"),
        "trec": (["trec.csv[train]"], 0.1, ["trec.csv[test]"], "linear", "cross_entropy"),
    },
}


def found(path):
    guess = guess_task(profile_file(Source(file=str(path))))
    if isinstance(guess, str):
        return guess
    return guess.text, guess.label, guess.kind, guess.range or guess.classes, guess.others


@pytest.mark.parametrize("name", REAL)
def test_what_it_finds_in_real_files(real_data, name):
    assert found(real_data / name) == REAL[name]


def test_the_table_has_every_real_file(real_data):
    files = {f"{path.parent.name}/{path.name}" for path in real_data.glob("*/*.csv")}
    assert files == set(REAL)


@pytest.mark.parametrize("name", OURS)
def test_what_it_finds_in_the_starter_files(name):
    assert found(STARTER / name) == OURS[name]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_tasks_of_a_folder(real_data, folder):
    draft = draft_recipe(data_files([real_data / folder]))

    def shown(given):
        if given is None or isinstance(given, float):
            return given
        return [Path(s.file).name + "".join(f"[{value}]" for value in s.where.values()) for s in given]

    tasks = {
        task.name: (*(shown(task.splits.get(split)) for split in ("train", "dev", "test")), task.head, task.loss)
        for task in draft.tasks
    }
    assert tasks == FOLDERS[folder]
    assert list(tasks) == list(FOLDERS[folder])


@pytest.mark.parametrize("folder", [name for name in FOLDERS if name != "senteval"])
def test_a_recipe_for_real_files_reads_back_and_plans(real_data, tmp_path, folder):
    draft = draft_recipe(data_files([real_data / folder]))
    assert write_draft(draft, tmp_path / "recipe.yaml", "minilm") == 0
    recipe = read_recipe(tmp_path / "recipe.yaml", TABLES, profile="quick")
    assert list(recipe.tasks) == list(FOLDERS[folder])
    assert (recipe.rows, recipe.dev_rows, recipe.epochs) == (500, 200, 2)


def draft_of(tmp_path, files, encoder="minilm"):
    for name, (header, rows) in files.items():
        write_csv(tmp_path / name, header, rows)
    draft = draft_recipe([tmp_path / name for name in files])
    write_draft(draft, tmp_path / "recipe.yaml", encoder)
    return draft, read_recipe(tmp_path / "recipe.yaml", TABLES)


def texts(count=40, seed=0):
    return [f"{text} {number}" for number, text in enumerate(sentences(count, seed, 9))]


def test_flags_are_several_labels_at_once(tmp_path):
    rows = [[text, n % 2, n % 3 == 0, n % 5 == 0] for n, text in enumerate(texts())]
    rows = [[text, *map(int, flags)] for text, *flags in rows]
    draft, recipe = draft_of(tmp_path, {"comments.csv": (["comment", "toxic", "insult", "threat"], rows)})
    label = recipe.tasks["comments"].label
    assert (label.column, label.kind) == (("toxic", "insult", "threat"), "several")
    assert draft.tasks[0].notes[0] == (
        "3 columns of 0 and 1 are taken as several labels at once; for one of them alone write label: toxic"
    )


def test_words_with_a_separator_are_several_labels_at_once(tmp_path):
    tags = ["red|blue", "red", "blue|green", "green", "red|blue|green"]
    rows = [[text, tags[n % 5]] for n, text in enumerate(texts())]
    draft, recipe = draft_of(tmp_path, {"posts.csv": (["text", "tags"], rows)})
    label = recipe.tasks["posts"].label
    assert (label.column, label.kind, label.separator) == (("tags",), "several", "|")
    assert settle(recipe, 40).tasks["posts"].spec.labels.classes == ("blue", "green", "red")
    assert "write label: tags" in draft.tasks[0].notes[0]


def test_lists_of_jsonl_are_several_labels_at_once(tmp_path):
    path = tmp_path / "posts.jsonl"
    lines = [json.dumps({"text": text, "tags": [["a"], ["a", "b"], []][n % 3]}) for n, text in enumerate(texts())]
    path.write_text("\n".join(lines))
    draft = draft_recipe([path])
    write_draft(draft, tmp_path / "recipe.yaml", "minilm")
    recipe = read_recipe(tmp_path / "recipe.yaml", TABLES)
    assert settle(recipe, 40).tasks["posts"].spec.labels.classes == ("a", "b")


def test_two_texts_that_are_no_pair_say_which_was_taken(tmp_path):
    rows = [[text, f"{text} and more of it than a title has", "ab"[n % 2]] for n, text in enumerate(texts())]
    draft, recipe = draft_of(tmp_path, {"news.csv": (["title", "body", "label"], rows)})
    assert recipe.tasks["news"].text == ("body",)
    assert draft.tasks[0].notes[0] == "body is taken as the text; to compare it with another write text: [body, title]"


def test_three_texts_without_a_label_are_triplets(tmp_path):
    rows = list(zip(texts(seed=1), texts(seed=2), texts(seed=3), strict=True))
    draft, recipe = draft_of(tmp_path, {"t.csv": (["query", "good", "poor"], rows)})
    assert recipe.tasks["t"].text == ("query", "good", "poor")
    assert recipe.tasks["t"].label is None
    assert draft.tasks[0].notes[0] == (
        "three texts and no label are taken as anchor, positive and hard negative, in this order"
    )


def test_stars_are_classes_and_could_be_a_score(tmp_path):
    rows = [[text, 1 + n % 5] for n, text in enumerate(texts())]
    draft, recipe = draft_of(tmp_path, {"reviews.csv": (["review", "stars"], rows)})
    assert recipe.tasks["reviews"].label.classes == {word: word for word in "12345"}
    assert draft.tasks[0].notes[0] == (
        "the numbers of stars are taken as classes; as a score on a scale write label: {column: stars, kind: score}"
    )


def test_numbers_on_a_long_scale_are_scores(tmp_path):
    rows = [[text, 3 * (n // 2)] for n, text in enumerate(texts(80))]
    _, recipe = draft_of(tmp_path, {"reviews.csv": (["review", "percent"], rows)})
    assert recipe.tasks["reviews"].label.range == (0, 117)


def test_files_of_one_task_come_together_and_of_two_stay_apart(tmp_path):
    one = [[text, "ab"[n % 2]] for n, text in enumerate(texts())]
    two = [[text, "xyz"[n % 3]] for n, text in enumerate(texts(seed=4))]
    files = {
        "mood_train.csv": (["text", "label"], one),
        "mood_valid.csv": (["text", "label"], one[:8]),
        "mood_test.csv": (["text", "label"], one[8:16]),
        "topic.train.csv": (["text", "topic"], two),
    }
    draft, recipe = draft_of(tmp_path, files)
    assert {name: (len(task.train), task.dev, len(task.test)) for name, task in recipe.tasks.items()} == {
        "mood": (1, recipe.tasks["mood"].dev, 1),
        "topic": (1, 0.2, 0),
    }
    assert [Path(source.file).name for source in recipe.tasks["mood"].dev] == ["mood_valid.csv"]
    assert draft.schedule == "together"


def test_files_that_are_nothing_but_splits_are_named_by_their_label(tmp_path):
    rows = [[text, "ab"[n % 2]] for n, text in enumerate(texts())]
    _, recipe = draft_of(tmp_path, {"train.csv": (["text", "mood"], rows), "dev.csv": (["text", "mood"], rows[:9])})
    assert list(recipe.tasks) == ["mood"]


def test_tasks_of_unlike_size_are_drawn_by_temperature(tmp_path):
    large = [[text, "ab"[n % 2]] for n, text in enumerate(texts(200))]
    small = [[text, "ab"[n % 2]] for n, text in enumerate(texts(40, 5))]
    draft, _ = draft_of(tmp_path, {"large.csv": (["text", "label"], large), "small.csv": (["text", "label"], small)})
    assert draft.schedule == "{name: sampled, by: temperature}"


def test_rare_classes_get_a_metric_that_sees_them(tmp_path):
    rows = [[text, "rare" if n % 20 == 0 else "common"] for n, text in enumerate(texts(100))]
    _, recipe = draft_of(tmp_path, {"a.csv": (["text", "label"], rows)})
    assert recipe.tasks["a"].metric == "macro_f1"
    assert "# class_weights: balanced" in (tmp_path / "recipe.yaml").read_text()


def test_bad_rows_are_left_out_and_said(tmp_path):
    rows = [[text, "ab"[n % 2]] for n, text in enumerate(texts())]
    write_csv(tmp_path / "a.csv", ["text", "label"], rows)
    with (tmp_path / "a.csv").open("a") as file:
        file.write("ragged,a,b\n,a\n")
    draft = draft_recipe([tmp_path / "a.csv"])
    assert write_draft(draft, tmp_path / "recipe.yaml", "minilm") == 2
    assert "bad_rows: skip" in (tmp_path / "recipe.yaml").read_text()
    settled = settle(read_recipe(tmp_path / "recipe.yaml", TABLES), 40)
    assert [row.where for row in settled.bad["a"]] == ["a.csv:42", "a.csv:43"]


def test_names_that_yaml_would_misread_are_quoted(tmp_path):
    rows = [[text, ["yes: sure", "no", "#3", "1.50"][n % 4]] for n, text in enumerate(texts())]
    _, recipe = draft_of(tmp_path, {"a b.csv": (["the: text", "is it, really?"], rows)})
    (task,) = recipe.tasks.values()
    assert task.text == ("the: text",)
    assert task.label.column == ("is it, really?",)
    assert set(task.label.classes) == {"yes: sure", "no", "#3", "1.50"}


@pytest.mark.parametrize("word", ["no", "a: b", "'", '"', "\\", "1.0", "", " a", "a#b", "é", "null", "-", "10", "a\nb"])
def test_a_quoted_word_is_read_back(word):
    from ruamel.yaml import YAML

    assert str(YAML(typ="safe").load(f"key: {quoted(word)}")["key"]) == word


def test_packed_files_and_tabs_are_looked_into(tmp_path):
    lines = ["text\tlabel", *(f"{text}\t{'ab'[n % 2]}" for n, text in enumerate(texts()))]
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    draft = draft_recipe([tmp_path / "a.tsv.gz"])
    assert (draft.tasks[0].name, draft.tasks[0].guess.kind, draft.tasks[0].rows) == ("a", "classes", {"train": 40})


def test_a_file_without_text_or_rows_is_not_used(tmp_path):
    rows = [[text, "ab"[n % 2]] for n, text in enumerate(texts())]
    write_csv(tmp_path / "a.csv", ["text", "label"], rows)
    write_csv(tmp_path / "numbers.csv", ["x", "y"], [[n, n % 2] for n in range(30)])
    write_csv(tmp_path / "empty.csv", ["text", "label"], [])
    draft = draft_recipe(data_files([tmp_path]))
    assert {Path(file).name: why for file, why in draft.unused.items()} == {
        "empty.csv": "it has no rows",
        "numbers.csv": "it has no column of text",
    }


def test_nothing_to_train_on_is_refused_with_every_reason(tmp_path):
    write_csv(tmp_path / "numbers.csv", ["x", "y"], [[n, n % 2] for n in range(30)])
    with pytest.raises(DataError) as caught:
        draft_recipe([tmp_path / "numbers.csv"])
    assert caught.value.mistakes == (
        f"{tmp_path}/numbers.csv: it has no column of text",
        "no file is one to train on",
    )


def test_what_is_not_there_is_named_all_at_once(tmp_path):
    with pytest.raises(RequestError) as caught:
        data_files([tmp_path / "a.csv", tmp_path])
    assert caught.value.mistakes == (
        f"{tmp_path}/a.csv: no such file or folder",
        f"{tmp_path}: has no data files; give .csv, .tsv, .jsonl or .parquet files",
    )


def test_a_draft_that_cannot_train_is_written_and_says_why(tmp_path):
    chain = texts()
    rows = [[*pair, n % 2] for n, pair in enumerate(pairwise(chain))]
    write_csv(tmp_path / "a.csv", ["text1", "text2", "label"], rows)
    draft = draft_recipe(data_files([tmp_path]))
    with pytest.raises(DataError) as caught:
        write_draft(draft, tmp_path / "recipe.yaml", "minilm")
    assert caught.value.mistakes[0] == f"{tmp_path}/recipe.yaml: is written, and cannot train before this is mended:"
    assert caught.value.mistakes[1] == (
        f"{tmp_path}/recipe.yaml:5: tasks.a: dev: 0.2 of 39 training rows cannot be split off without a text on both "
        "sides; give dev a file of its own, or a larger share"
    )
    assert (tmp_path / "recipe.yaml").is_file()


def test_every_kind_of_draft_trains_as_it_stands(tmp_path, tiny_bert):
    flags = [[text, n % 2, int(n % 3 == 0)] for n, text in enumerate(texts())]
    pairs = list(zip(texts(seed=1), texts(seed=2), strict=True))
    files = {
        "one.csv": (["text", "label"], [[text, "ab"[n % 2]] for n, text in enumerate(texts(seed=3))]),
        "flags.csv": (["text", "hot", "wet"], flags),
        "same.csv": (["text1", "text2", "same"], [[*pair, n % 2] for n, pair in enumerate(pairs)]),
        "near.csv": (["text1", "text2", "score"], [[*pair, n % 7 / 2] for n, pair in enumerate(pairs)]),
        "three.csv": (
            ["anchor", "positive", "negative"],
            list(zip(texts(seed=4), texts(seed=5), texts(seed=6), strict=True)),
        ),
    }
    draft_of(tmp_path, files, str(tiny_bert))
    result = plait.train(tmp_path / "recipe.yaml", tmp_path / "run", profile="quick")
    assert list(result.scores) == ["one", "flags", "same", "near", "three"]
    assert set(plait.load(result.model).tasks) == set(result.scores)


def test_a_guess_is_frozen():
    with pytest.raises(AttributeError):
        Guess(("a",), ("b",), "classes").text = ("c",)  # type: ignore[misc]
