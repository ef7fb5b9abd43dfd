"""Parts of a data set: no text in two of them, classes in proportion, the same parts for the same seed."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plait
from plait.data.folds import components, normal_form, split_off
from plait.data.splits import divide, read_splits
from plait.errors import DataError, PlaitError
from plait.evaluation.find import find_split
from plait.model.about import read_about
from plait.model.load import load_model
from plait.recipe.read import recipe_from
from plait.recipe.schema import Task
from plait.recipe.tree import Tree
from plait.training.settle import settle
from plait.training.tables import TABLES
from tiny import sentences, write_csv


def texts(count: int) -> list[list[str]]:
    """One column of texts that all differ."""
    return [[f"text {number}" for number in range(count)]]


def counts(labels: list[str], part: list[int]) -> dict[str, int]:
    return dict(Counter(labels[row] for row in part))


# ---------------------------------------------------------------- rows that belong together


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("A  Dog", "a dog"),
        (" a\tdog\n", "a dog"),
        ("a\u00a0dog", "a dog"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("a dog.", "a dog."),
        ("", ""),
    ],
)
def test_texts_that_differ_in_case_and_white_space_are_one(text, form):
    assert normal_form(text) == form


def test_rows_of_one_text_belong_together():
    column = ["a dog", "a cat", "A  DOG", "a cat ", "a bird"]
    assert sorted(components([column])) == [[0, 2], [1, 3], [4]]


def test_pairs_belong_together_over_a_chain_of_texts():
    first = ["a", "b", "x", "D ", "e"]
    second = ["b", "c", "y", "c", "f"]  # a-b, b-c, d-c; x-y; e-f
    assert sorted(components([first, second])) == [[0, 1, 3], [2], [4]]


def test_a_chain_that_closes_late_is_one_component():
    first, second = ["a", "c", "e", "b", "d"], ["b", "d", "f", "c", "e"]
    assert components([first, second]) == [[0, 1, 2, 3, 4]]


def test_a_text_on_both_sides_of_different_pairs_joins_them():
    assert components([["a", "c"], ["b", "A"]]) == [[0, 1]]


def test_a_triplet_joins_by_any_of_its_texts():
    assert sorted(components([["a", "d", "g"], ["b", "e", "h"], ["c", "B", "i"]])) == [[0, 1], [2]]


def test_a_very_long_chain_is_found():
    count = 50_000  # deeper than any recursion
    names = [f"t{number}" for number in range(count + 1)]
    assert components([names[:-1], names[1:]]) == [list(range(count))]
    assert components([names[:-1][::-1], names[1:][::-1]]) == [list(range(count))]


# ---------------------------------------------------------------- parts

WORD = st.sampled_from(["a", "A", "b ", " b", "c", "d", "e  f", "E F", "g", "h", "i", "j"])


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(WORD, WORD, st.sampled_from("xyz")), min_size=1, max_size=40),
    shares=st.lists(st.sampled_from([0.1, 0.25, 0.4]), min_size=1, max_size=2),
    seed=st.text("ab", max_size=2),
)
def test_every_row_is_in_one_part_and_no_text_in_two(rows, shares, seed):
    first, second, labels = (list(column) for column in zip(*rows, strict=True))
    parts = split_off([first, second], labels, shares, seed)
    assert len(parts) == len(shares) + 1
    assert sorted(row for part in parts for row in part) == list(range(len(rows)))
    assert all(part == sorted(part) for part in parts)
    seen = [{normal_form(text) for row in part for text in (first[row], second[row])} for part in parts]
    for place, found in enumerate(seen):
        assert not any(found & other for other in seen[place + 1 :])
    for part, share in zip(parts, shares, strict=False):
        assert len(part) <= round(share * len(rows))


def test_classes_keep_their_proportions():
    labels = ["a"] * 600 + ["b"] * 300 + ["c"] * 100
    dev, test, train = split_off(texts(1_000), labels, [0.2, 0.1], "seed")
    assert counts(labels, dev) == {"a": 120, "b": 60, "c": 20}
    assert counts(labels, test) == {"a": 60, "b": 30, "c": 10}
    assert counts(labels, train) == {"a": 420, "b": 210, "c": 70}


def test_classes_keep_about_their_proportions_where_texts_repeat():
    column = [f"text {number // 3}" for number in range(900)]  # every text three times
    labels = ["a" if number // 3 % 3 else "b" for number in range(900)]
    dev, train = split_off([column], labels, [0.2], "seed")
    assert counts(labels, dev) == {"a": 120, "b": 60}
    assert not {column[row] for row in dev} & {column[row] for row in train}


def test_rows_without_a_class_are_split_by_number_alone():
    dev, train = split_off(texts(50), [""] * 50, [0.3], "seed")
    assert (len(dev), len(train)) == (15, 35)


def test_many_rare_classes_stay_in_train():
    labels = [str(number % 60) for number in range(120)]
    dev, train = split_off(texts(120), labels, [0.25], "seed")
    assert (len(dev), len(train)) == (30, 90)
    assert len(counts(labels, train)) == 60


def test_classes_too_rare_for_a_share_of_their_own_do_not_make_the_part_smaller():
    labels = ["common"] * 500 + [str(number // 2) for number in range(50)]
    dev, _ = split_off(texts(550), labels, [0.2], "seed")
    assert len(dev) == 110


def test_the_same_seed_gives_the_same_parts_and_another_seed_others():
    labels = ["x", "y"] * 50
    once = split_off(texts(100), labels, [0.2, 0.2], "seed")
    assert once == split_off(texts(100), labels, [0.2, 0.2], "seed")
    assert once != split_off(texts(100), labels, [0.2, 0.2], "other")


def test_parts_are_drawn_from_everywhere():
    drawn = Counter(row for seed in range(100) for row in split_off(texts(50), ["x", "y"] * 25, [0.2], str(seed))[0])
    # 10 of 50 rows in 100 draws: each row 20 times on average, standard deviation √(100·0.2·0.8) = 4; 5 of them apart
    assert all(abs(drawn[row] - 20) <= 20 for row in range(50)), drawn


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 0.6, 0.9])
def test_a_rare_class_never_goes_away_whole(share):
    labels = ["a"] * 50 + ["b"] * 5 + ["c"] * 2 + ["d"]
    for seed in range(20):
        dev, train = split_off(texts(58), labels, [share], str(seed))
        assert set(counts(labels, train)) == {"a", "b", "c", "d"}
        assert dev and "d" not in counts(labels, dev)


def test_a_rare_class_never_goes_away_whole_into_two_parts():
    labels = ["a"] * 20 + ["b"] * 2
    for seed in range(20):
        *_, train = split_off(texts(22), labels, [0.45, 0.45], str(seed))
        assert set(counts(labels, train)) == {"a", "b"}


def test_classes_that_are_all_too_rare_for_their_share_still_give_a_part():
    labels = [label for label in "abcdefghij" for _ in range(2)]  # 0.2 of 2 rows is no row
    dev, train = split_off(texts(20), labels, [0.2], "seed")
    assert len(dev) == 4 and max(counts(labels, dev).values()) == 1
    assert len(counts(labels, train)) == 10


def test_a_group_that_is_too_large_stays_whole_in_the_rest():
    column = ["the same"] * 80 + [f"text {number}" for number in range(20)]
    dev, train = split_off([column], [""] * 100, [0.1], "seed")
    assert len(dev) == 10 and min(dev) >= 80
    assert set(range(80)) <= set(train)


# ---------------------------------------------------------------- in a recipe


def task_of(folder: Path, header: list[str], rows: list[tuple], **keys) -> Task:
    write_csv(folder / "all.csv", header, rows)
    return Task.model_validate({"train": str(folder / "all.csv"), **keys})


def split(task: Task, kind: str):
    return divide(read_splits(task), task, kind, "seed")


@pytest.mark.parametrize(
    ("rows", "share"),
    [
        ([("a dog", "x"), ("A dog", "y"), ("a  dog", "x"), ("a dog ", "y")], 0.5),  # one text
        ([("a dog", "x"), ("a cat", "y"), ("a bird", "x"), ("a fish", "y")], 0.1),  # less than a row
        ([("a dog", "x"), ("a cat", "y")], 0.5),  # either class has one row
    ],
)
def test_a_split_that_cannot_be_made_says_so(tmp_path, rows, share):
    task = task_of(tmp_path, ["text", "label"], rows, dev=share, text="text", label="label")
    with pytest.raises(DataError) as caught:
        split(task, "classes")
    assert caught.value.mistakes == (
        f"dev: {share} of {len(rows)} training rows cannot be split off without a text on both sides; "
        "give dev a file of its own, or a larger share",
    )


def test_scores_are_split_off_though_none_of_them_stands_twice(tmp_path):
    rows = [(f"one {number}", f"two {number}", number / 10) for number in range(40)]
    keys = {"text": ["one", "two"], "label": "score", "dev": 0.25}
    parts = split(task_of(tmp_path, ["one", "two", "score"], rows, **keys), "score")
    assert {split: len(part) for split, part in parts.items()} == {"train": 30, "dev": 10, "test": 0}


def test_scores_of_which_one_is_common_are_split_off_in_all_their_width(tmp_path):
    rows = [(f"one {number}", f"two {number}", max(0, number - 20) / 10) for number in range(50)]
    for label in ("score", {"column": "score", "range": [0, 5]}, {"column": "score", "kind": "score"}):
        task = task_of(tmp_path, ["one", "two", "score"], rows, text=["one", "two"], label=label, dev=0.4)
        dev = split(task, "score")["dev"]
        assert len(dev) == 20 and len(set(dev.columns["score"])) > 5


def test_bad_rows_stay_with_the_training_rows(tmp_path):
    (tmp_path / "all.csv").write_text("text,label\n" + "".join(f"text {n},{n % 2}\n" for n in range(20)) + "short\n")
    task = Task.model_validate({"train": str(tmp_path / "all.csv"), "text": "text", "label": "label", "dev": 0.2})
    parts = split(task, "classes")
    assert [row.where for row in parts["train"].bad] == ["all.csv:22"]
    assert not parts["dev"].bad and not parts["test"].bad


def test_shares_that_leave_nothing_are_refused(tiny_recipe, tmp_path):
    recipe = tiny_recipe()
    recipe["tasks"]["mood"] |= {"dev": 0.5, "test": 0.5}
    with pytest.raises(PlaitError) as caught:
        plait.train(recipe, tmp_path / "run")
    assert list(caught.value.mistakes) == ["recipe: tasks.mood.test: dev and test leave no training data"]


def test_a_run_splits_off_its_dev_and_test_and_finds_them_again(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    sentence = sentences(30, seed=5)
    pairs = [(a, b, n % 2) for n, (a, b) in enumerate(zip(sentence, [*sentence[10:], *sentences(10, 6)], strict=True))]
    write_csv(Path(recipe["tasks"]["same"]["train"]), ["one", "two", "same"], pairs)
    for task in recipe["tasks"].values():
        task |= {"dev": 0.25, "test": 0.2}
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    about = read_about(result.model)
    model = load_model(result.run, device="cpu")
    parts = {split: find_split(model, result.run, about, split, None) for split in ("train", "dev", "test")}
    for task in recipe["tasks"]:
        seen = [{normal_form(t) for column in parts[split][task].texts for t in column} for split in parts]
        assert all(seen) and not (seen[0] & seen[1] | seen[0] & seen[2] | seen[1] & seen[2])
        lines = sorted(int(where.split(":")[1]) for split in parts for where in parts[split][task].origins)
        assert lines == list(range(2, 2 + len(lines))) and len(lines) == (30 if task == "same" else 24)
        for split in parts:
            (file,) = about["data"][task][split]
            assert (file["name"], file["rows"]) == (f"{task}-train.csv", len(parts[split][task]))


@pytest.mark.parametrize(
    ("text", "loss"), [(["one"], "mse"), (["one"], "cross_entropy"), (["one", "two"], "cross_entropy")]
)
def test_a_complete_recipe_holds_out_the_rows_that_the_short_one_does(tmp_path, text, loss):
    rows = [(f"one {number}", f"two {number}", number % 5 + 1) for number in range(200)]
    write_csv(tmp_path / "all.csv", ["one", "two", "stars"], rows)
    task = {"train": str(tmp_path / "all.csv"), "dev": 0.2, "text": text, "label": "stars", "loss": loss}
    short = settle(recipe_from(Tree({"encoder": "minilm", "tasks": {"x": task}}), TABLES), 40)
    complete = settle(recipe_from(Tree(short.recipe.model_dump(mode="json")), TABLES), 40)
    assert short.tasks["x"].splits["dev"].origins == complete.tasks["x"].splits["dev"].origins


def test_the_range_of_scores_is_that_of_all_rows_before_dev_gets_its_share(tmp_path):
    rows = [(f"one {number}", f"two {number}", number / 7) for number in range(30)]
    write_csv(tmp_path / "all.csv", ["one", "two", "score"], rows)
    task = {"train": str(tmp_path / "all.csv"), "dev": 0.5, "text": ["one", "two"], "label": "score"}
    for seed in range(5):
        settled = settle(recipe_from(Tree({"encoder": "minilm", "seed": seed, "tasks": {"x": task}}), TABLES), 40)
        assert (settled.tasks["x"].spec.labels.low, settled.tasks["x"].spec.labels.high) == (0.0, 29 / 7)
