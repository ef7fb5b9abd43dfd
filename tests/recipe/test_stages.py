"""Stages of a recipe: what each inherits from the top level, mistakes with their lines, round trips."""

import pytest

from plait.recipe.read import read_recipe, recipe_from, write_recipe
from plait.recipe.schema import Recipe, RunSettings, Stage
from plait.recipe.tree import Tree
from plait.resolve.variants import VARIANTS
from recipe_files import mistakes, read

ELSEWHERE = "check the name, or give its folder with `data`"

TWO = """\
encoder: tiny
lr: 1e-4
epochs: 3
tasks:
  mood: {train: mood.csv, text: sentence, label: mood, loss: cross_entropy}
  near: {train: near.csv, text: [one, two], label: near}
stages:
  - tasks:
      pairs: {train: near.csv, text: [one, two], loss: simcse_unsupervised, label: near}
    steps: 20
    lr: 1e-5
  - schedule: sampled
"""  # 12 lines: whatever a test adds to the second stage starts on line 13


# ---------------------------------------------------------------- what a stage contains


def test_a_stage_inherits_from_the_top_level(folder):
    first, second = read(folder, TWO).stage_recipes()
    assert (list(first.tasks), first.lr, first.steps, first.epochs) == (["pairs"], 1e-5, 20, None)
    assert (list(second.tasks), second.lr, second.steps, second.epochs) == (["mood", "near"], 1e-4, None, 3)
    assert (first.schedule.name, second.schedule.name) == ("together", "sampled")
    assert first.encoder == second.encoder == "tiny"
    assert first.stages == second.stages == ()


def test_a_recipe_without_stages_is_its_only_stage(folder):
    recipe = read(folder, TWO.partition("stages:")[0])
    assert recipe.stages == () and recipe.stage_recipes() == (recipe,)


def test_a_single_stage_gives_a_recipe_without_stages(folder):
    plain = TWO.partition("stages:")[0]
    only = read(folder, plain + "stages:\n  - lr: 7\n")
    assert only == read(folder, plain, overrides=["lr=7"]) and only.stages == ()
    assert only.where("lr") == f"{folder}/recipe.yaml:8: stages.0.lr: "


def test_the_top_level_keys_of_a_recipe_with_stages_are_those_of_the_last(folder):
    recipe = read(folder, TWO)
    assert list(recipe.tasks) == ["mood", "near"] and recipe.schedule.name == "sampled"


def test_a_stage_may_list_tasks_of_the_top_level(folder):
    text = TWO.replace("schedule: sampled", "tasks: [near]").replace("pairs:", "mood: {}\n      pairs:")
    assert [list(stage.tasks) for stage in read(folder, text).stages] == [["mood", "pairs"], ["near"]]


def test_a_task_of_a_stage_overrides_keys_of_the_top_level_task(folder):
    text = TWO + "    tasks: {mood: {weight: 2, label: {column: mood, classes: [low, high]}}, near: {}}\n"
    _, stage = read(folder, text).stages
    assert stage.tasks["mood"].weight == 2 and stage.tasks["mood"].text == ("sentence",)
    assert stage.tasks["mood"].label.classes == {"low": "low", "high": "high"}
    assert stage.tasks["near"] == read(folder, TWO).stages[1].tasks["near"]


def test_the_top_level_needs_no_tasks_if_every_stage_has_its_own(folder):
    own = "  - {tasks: {mood: {train: mood.csv, text: sentence, label: mood}}}\n"
    assert len(read(folder, "encoder: tiny\nstages:\n" + 2 * own).stages) == 2


def test_steps_of_a_stage_replace_inherited_epochs_and_vice_versa(folder):
    recipe = read(folder, TWO.replace("epochs: 3", "steps: 9").replace("steps: 20", "epochs: 2"))
    assert [(stage.epochs, stage.steps) for stage in recipe.stages] == [(2, None), (None, 9)]


def test_no_key_belongs_both_to_a_stage_and_to_the_run():
    assert not Stage.model_fields.keys() & RunSettings.model_fields.keys()
    assert {*Stage.model_fields, *RunSettings.model_fields, "stages"} == set(Recipe.model_fields)


# ---------------------------------------------------------------- overrides


def test_set_changes_a_key_of_a_stage(folder):
    changes = ["stages.0.lr=3e-5", "stages.1.schedule.by=equal", "stages.0.tasks.pairs.weight=4"]
    first, second = read(folder, TWO, overrides=changes).stages
    assert first.lr == 3e-5 and first.tasks["pairs"].weight == 4
    assert second.schedule.options["by"] == "equal" and second.lr == 1e-4


def test_set_removes_the_stages(folder):
    recipe = read(folder, TWO, overrides=["stages=null"])
    assert recipe.stages == () and list(recipe.tasks) == ["mood", "near"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("stages.2.lr=1", "`overrides` stages.2.lr=1: no stage '2'; there are 2, counted from 0"),
        ("stages.first.lr=1", "`overrides` stages.first.lr=1: no stage 'first'; there are 2, counted from 0"),
        (
            "stages.1.tasks.mood.weight=2",
            "`overrides` stages.1.tasks.mood.weight=2: stages.1 has no task 'mood' of its own; "
            "set tasks.mood at the top level",
        ),
        ("stages.0.lr=fast", "`overrides` stages.0.lr=fast: stages.0.lr: expected a number, found 'fast'"),
        ("stages.0.lr.x=1", "`overrides` stages.0.lr.x=1: 'lr' is 1e-05 and has no keys"),
    ],
)
def test_an_invalid_set_of_a_stage_is_refused(folder, change, message):
    assert mistakes(folder, TWO, overrides=[change]) == [message]


def test_a_key_of_a_stage_wins_over_a_profile(folder):
    text = TWO + "profiles: {quick: {lr: 1e-3, epochs: 1, rows: 10}}\n"
    first, second = read(folder, text, profile="quick").stages
    assert (first.lr, first.steps, first.rows) == (1e-5, 20, 10)
    assert (second.lr, second.epochs, second.rows) == (1e-3, 1, 10)


def test_stages_replace_those_of_the_extended_recipe(folder):
    (folder / "base.yaml").write_text(TWO)
    recipe = read(folder, "extends: base.yaml\nstages: [{tasks: [mood]}, {lr: 1}, {}]\n")
    assert [(len(stage.tasks), stage.lr) for stage in recipe.stages] == [(1, 1e-4), (2, 1.0), (2, 1e-4)]


# ---------------------------------------------------------------- mistakes


def test_mistakes_of_all_stages_are_reported_once_with_line_and_path(folder):
    text = """\
encoder: tiny
pooling: meen
best_by: mood
tasks:
  mood: {train: mood.csv, text: sentence, label: mood, loss: cross_entrop}
  near: {train: near.csv, text: [one, two], label: near}
stages:
  - tasks: {pairs: {train: gone.csv, text: [one, two], label: near}}
    seed: 3
    lrr: 1e-5
  - tasks:
      mood: {weight: 0, head: {name: linear, wide: 3}}
      near: {lable: near}
    lr: fast
  - tasks: [mood, neer]
    schedule: {name: round_robin, order: [near]}
    clip: -1
"""
    assert mistakes(folder, text) == [
        "recipe.yaml:9: stages.0.seed: applies to the whole run; move it to the top level",
        "recipe.yaml:15: stages.2.tasks.1: unknown name 'neer'; did you mean 'near'?",
        "recipe.yaml:10: stages.0: unknown key 'lrr'; did you mean 'lr'?",
        "recipe.yaml:2: pooling: unknown name 'meen'; did you mean 'mean'?",
        f"recipe.yaml:8: stages.0.tasks.pairs.train: no file 'gone.csv' in {folder}; {ELSEWHERE}",
        "recipe.yaml:3: best_by: unknown name 'mood'; allowed: mean, pairs (in stages.0)",
        "recipe.yaml:12: stages.1.tasks.mood.weight: expected a number greater than 0, found 0",
        "recipe.yaml:13: stages.1.tasks.near: unknown key 'lable'; did you mean 'label'?",
        "recipe.yaml:14: stages.1.lr: expected a number, found 'fast'",
        "recipe.yaml:12: stages.1.tasks.mood.head.linear: unknown key 'wide'; allowed: none",
        "recipe.yaml:5: tasks.mood.loss: unknown name 'cross_entrop'; did you mean 'cross_entropy'? "
        "(in stages.1, stages.2)",
        "recipe.yaml:17: stages.2.clip: expected a number greater than 0, found -1",
        "recipe.yaml:16: stages.2.schedule.order: unknown name 'near'; allowed: mood",
        "recipe.yaml:16: stages.2.schedule.order: the task 'mood' is missing",
    ]


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ("stages: []", "recipe.yaml:7: stages: expected a list of stages, each with its keys, found an empty list"),
        ("stages: two", "recipe.yaml:7: stages: expected a list of stages, each with its keys, found 'two'"),
        (
            "stages: {first: {lr: 1}}",
            "recipe.yaml:7: stages: expected a list of stages, each with its keys, found keys and values",
        ),
        ("stages: [{lr: 1}, 3]", "recipe.yaml:7: stages.1: expected keys and values, found 3"),
        ("stages: [{tasks: [mood]}]", "recipe.yaml:6: tasks.near: no stage trains this task"),
        ("stages: [{tasks: []}, {}]", "recipe.yaml:7: stages.0.tasks: expected at least one, found no keys"),
        (
            "stages: [{stages: []}, {}]",
            "recipe.yaml:7: stages.0.stages: applies to the whole run; move it to the top level",
        ),
        ("stages: [{extends: x}, {}]", "recipe.yaml:7: stages.0: unknown key 'extends'; allowed: "),
        ("stages: [{steps: 3, epochs: 3}]", "recipe.yaml:7: give epochs or steps, not both; null removes one"),
        ("stages: [{poolingg: max}, {}]", "recipe.yaml:7: stages.0: unknown key 'poolingg'; allowed: "),
    ],
)
def test_invalid_stages_are_refused(folder, stages, message):
    (found,) = mistakes(folder, TWO.partition("stages:")[0] + stages + "\n")
    assert found.startswith(message)


def test_a_stage_without_tasks_needs_tasks_at_the_top_level(folder):
    assert mistakes(folder, "encoder: tiny\nstages:\n  - lr: 1\n  - {tasks: [mood]}\n") == [
        "recipe.yaml:4: stages.1.tasks.0: unknown name 'mood'; the recipe has no tasks at the top level",
        "recipe.yaml:3: stages.0: missing key 'tasks'",
        "recipe.yaml:4: stages.1.tasks: expected at least one, found no keys",
    ]


def test_a_missing_run_key_is_reported_once_at_the_top_level(folder):
    assert mistakes(folder, TWO.removeprefix("encoder: tiny\n")) == ["recipe.yaml: missing key 'encoder'"]


def test_messages_about_a_stage_give_its_line(folder):
    first, second = read(folder, TWO + "    best_by: mood\n").stage_recipes()
    assert first.where("tasks", "pairs", "loss") == f"{folder}/recipe.yaml:9: stages.0.tasks.pairs.loss: "
    assert first.where("best_by") == f"{folder}/recipe.yaml:8: stages.0.best_by: "
    assert second.where("best_by") == f"{folder}/recipe.yaml:13: stages.1.best_by: "
    assert second.where("tasks", "mood", "loss") == f"{folder}/recipe.yaml:5: tasks.mood.loss: "
    assert second.where("encoder") == f"{folder}/recipe.yaml:1: encoder: "


def test_messages_about_a_mapping_give_the_path_only(folder):
    task = {"train": str(folder / "mood.csv"), "text": "sentence", "label": "mood"}
    keys = {"encoder": "tiny", "tasks": {"mood": task}, "stages": [{"lr": 1.0}, {"tasks": {"mood": {"weight": 2}}}]}
    _, second = recipe_from(Tree(keys), VARIANTS).stage_recipes()
    assert second.where("tasks", "mood", "weight") == "stages.1.tasks.mood.weight: "
    assert second.where("tasks", "mood", "label") == "tasks.mood.label: "


# ---------------------------------------------------------------- the complete recipe


def test_a_saved_recipe_has_each_key_once_and_reads_back_equal(folder):
    recipe = read(folder, TWO)
    kept = recipe.model_dump(mode="json")
    assert set(kept) == {*RunSettings.model_fields, "stages"}
    assert [set(stage) for stage in kept["stages"]] == 2 * [set(Stage.model_fields)]
    write_recipe(recipe, folder / "saved.yaml")
    again = read_recipe(folder / "saved.yaml", VARIANTS)
    assert again == recipe and again.model_dump() == recipe.model_dump()
    assert again != read(folder, TWO, overrides=["stages.0.lr=1"])


def test_a_saved_recipe_without_stages_has_no_stages_key(folder):
    assert "stages" not in read(folder, TWO.partition("stages:")[0]).model_dump(mode="json")


def test_a_recipe_can_be_split_into_stages_and_joined_again(folder):
    recipe = read(folder, TWO)
    assert Recipe.of_stages(recipe.stage_recipes()) == recipe
    changed = Recipe.of_stages([recipe.stage_recipes()[0], recipe.stage_recipes()[1].model_copy(update={"lr": 7.0})])
    assert [stage.lr for stage in changed.stages] == [1e-5, 7.0]


def test_a_task_listed_twice_in_a_stage_is_refused(folder):
    found = mistakes(folder, TWO + "    tasks: [mood, near, mood]\n")
    assert found == ["recipe.yaml:13: stages.1.tasks.2: the task 'mood' is listed twice"]
