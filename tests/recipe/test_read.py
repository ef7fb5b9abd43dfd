"""What a recipe holds once it is read, and round trips through a file."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from plait.errors import RecipeError
from plait.recipe.bundled import bundled_recipes
from plait.recipe.read import read_recipe, recipe_from, write_recipe
from plait.recipe.tree import Tree
from plait.resolve.run import resolve_tasks
from plait.resolve.variants import VARIANTS
from recipe_files import MOOD, PLAIN, files, mistakes, read

ELSEWHERE = "check the name, or give its folder with `data`"


@pytest.mark.parametrize(
    ("text", "value"), [("2e-5", 2e-5), ("1E-3", 1e-3), ("1", 1.0), (".5", 0.5), ("3.0e-05", 3e-5)]
)
def test_numbers_in_every_usual_notation_are_read(folder, text, value):
    assert read(folder, PLAIN + f"lr: {text}\n").lr == value


def test_the_data_folder_is_searched_before_the_folder_of_the_recipe(folder):
    (folder / "data").mkdir()
    (folder / "data" / "mood.csv").write_text(MOOD)
    recipe = read(folder, PLAIN, data=folder / "data")
    assert files(recipe, "mood", "train") == [folder / "data/mood.csv"]
    assert files(recipe, "near", "train") == [folder / "near.csv"]
    found = mistakes(folder, PLAIN.replace("near.csv", "gone.csv"), data=folder / "data")
    assert found == [f"recipe.yaml:8: tasks.near.train: no file 'gone.csv' in data and {folder}; {ELSEWHERE}"]


def test_a_missing_file_suggests_one_with_a_similar_name(folder):
    (found,) = mistakes(folder, PLAIN.replace("near.csv", "naer.csv"))
    assert found.endswith("; did you mean 'near.csv'? If not, give its folder with `data`")
    (found,) = mistakes(folder, PLAIN.replace("near.csv", "naer.csv"), data=folder)
    assert found.endswith("; did you mean 'near.csv'?")


@pytest.mark.parametrize(("key", "most"), [("epochs", 100_000), ("steps", 10_000_000)])
def test_numbers_of_steps_that_no_run_can_reach_are_refused(folder, key, most):
    (found,) = mistakes(folder, PLAIN + f"{key}: {10**23}\n")
    assert f"{key}: expected a number less than or equal to {most}, found {10**23}" in found
    assert getattr(read(folder, PLAIN + f"{key}: {most}\n"), key) == most


def test_a_suite_or_a_folder_is_not_a_recipe(tmp_path):
    for source, expected in (
        ("best-of-bert", "a suite, not a recipe; train all of it with plait experiment best-of-bert"),
        (tmp_path, "a folder, not a recipe; give a YAML file"),
    ):
        with pytest.raises(RecipeError, match=expected):
            read_recipe(source, VARIANTS)


def test_options_get_the_defaults_of_their_variant(folder):
    recipe = read(folder, PLAIN + "    head: cosine\n    loss: [mse, {name: binary_cross_entropy, weight: 2}]\n")
    near = recipe.tasks["near"]
    assert near.head.options == {"scale": None}
    assert [(loss.name, loss.weight, loss.options) for loss in near.loss] == [
        ("mse", 1.0, {}),
        ("binary_cross_entropy", 2.0, {"threshold": None}),
    ]
    assert recipe.schedule.options == {"combine": "sum", "epoch": "longest"}
    assert recipe.lr_schedule.options == {"warmup": 0.1}
    assert recipe.optimizer.options == {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}


def test_classes_are_strings_even_if_yaml_reads_numbers_or_booleans(folder):
    def classes(text: str) -> dict[str, str]:
        return (
            read(folder, PLAIN.replace("label: mood", f"label: {{column: mood, classes: {text}}}"))
            .tasks["mood"]
            .label.classes
        )

    assert classes("[0, 1]") == {"0": "0", "1": "1"}
    assert classes("{0: awful, 1: 10}") == {"0": "awful", "1": "10"}
    assert classes("{true: good, false: bad}") == {"true": "good", "false": "bad"}


def test_a_mapping_with_the_same_keys_gives_the_same_recipe(folder, monkeypatch):
    monkeypatch.chdir(folder)
    values = {
        "encoder": "tiny",
        "tasks": {
            "mood": {"train": "mood.csv", "text": "sentence", "label": "mood"},
            "near": {"train": "near.csv", "text": ["one", "two"], "label": "near"},
        },
    }
    assert recipe_from(Tree(values), VARIANTS).model_dump() == read(folder, PLAIN).model_dump()
    with pytest.raises(RecipeError) as caught:
        recipe_from(Tree({**values, "poolin": "mean"}), VARIANTS)
    assert caught.value.mistakes == ("recipe: unknown key 'poolin'; did you mean 'pooling'?",)


def test_a_recipe_is_frozen(folder):
    recipe = read(folder, PLAIN + "    head: cosine\n")
    near = recipe.tasks["near"]
    for part, key in (
        (recipe, "lr"),
        (near, "weight"),
        (near.label, "column"),
        (near.head, "name"),
        (recipe.schedule, "name"),
    ):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(part, key, getattr(part, key))


def test_where_gives_the_line_of_a_key_or_of_its_closest_ancestor(folder):
    recipe = read(folder, PLAIN, overrides=["lr=1"])
    assert recipe.where("tasks", "near", "text") == f"{folder}/recipe.yaml:9: tasks.near.text: "
    assert recipe.where("tasks", "near", "head") == f"{folder}/recipe.yaml:7: tasks.near.head: "
    assert recipe.where("lr") == "`overrides` lr=1: lr: "
    assert recipe.where("clip") == "clip: "


# ---------------------------------------------------------------- round trips

RICH = PLAIN.replace(
    "label: mood", "label: {column: mood, classes: {low: grey, high: blue}}\n    class_weights: {low: 1, high: 2.5}"
) + (
    "    head: {name: cosine, scale: 5}\n"
    "    loss: [mse, {name: binary_cross_entropy, weight: 0.1, threshold: 4}]\n"
    "    rows: 2\n"
    "    max_length: 12\n"
    "schedule: {name: sampled, by: temperature, weights: {mood: 2}, t: 3}\n"
    "steps: 5\n"
    "lr: 2e-5\n"
    "clip: null\n"
    "evaluate_every: 3\n"
    "lr_schedule: {name: cosine, warmup: 0.25}\n"
)


@pytest.mark.parametrize("text", [PLAIN, RICH], ids=["plain", "rich"])
def test_a_recipe_written_and_read_again_is_equal(folder, text):
    recipe = read(folder, text)
    write_recipe(recipe, folder / "again.yaml")
    again = read_recipe(folder / "again.yaml", VARIANTS)
    assert again.model_dump() == recipe.model_dump()
    assert again == recipe


@pytest.mark.parametrize(
    "text", [PLAIN, RICH.replace("[mse, {name: binary_cross_entropy, weight: 0.1, threshold: 4}]", "mse")]
)
def test_a_resolved_recipe_written_and_read_again_resolves_to_the_same(folder, text):
    resolved = resolve_tasks(read(folder, text), limit=40, width=16)
    write_recipe(resolved.recipe, folder / "again.yaml")
    again = read_recipe(folder / "again.yaml", VARIANTS)
    assert again.model_dump() == resolved.recipe.model_dump()
    assert resolve_tasks(again, limit=40, width=16).specs == resolved.specs
    assert again == resolved.recipe


PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lr=st.floats(min_value=1e-300, max_value=1e300),
    names=st.lists(PRINTABLE, min_size=2, max_size=4),
    words=st.lists(
        st.sampled_from(["no", "null", "~", "0x1F", "1e3", "2024-01-01", "- a", "#", "'", "a: b", "é", ""]), unique=True
    ),
)
def test_any_number_and_any_class_survive_the_round_trip(folder, lr, names, words):
    recipe = read(folder, PLAIN)
    task = recipe.tasks["mood"]
    classes = dict(zip([*words, *map(str, range(len(names)))], [*words, *names], strict=True))
    label = task.label.model_copy(update={"classes": classes})
    changed = recipe.model_copy(update={"lr": lr, "tasks": {"mood": task.model_copy(update={"label": label})}})
    write_recipe(changed, folder / "again.yaml")
    assert read_recipe(folder / "again.yaml", VARIANTS).model_dump() == changed.model_dump()


@pytest.mark.parametrize("name", bundled_recipes())
def test_every_bundled_recipe_can_be_read_by_name(name, request):
    of_research = name == "cs224n" or name.startswith("best/")
    data = request.getfixturevalue("real_data") / "cs224n" if of_research else None
    recipe = read_recipe(name, VARIANTS, data=data)
    assert all(
        file.is_file() for name in recipe.tasks for split in ("train", "dev") for file in files(recipe, name, split)
    )
    assert all(files(recipe, name, "dev") for name in recipe.tasks)


def test_mistakes_of_overrides_come_with_those_of_the_recipe(folder):
    with pytest.raises(RecipeError) as caught:
        read(folder, PLAIN, overrides=["tasks.nowhere.weight=2", "lrr=1", "epochs=none at all"])
    task, *others = caught.value.mistakes
    assert task.startswith("`overrides` tasks.nowhere.weight=2: no task 'nowhere'; ")
    assert any("unknown key 'lrr'; did you mean 'lr'?" in mistake for mistake in others)
    assert any("epochs" in mistake for mistake in others)
