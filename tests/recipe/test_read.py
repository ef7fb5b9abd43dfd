"""Reading recipes: every mistake at once with its line, --set, extends, profiles, round trips."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from plait.data.batch import READS
from plait.errors import RecipeError
from plait.heads import HEADS
from plait.recipe.read import BUNDLED, read_recipe, recipe_from, write_recipe
from plait.recipe.schema import Recipe
from plait.recipe.tree import Tree
from plait.training.settle import settle
from plait.training.tables import TABLES

MOOD = "sentence,mood\na fine day,high\na dull day,low\n"
NEAR = "one,two,near\na dog,a hound,4.5\na dog,a tax,0.5\n"
PLAIN = """\
encoder: tiny
tasks:
  mood:
    train: mood.csv
    text: sentence
    label: mood
  near:
    train: near.csv
    text: [one, two]
    label: near
"""  # 10 lines: what is added stands from line 11


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mood.csv").write_text(MOOD)
    (tmp_path / "near.csv").write_text(NEAR)
    return tmp_path


def read(folder: Path, text: str, **options) -> Recipe:
    path = folder / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return read_recipe(path, TABLES, **options)


def files(recipe: Recipe, task: str, split: str) -> list[Path]:
    return [Path(source.file) for source in recipe.tasks[task].sources(split)]


def mistakes(folder: Path, text: str, **options) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        read(folder, text, **options)
    return [mistake.replace(f"{folder}/", "") for mistake in caught.value.mistakes]


# ---------------------------------------------------------------- every mistake at once

BROKEN = """\
epochz: 3
pooling: meen
shared_layer: tanh
lr: fast
best_by: moood
schedule: {name: round_robbin, order: [mood, neer]}
tasks:
  mood:
    train: [mood.csv, gone.csv]
    text: sentence
    label: mood
    lable: mood
    head: linnear
  near:
    train: near.csv
    text: [one, two]
    label: near
    head:
      name: cosine
      scal: 5
    loss:
      - mse
      - name: binary_cross_entropy
        threshold: high
    metric: pearsn
    take: 2
  same:
    train: near.csv
    text: [one, two]
    label: near
    head: linear
"""


def test_a_recipe_with_many_mistakes_names_each_of_them_with_its_line(folder):
    pairs = ", ".join(name for name, head in HEADS.items() if READS[head.reads] == 2)
    assert sorted(mistakes(folder, BROKEN)) == sorted(
        [
            "recipe.yaml: missing key 'encoder'",
            "recipe.yaml:1: unknown key 'epochz'; did you mean 'epochs'?",
            "recipe.yaml:2: pooling: unknown name 'meen'; did you mean 'mean'?",
            "recipe.yaml:4: lr: expected number, found 'fast'",
            "recipe.yaml:5: best_by: unknown name 'moood'; did you mean 'mood'?",
            "recipe.yaml:6: schedule: unknown name 'round_robbin'; did you mean 'round_robin'?",
            "recipe.yaml:6: schedule.order: unknown name 'neer'; did you mean 'near'?",
            "recipe.yaml:6: schedule.order: leaves out the task 'near'",
            "recipe.yaml:6: schedule.order: leaves out the task 'same'",
            f"recipe.yaml:9: tasks.mood.train: no file 'gone.csv' in {folder}",
            "recipe.yaml:12: tasks.mood: unknown key 'lable'; did you mean 'label'?",
            "recipe.yaml:13: tasks.mood.head: unknown name 'linnear'; did you mean 'linear'?",
            "recipe.yaml:18: tasks.near.head: cosine compares embeddings and cannot stand behind a shared_layer; "
            "drop one",
            "recipe.yaml:20: tasks.near.head.cosine: unknown key 'scal'; did you mean 'scale'?",
            "recipe.yaml:24: tasks.near.loss.1.binary_cross_entropy.threshold: expected number, found 'high'",
            "recipe.yaml:25: tasks.near.metric: unknown name 'pearsn'; did you mean 'pearson'?",
            "recipe.yaml:26: tasks.near.take: expected less than or equal to 1, found 2",
            f"recipe.yaml:31: tasks.same.head: linear reads one text, the task has 2; fitting: {pairs}",
        ]
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("    train: mood.csv\n", ""), "recipe.yaml:3: tasks.mood: missing key 'train'"),
        (("    text: sentence\n", ""), "recipe.yaml:3: tasks.mood: missing key 'text'"),
        (("    label: mood\n", ""), "recipe.yaml:3: tasks.mood: missing key 'label'"),
        (
            ("train: mood.csv", "train: 3"),
            "recipe.yaml:4: tasks.mood.train: expected a name, or keys and values, found 3",
        ),
        (("text: sentence", "text: 3"), "recipe.yaml:5: tasks.mood.text: expected string, found 3"),
        (
            ("label: mood", "label: {column: mood, clases: [low, high]}"),
            "recipe.yaml:6: tasks.mood.label: unknown key 'clases'; did you mean 'classes'?",
        ),
        (
            ("label: mood", "label: {column: mood, range: [5, 0]}"),
            "recipe.yaml:6: tasks.mood.label: the range must rise, found [5.0, 0.0]",
        ),
    ],
)
def test_a_mistake_in_what_a_task_needs_hides_no_other_mistake(folder, change, message):
    text = PLAIN.replace(*change) + "pooling: meen\n"
    line = text.splitlines().index("pooling: meen") + 1
    far = f"recipe.yaml:{line}: pooling: unknown name 'meen'; did you mean 'mean'?"
    assert {message, far} <= set(mistakes(folder, text))


def test_a_missing_text_brings_no_mistake_of_the_head_with_it(folder):
    text = PLAIN.replace("    text: [one, two]\n", "    head: cosine\n")
    assert mistakes(folder, text) == ["recipe.yaml:7: tasks.near: missing key 'text'"]


def test_epochs_and_steps_together_hide_no_other_mistake(folder):
    found = mistakes(folder, PLAIN + "epochs: 3\nsteps: 4\npooling: meen\nlr: fast\n")
    assert [mistake.partition(": ")[2] for mistake in found if "not both" in mistake] == [
        "give epochs or steps, not both; null takes one away"
    ]
    assert "recipe.yaml:13: pooling: unknown name 'meen'; did you mean 'mean'?" in found
    assert "recipe.yaml:14: lr: expected number, found 'fast'" in found


@pytest.mark.parametrize("task", ["other: hello", "other:", "9: hello", "9: {train: near.csv}"])
def test_a_task_that_cannot_be_read_is_named_with_its_line_and_hides_no_other_mistake(folder, task):
    found = mistakes(folder, PLAIN + f"  {task}\npooling: meen\n")
    assert any(mistake.startswith(f"recipe.yaml:11: tasks.{task.partition(':')[0]}: ") for mistake in found), found
    assert "recipe.yaml:12: pooling: unknown name 'meen'; did you mean 'mean'?" in found


def test_a_number_may_name_a_task(folder):
    recipe = read(folder, PLAIN + "  9: {train: mood.csv, text: sentence, label: mood}\nbest_by: '9'\n")
    assert recipe.tasks["9"].text == ("sentence",)


@pytest.mark.parametrize("name", ["a.b", "''"])
def test_a_task_name_that_cannot_name_a_head_is_refused(folder, name):
    text = PLAIN + f"  {name}: {{train: mood.csv, text: sentence, label: mood}}\n"
    assert mistakes(folder, text)[0].startswith("recipe.yaml:11: tasks")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("lr: 0", "lr: expected greater than 0, found 0"),
        ("lr: true", "lr: expected number, found True"),
        ("lr: '1'", "lr: expected number, found '1'"),
        ("epochs: 3.0", "epochs: expected integer, found 3.0"),
        ("dropout: 1", "dropout: expected less than 1, found 1"),
        ("device: gpu", "device: expected 'auto', 'cpu', 'cuda' or 'mps', found 'gpu'"),
        ("evaluate_every: 0", "evaluate_every: expected 'epoch' or a number of steps above 0"),
        ("schedule: {combine: sum}", "schedule: missing key 'name'"),
        (
            "schedule: {name: together, order: [mood]}",
            "schedule.together: unknown key 'order'; allowed: combine, epoch",
        ),
        ("schedule: {name: together, combine: sun}", "schedule.combine: unknown name 'sun'; did you mean 'sum'?"),
        (
            "schedule: {name: together, combine: surgry}",
            "schedule.combine: unknown name 'surgry'; did you mean 'surgery'?",
        ),
        (
            "schedule: {name: sampled, combine: surgery}",
            "schedule.combine: sampled trains one task a step, so there is nothing to combine; take it away, or take "
            "together",
        ),
        ("watch_conflict: 0", "watch_conflict: expected greater than 0, found 0"),
        ("schedule: {name: together, epoch: moot}", "schedule.epoch: unknown name 'moot'; did you mean 'mood'?"),
        (
            "schedule: {name: sampled, weights: {moot: 2}}",
            "schedule.weights: unknown name 'moot'; did you mean 'mood'?",
        ),
        (
            "schedule: {name: sampled, by: sise}",
            "schedule.sampled.by: expected 'size', 'equal' or 'temperature', found 'sise'",
        ),
        ("schedule: {name: alternate, order: [mood]}", "schedule.order: leaves out the task 'near'"),
        ("lr_schedule: lineal", "lr_schedule: unknown name 'lineal'; did you mean 'linear'?"),
        ("lr_schedule: {name: linear, warmup: long}", "lr_schedule.linear.warmup: expected number, found 'long'"),
        ("optimizer: adam", "optimizer: unknown name 'adam'; did you mean 'adamw'?"),
        ("shared_layer: relu", "shared_layer: unknown name 'relu'; allowed: tanh"),
    ],
)
def test_one_mistake_gives_one_message(folder, line, message):
    assert mistakes(folder, PLAIN + line + "\n") == [f"recipe.yaml:11: {message}"]


def test_sequential_refuses_steps(folder):
    text = PLAIN + "steps: 4\nschedule: sequential\n"
    assert mistakes(folder, text) == ["recipe.yaml:11: steps: sequential trains each task for its epochs; give epochs"]


@pytest.mark.parametrize("option", ["order: 3", "weights: 3", "epoch: 7", "combine: 3"])
def test_an_unknown_schedule_with_options_of_a_wrong_type_is_still_only_a_mistake(folder, option):
    found = mistakes(folder, PLAIN + f"schedule: {{name: sampld, {option}}}\n")
    assert "recipe.yaml:11: schedule: unknown name 'sampld'; did you mean 'sampled'?" in found


def test_the_keys_of_a_loss_that_stands_alone_have_their_own_line_and_no_number(folder):
    text = PLAIN + "    loss:\n      name: mse\n      weight: 0\n"
    assert mistakes(folder, text) == ["recipe.yaml:13: tasks.near.loss.weight: expected greater than 0, found 0"]


def test_an_empty_list_of_losses_is_refused(folder):
    (found,) = mistakes(folder, PLAIN + "    loss: []\n")
    assert found.startswith("recipe.yaml:11: tasks.near.loss: ")


def test_the_options_of_a_variant_stand_beside_its_name_and_nowhere_else(folder):
    text = PLAIN + "    head: {name: cosine, options: {scale: 3}}\n"
    assert mistakes(folder, text) == ["recipe.yaml:11: tasks.near.head.cosine: unknown key 'options'; allowed: scale"]


@pytest.mark.parametrize(
    "line",
    [
        "lr: .inf",
        "clip: .nan",
        "    weight: .inf",
        "    head: {name: cosine, scale: .nan}",
        "    class_weights: {0: .inf}",
    ],
)
def test_a_number_that_is_not_finite_is_refused(folder, line):
    assert mistakes(folder, PLAIN + line + "\n")[0].startswith("recipe.yaml:11: ")


@pytest.mark.parametrize(
    "line",
    [
        "    head: {name: difference_product, hidden: 0}",
        "    head: {name: difference_product, hidden: -3}",
        "    class_weights: {0: -1, 1: 1}",
        "shared_layer: {name: tanh, dropout: 4}",
        "lr_schedule: {name: linear, warmup: 3}",
        "schedule: {name: sampled, by: temperature, t: 0}",
        "schedule: {name: sampled, by: equal, weights: {mood: -1}}",
    ],
)
def test_an_option_that_no_run_could_use_is_refused(folder, line):
    assert mistakes(folder, PLAIN + line)[0].startswith("recipe.yaml:11: ")


INNER_WORDS = re.compile(
    r"instance of|should (have|be)|dictionary|Commented|NoneType|\btuple\b|\[key\]|literal\[|dict\[|missing key '\d'"
)


@pytest.mark.parametrize(
    "line",
    [
        "schedule: [together]",
        "schedule: 3",
        "    head: [cosine]",
        "    loss: [mse, 3]",
        "    train: null",
        "    class_weights: {0: a}",
        "    label: 3",
        "    label: {column: near, range: [0]}",
        "    label: {column: near, range: [0, 1, 2]}",
        "    label: {column: near, range: 5}",
        "  other: hello",
    ],
)
def test_messages_use_the_words_of_recipes_and_none_of_the_libraries_behind(folder, line):
    text = PLAIN.replace("    label: near\n", "") if "label:" in line and line[2] == " " else PLAIN
    found = mistakes(folder, text + line + "\n")
    assert found and not any(INNER_WORDS.search(mistake) for mistake in found), found


# ---------------------------------------------------------------- files that are no recipes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr: 1\nlr: 2\n", 'recipe.yaml:2: found duplicate key "lr" with value "2" (original value: "1")'),
        (
            "tasks:\n  mood: {text: a, text: b}\n",
            'recipe.yaml:2: found duplicate key "text" with value "b" (original value: "a")',
        ),
        ("encoder: [tiny\nlr: 2\n", "recipe.yaml:2: expected ',' or ']', but got ':'"),
        ("encoder: tiny\n", "recipe.yaml: missing key 'tasks'"),
    ],
)
def test_a_file_that_is_not_a_recipe_says_what_is_wrong_with_it(folder, text, message):
    assert mistakes(folder, text) == [message]


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "- encoder\n- tasks\n", "tiny\n"])
def test_a_file_without_keys_says_so_in_plain_words(folder, text):
    (found,) = mistakes(folder, text)
    assert found.startswith("recipe.yaml:1: expected keys and their values, found ")
    assert not INNER_WORDS.search(found)


@pytest.mark.parametrize("tasks", ["{}", "[mood]", "mood", "3"])
def test_a_recipe_without_a_single_task_says_so_in_plain_words(folder, tasks):
    (found,) = mistakes(folder, f"encoder: tiny\ntasks: {tasks}\n")
    assert found.startswith("recipe.yaml:2: tasks: ")
    assert not INNER_WORDS.search(found)


def test_a_file_that_is_not_utf_8_is_refused_with_the_byte(folder):
    (folder / "recipe.yaml").write_bytes(b"encoder: \xff\n")
    with pytest.raises(RecipeError, match=r"recipe\.yaml: is not UTF-8 text \(byte 9\)"):
        read_recipe(folder / "recipe.yaml", TABLES)


def test_a_byte_order_mark_is_no_part_of_the_first_key(folder):
    assert read(folder, "\ufeff" + PLAIN).encoder == "tiny"


@pytest.mark.parametrize("name", ["startr", "nowhere/recipe.yaml"])
def test_an_unknown_recipe_is_answered_with_the_bundled_names_in_order(name):
    with pytest.raises(RecipeError) as caught:
        read_recipe(name, TABLES)
    names = ", ".join(sorted(file.stem for file in BUNDLED.glob("*.yaml")))
    assert str(caught.value) == f"{name}: no such recipe; give a YAML file, or a bundled name: {names}"


# ---------------------------------------------------------------- --set


def test_set_reaches_keys_at_every_depth(folder):
    recipe = read(
        folder,
        PLAIN + "    head: {name: cosine, scale: 5}\n",
        assignments=[
            "lr=2e-5",
            "epochs = 7",
            "tasks.near.weight=2",
            "tasks.near.head.scale=3",
            "tasks.near.label.range=[0, 5]",
            "tasks.mood.label={column: mood, classes: [low, high]}",
        ],
    )
    near = recipe.tasks["near"]
    assert (recipe.lr, recipe.epochs, near.weight) == (2e-5, 7, 2.0)
    assert near.head.options == {"scale": 3.0}
    assert (near.label.column, near.label.range) == (("near",), (0.0, 5.0))
    assert recipe.tasks["mood"].label.classes == {"low": "low", "high": "high"}


def test_set_gives_options_to_a_bare_name(folder):
    recipe = read(folder, PLAIN, assignments=["tasks.near.head=cosine", "tasks.near.head.scale=3", "schedule=sampled"])
    assert recipe.tasks["near"].head.options == {"scale": 3.0}
    assert recipe.schedule.name == "sampled"
    weighted = read(folder, PLAIN + "    loss: mse\n", assignments=["tasks.near.loss.weight=2"])
    assert [(loss.name, loss.weight) for loss in weighted.tasks["near"].loss] == [("mse", 2.0)]


def test_set_reaches_one_of_several_losses(folder):
    text = PLAIN + "    loss: [mse, {name: multiple_negatives, positive_above: 4}]\n"
    recipe = read(folder, text, assignments=["tasks.near.loss.0.weight=2", "tasks.near.loss.1.weight=0.5"])
    assert [(loss.name, loss.weight) for loss in recipe.tasks["near"].loss] == [
        ("mse", 2.0),
        ("multiple_negatives", 0.5),
    ]


def test_the_last_set_of_a_key_wins_and_leaves_no_option_of_the_old_choice(folder):
    recipe = read(
        folder, PLAIN + "schedule: {name: together, combine: mean}\n", assignments=["lr=1", "schedule=together", "lr=2"]
    )
    assert (recipe.lr, recipe.schedule.options["combine"]) == (2.0, "sum")


def test_set_adds_a_task(folder, monkeypatch):
    monkeypatch.chdir(folder)
    added = ["tasks.again={train: mood.csv, text: sentence}", "tasks.again.label=mood"]
    assert files(read(folder, PLAIN, assignments=added), "again", "train") == [folder / "mood.csv"]


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("lr", "expected key=value, such as lr=1e-4 or tasks.sentiment.head=linear"),
        ("=3", "expected key=value, such as lr=1e-4 or tasks.sentiment.head=linear"),
        ("tasks.near.text.x=3", "no item 'x'; there are 2, counted from 0"),
        ("tasks.near.text.2=x", "no item '2'; there are 2, counted from 0"),
        ("lr=", "lr: expected number, found None"),
        ("lr=fast", "lr: expected number, found 'fast'"),
        ("lrr=1", "unknown key 'lrr'; did you mean 'lr'?"),
        ("pooling=meen", "pooling: unknown name 'meen'; did you mean 'mean'?"),
        ("tasks.near.hed=cosine", "tasks.near: unknown key 'hed'; did you mean 'head'?"),
        ("tasks.near.head=cosin", "tasks.near.head: unknown name 'cosin'; did you mean 'cosine'?"),
        (
            "tasks.near.head={name: cosine, scal: 3}",
            "tasks.near.head.cosine: unknown key 'scal'; did you mean 'scale'?",
        ),
        ("schedule.combine=mean", "schedule: missing key 'name'"),
        ("lr.x=3", "lr: expected number, found dict"),
    ],
)
def test_a_mistake_of_set_is_named_by_it(folder, assignment, message):
    assert mistakes(folder, PLAIN, assignments=[assignment]) == [f"--set {assignment}: {message}"]


def test_a_set_value_that_is_not_yaml_is_named_by_it(folder):
    (found,) = mistakes(folder, PLAIN, assignments=["lr=[1"])
    assert found.startswith("--set lr=[1: the value is not YAML: ")


def test_mistakes_of_the_file_and_of_set_come_together(folder):
    found = mistakes(folder, PLAIN + "pooling: meen\n", assignments=["lr=fast", "best_by=moot"])
    assert sorted(found) == [
        "--set best_by=moot: best_by: unknown name 'moot'; did you mean 'mood'?",
        "--set lr=fast: lr: expected number, found 'fast'",
        "recipe.yaml:11: pooling: unknown name 'meen'; did you mean 'mean'?",
    ]


def test_a_file_named_by_set_stands_where_the_command_is_run(folder, monkeypatch):
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "other.csv").write_text(MOOD)
    monkeypatch.chdir(elsewhere)
    recipe = read(folder, PLAIN, assignments=["tasks.mood.train=other.csv"])
    assert files(recipe, "mood", "train") == [elsewhere / "other.csv"]
    assert mistakes(folder, PLAIN, assignments=["tasks.mood.train=mood.csv"]) == [
        f"--set tasks.mood.train=mood.csv: tasks.mood.train: no file 'mood.csv' in {elsewhere}".replace(
            f"{folder}/", ""
        )
    ]


# ---------------------------------------------------------------- extends and profiles


def test_extends_takes_the_keys_of_a_chain_of_files_and_the_nearest_wins(folder):
    (folder / "first.yaml").write_text(PLAIN + "epochs: 1\nlr: 1\nseed: 1\n")
    (folder / "second.yaml").write_text("extends: first.yaml\nepochs: 2\nlr: 2\n")
    recipe = read(folder, "extends: second.yaml\nepochs: 3\n")
    assert (recipe.epochs, recipe.lr, recipe.seed, recipe.encoder) == (3, 2.0, 1, "tiny")


def test_extends_merges_tasks_by_name_and_by_key(folder):
    (folder / "base.yaml").write_text(PLAIN + "    head: {name: cosine, scale: 5}\n    weight: 2\n")
    text = (
        "extends: base.yaml\ntasks:\n  near: {head: joined}\n  more: {train: mood.csv, text: sentence, label: mood}\n"
    )
    recipe = read(folder, text)
    assert list(recipe.tasks) == ["mood", "near", "more"]
    near = recipe.tasks["near"]
    assert (near.head.name, near.head.options, near.weight, near.text) == ("joined", {}, 2.0, ("one", "two"))


def test_files_are_looked_for_beside_the_recipe_that_names_them(folder):
    for name in ("above", "below"):
        (folder / name).mkdir()
        (folder / name / "mood.csv").write_text(MOOD)
    task = "tasks:\n  mood:\n    train: mood.csv\n    text: sentence\n    label: mood\n"
    (folder / "below" / "base.yaml").write_text("encoder: tiny\n" + task)
    recipe = read(folder / "above", "extends: ../below/base.yaml\ntasks:\n  mood:\n    dev: mood.csv\n")
    assert files(recipe, "mood", "train") == [folder / "below/mood.csv"]
    assert files(recipe, "mood", "dev") == [folder / "above/mood.csv"]


def test_a_mistake_in_an_extended_file_is_named_there(folder):
    (folder / "base.yaml").write_text(PLAIN + "pooling: meen\nlr: fast\n")
    assert mistakes(folder, "extends: base.yaml\nlr: 1\nbest_by: moot\n") == [
        "base.yaml:11: pooling: unknown name 'meen'; did you mean 'mean'?",
        "recipe.yaml:3: best_by: unknown name 'moot'; did you mean 'mood'?",
    ]


def test_an_encoder_is_looked_for_beside_the_recipe_that_names_it(folder, monkeypatch, tmp_path_factory):
    (folder / "mine").mkdir()
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert read(folder, PLAIN.replace("encoder: tiny", "encoder: mine")).encoder == str((folder / "mine").resolve())


def test_merge_keys_of_yaml_are_read(folder):
    task = "tasks:\n  a: &a {train: mood.csv, text: sentence, label: mood}\n  b: {<<: *a, weight: 2}\n"
    assert read(folder, "encoder: tiny\n" + task).tasks["b"].text == ("sentence",)
    assert mistakes(folder, "encoder: tiny\n" + task.replace("weight", "wait")) == [
        "recipe.yaml:4: tasks.b: unknown key 'wait'; did you mean 'weight'?"
    ]


def test_moved_data_is_found_by_its_name_below_data(folder, tmp_path_factory):
    recipe = read(folder, PLAIN)
    write_recipe(recipe, folder / "saved.yaml")
    moved = tmp_path_factory.mktemp("moved")
    for name in ("mood.csv", "near.csv"):
        (folder / name).rename(moved / name)
    found = read_recipe(folder / "saved.yaml", TABLES, data=moved)
    assert files(found, "mood", "train") == [moved / "mood.csv"]


def test_a_temperature_belongs_to_sampling_by_temperature(folder):
    assert mistakes(folder, PLAIN + "schedule: {name: sampled, t: 3.0}\n") == [
        "recipe.yaml:11: schedule.t: belongs to by: temperature"
    ]


@pytest.mark.parametrize("relative", [False, True])
def test_a_cycle_of_extends_is_refused(folder, monkeypatch, relative):
    monkeypatch.chdir(folder)
    (folder / "one.yaml").write_text("encoder: tiny\nextends: two.yaml\n")
    (folder / "two.yaml").write_text("extends: one.yaml\n")
    with pytest.raises(RecipeError, match=r"(one|two)\.yaml:[12]: extends: (one|two)\.yaml leads back to itself"):
        read_recipe("one.yaml" if relative else folder / "one.yaml", TABLES)


def test_a_recipe_that_extends_itself_is_refused(folder):
    assert mistakes(folder, "extends: recipe.yaml\n") == ["recipe.yaml:1: extends: recipe.yaml leads back to itself"]


@pytest.mark.parametrize(("value", "shown"), [("gone.yaml", "'gone.yaml'"), ("[a]", "['a']"), ("3", "3")])
def test_extends_must_be_the_path_of_a_recipe(folder, value, shown):
    found = mistakes(folder, f"encoder: tiny\nextends: {value}\n")
    assert found == [f"recipe.yaml:2: extends: expected the path of a recipe, found {shown}"]


PROFILES = """\
profiles:
  laptop:
    epochs: 1
    tasks: {near: {rows: 1, dev: near.csv}}
  cluster: {batch_size: 256}
"""  # lines 11 to 15


def test_a_profile_lies_over_the_recipe(folder):
    recipe = read(folder, PLAIN + PROFILES + "epochs: 9\nlr: 1\n", profile="laptop")
    near = recipe.tasks["near"]
    assert (recipe.epochs, recipe.lr, recipe.batch_size, near.rows, near.text) == (1, 1.0, 32, 1, ("one", "two"))
    assert files(recipe, "near", "dev") == [folder / "near.csv"]
    assert list(recipe.tasks) == ["mood", "near"]


def test_without_a_profile_the_profiles_change_nothing(folder):
    assert read(folder, PLAIN + PROFILES).model_dump() == read(folder, PLAIN).model_dump()


def test_an_unknown_profile_is_answered_with_the_nearest(folder):
    found = mistakes(folder, PLAIN + PROFILES, profile="labtop")
    assert found == ["recipe.yaml:11: no profile 'labtop'; did you mean 'laptop'?"]
    assert mistakes(folder, PLAIN, profile="laptop") == ["recipe.yaml: no profile 'laptop'; allowed: none"]


def test_a_profile_whose_name_is_a_number_is_found(folder):
    assert read(folder, PLAIN + "profiles:\n  8: {epochs: 1}\n", profile="8").epochs == 1


def test_a_mistake_in_a_profile_has_the_line_of_the_profile(folder):
    text = PLAIN + PROFILES.replace("epochs: 1", "epochz: 1").replace("rows: 1", "rows: 0")
    assert sorted(mistakes(folder, text, profile="laptop")) == [
        "recipe.yaml:13: unknown key 'epochz'; did you mean 'epochs'?",
        "recipe.yaml:14: tasks.near.rows: expected greater than 0, found 0",
    ]


def test_set_lies_over_the_profile_and_the_profile_over_an_extended_recipe(folder):
    (folder / "base.yaml").write_text(PLAIN + PROFILES + "batch_size: 8\n")
    text = "extends: base.yaml\nprofiles:\n  laptop: {epochs: 5, lr: 5}\n"  # a profile of the same name is replaced
    recipe = read(folder, text, profile="laptop", assignments=["lr=7"])
    assert (recipe.epochs, recipe.lr, recipe.batch_size, recipe.tasks["near"].rows) == (5, 7.0, 8, None)


@pytest.mark.parametrize("profiles", ["profiles:", "profiles: [laptop]", "profiles: {laptop: 3}"])
def test_profiles_must_be_names_with_keys(folder, profiles):
    found = mistakes(folder, f"{PLAIN}{profiles}\n")
    assert found == ["recipe.yaml:11: profiles: expected names, each with its own keys"]


# ---------------------------------------------------------------- what is read


@pytest.mark.parametrize(
    ("text", "value"), [("2e-5", 2e-5), ("1E-3", 1e-3), ("1", 1.0), (".5", 0.5), ("3.0e-05", 3e-5)]
)
def test_numbers_are_read_as_people_write_them(folder, text, value):
    assert read(folder, PLAIN + f"lr: {text}\n").lr == value


def test_data_is_looked_into_before_the_folder_of_the_recipe(folder):
    (folder / "data").mkdir()
    (folder / "data" / "mood.csv").write_text(MOOD)
    recipe = read(folder, PLAIN, data=folder / "data")
    assert files(recipe, "mood", "train") == [folder / "data/mood.csv"]
    assert files(recipe, "near", "train") == [folder / "near.csv"]
    found = mistakes(folder, PLAIN.replace("near.csv", "gone.csv"), data=folder / "data")
    assert found == [f"recipe.yaml:8: tasks.near.train: no file 'gone.csv' in data and {folder}"]


def test_options_are_completed_with_the_defaults_of_their_variant(folder):
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


def test_classes_are_words_even_where_yaml_reads_numbers_or_truth_values(folder):
    def classes(text: str) -> dict[str, str]:
        return (
            read(folder, PLAIN.replace("label: mood", f"label: {{column: mood, classes: {text}}}"))
            .tasks["mood"]
            .label.classes
        )

    assert classes("[0, 1]") == {"0": "0", "1": "1"}
    assert classes("{0: awful, 1: 10}") == {"0": "awful", "1": "10"}
    assert classes("{true: good, false: bad}") == {"true": "good", "false": "bad"}


def test_the_same_keys_in_a_mapping_make_the_same_recipe(folder, monkeypatch):
    monkeypatch.chdir(folder)
    values = {
        "encoder": "tiny",
        "tasks": {
            "mood": {"train": "mood.csv", "text": "sentence", "label": "mood"},
            "near": {"train": "near.csv", "text": ["one", "two"], "label": "near"},
        },
    }
    assert recipe_from(Tree(values), TABLES).model_dump() == read(folder, PLAIN).model_dump()
    with pytest.raises(RecipeError) as caught:
        recipe_from(Tree({**values, "poolin": "mean"}), TABLES)
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


def test_where_names_the_line_of_a_key_or_of_the_nearest_above_it(folder):
    recipe = read(folder, PLAIN, assignments=["lr=1"])
    assert recipe.where("tasks", "near", "text") == f"{folder}/recipe.yaml:9: tasks.near.text: "
    assert recipe.where("tasks", "near", "head") == f"{folder}/recipe.yaml:7: tasks.near.head: "
    assert recipe.where("lr") == "--set lr=1: lr: "
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
    again = read_recipe(folder / "again.yaml", TABLES)
    assert again.model_dump() == recipe.model_dump()
    assert again == recipe


@pytest.mark.parametrize(
    "text", [PLAIN, RICH.replace("[mse, {name: binary_cross_entropy, weight: 0.1, threshold: 4}]", "mse")]
)
def test_a_settled_recipe_written_and_read_again_settles_to_the_same(folder, text):
    settled = settle(read(folder, text), limit=40)
    write_recipe(settled.recipe, folder / "again.yaml")
    again = read_recipe(folder / "again.yaml", TABLES)
    assert again.model_dump() == settled.recipe.model_dump()
    assert settle(again, limit=40).specs == settled.specs
    assert again == settled.recipe


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
    assert read_recipe(folder / "again.yaml", TABLES).model_dump() == changed.model_dump()


@pytest.mark.parametrize("path", sorted(BUNDLED.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_bundled_recipe_reads_by_its_name(path, request):
    data = request.getfixturevalue("real_data") / "cs224n" if path.stem == "cs224n" else None
    recipe = read_recipe(path.stem, TABLES, data=data)
    assert all(
        file.is_file() for name in recipe.tasks for split in ("train", "dev") for file in files(recipe, name, split)
    )
    assert all(files(recipe, name, "dev") for name in recipe.tasks)
