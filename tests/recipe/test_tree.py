"""Recipe files: invalid YAML, --set, extends, profiles."""

import pytest

from plait.errors import RecipeError
from plait.recipe.bundled import bundled_recipes
from plait.recipe.read import read_recipe, write_recipe
from plait.resolve.variants import VARIANTS
from recipe_files import MOOD, PLAIN, PYTHON_WORDS, files, mistakes, read

ELSEWHERE = "check the name, or give its folder with `data`"

# ---------------------------------------------------------------- invalid files


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "lr: 1\nlr: 2\n",
            'recipe.yaml:2: not valid YAML: found duplicate key "lr" with value "2" (original value: "1")',
        ),
        (
            "tasks:\n  mood: {text: a, text: b}\n",
            'recipe.yaml:2: not valid YAML: found duplicate key "text" with value "b" (original value: "a")',
        ),
        ("encoder: [tiny\nlr: 2\n", "recipe.yaml:2: not valid YAML: expected ',' or ']', but got ':'"),
        ("encoder: tiny\n", "recipe.yaml: missing key 'tasks'"),
    ],
)
def test_an_invalid_file_is_reported_with_its_line(folder, text, message):
    assert mistakes(folder, text) == [message]


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "- encoder\n- tasks\n", "tiny\n"])
def test_a_file_without_keys_is_refused(folder, text):
    (found,) = mistakes(folder, text)
    assert found.startswith("recipe.yaml:1: expected keys and values, found ")
    assert not PYTHON_WORDS.search(found)


@pytest.mark.parametrize("tasks", ["{}", "[mood]", "mood", "3"])
def test_a_recipe_without_tasks_is_refused(folder, tasks):
    (found,) = mistakes(folder, f"encoder: tiny\ntasks: {tasks}\n")
    assert found.startswith("recipe.yaml:2: tasks: ")
    assert not PYTHON_WORDS.search(found)


def test_a_file_that_is_not_utf_8_is_refused_with_the_byte(folder):
    (folder / "recipe.yaml").write_bytes(b"encoder: \xff\n")
    with pytest.raises(RecipeError, match=r"recipe\.yaml: not UTF-8 text \(byte 9\)"):
        read_recipe(folder / "recipe.yaml", VARIANTS)


def test_a_byte_order_mark_is_ignored(folder):
    assert read(folder, "\ufeff" + PLAIN).encoder == "tiny"


@pytest.mark.parametrize("name", ["startr", "nowhere/recipe.yaml"])
def test_an_unknown_recipe_lists_the_bundled_names(name):
    with pytest.raises(RecipeError) as caught:
        read_recipe(name, VARIANTS)
    names = ", ".join(bundled_recipes())
    assert "starter" in names and "best/minilm" in names
    assert str(caught.value) == f"{name}: no such recipe; give a YAML file, SUITE#ROW, or a bundled name: {names}"


# ---------------------------------------------------------------- --set


def test_set_reaches_keys_at_every_depth(folder):
    recipe = read(
        folder,
        PLAIN + "    head: {name: cosine, scale: 5}\n",
        overrides=[
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


def test_set_adds_options_to_a_bare_name(folder):
    recipe = read(folder, PLAIN, overrides=["tasks.near.head=cosine", "tasks.near.head.scale=3", "schedule=sampled"])
    assert recipe.tasks["near"].head.options == {"scale": 3.0}
    assert recipe.schedule.name == "sampled"
    weighted = read(folder, PLAIN + "    loss: mse\n", overrides=["tasks.near.loss.weight=2"])
    assert [(loss.name, loss.weight) for loss in weighted.tasks["near"].loss] == [("mse", 2.0)]


def test_set_reaches_one_of_several_losses(folder):
    text = PLAIN + "    loss: [mse, {name: multiple_negatives, positive_above: 4}]\n"
    recipe = read(folder, text, overrides=["tasks.near.loss.0.weight=2", "tasks.near.loss.1.weight=0.5"])
    assert [(loss.name, loss.weight) for loss in recipe.tasks["near"].loss] == [
        ("mse", 2.0),
        ("multiple_negatives", 0.5),
    ]


def test_the_last_set_wins_and_drops_the_options_of_the_old_choice(folder):
    recipe = read(
        folder, PLAIN + "schedule: {name: together, combine: mean}\n", overrides=["lr=1", "schedule=together", "lr=2"]
    )
    assert (recipe.lr, recipe.schedule.options["combine"]) == (2.0, "sum")


def test_set_adds_a_task(folder, monkeypatch):
    monkeypatch.chdir(folder)
    added = ["tasks.again={train: mood.csv, text: sentence}", "tasks.again.label=mood"]
    assert files(read(folder, PLAIN, overrides=added), "again", "train") == [folder / "mood.csv"]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("lr", "expected key=value, such as lr=1e-4 or tasks.sentiment.head=linear"),
        ("=3", "expected key=value, such as lr=1e-4 or tasks.sentiment.head=linear"),
        ("tasks.near.text.x=3", "no item 'x'; there are 2, counted from 0"),
        ("tasks.near.text.2=x", "no item '2'; there are 2, counted from 0"),
        ("lr=", "lr: expected a number, found None"),
        ("lr=fast", "lr: expected a number, found 'fast'"),
        ("lrr=1", "unknown key 'lrr'; did you mean 'lr'?"),
        ("pooling=meen", "pooling: unknown name 'meen'; did you mean 'mean'?"),
        ("tasks.near.hed=cosine", "tasks.near: unknown key 'hed'; did you mean 'head'?"),
        ("tasks.near.head=cosin", "tasks.near.head: unknown name 'cosin'; did you mean 'cosine'?"),
        (
            "tasks.near.head={name: cosine, scal: 3}",
            "tasks.near.head.cosine: unknown key 'scal'; did you mean 'scale'?",
        ),
        ("schedule.combine=mean", "schedule: missing key 'name'"),
        ("lr.x=3", "lr: expected a number, found keys and values"),
    ],
)
def test_a_mistake_in_set_is_reported_with_the_option(folder, override, message):
    assert mistakes(folder, PLAIN, overrides=[override]) == [f"`overrides` {override}: {message}"]


def test_a_set_value_that_is_not_yaml_is_refused(folder):
    (found,) = mistakes(folder, PLAIN, overrides=["lr=[1"])
    assert found.startswith("`overrides` lr=[1: the value is not valid YAML: ")


def test_mistakes_in_the_file_and_in_set_are_reported_together(folder):
    found = mistakes(folder, PLAIN + "pooling: meen\n", overrides=["lr=fast", "best_by=moot"])
    assert sorted(found) == [
        "`overrides` best_by=moot: best_by: unknown name 'moot'; did you mean 'mood'?",
        "`overrides` lr=fast: lr: expected a number, found 'fast'",
        "recipe.yaml:11: pooling: unknown name 'meen'; did you mean 'mean'?",
    ]


def test_a_file_in_set_is_relative_to_the_current_folder(folder, monkeypatch):
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "other.csv").write_text(MOOD)
    monkeypatch.chdir(elsewhere)
    recipe = read(folder, PLAIN, overrides=["tasks.mood.train=other.csv"])
    assert files(recipe, "mood", "train") == [elsewhere / "other.csv"]
    missing = f"no file 'mood.csv' in {elsewhere}; {ELSEWHERE}".replace(f"{folder}/", "")
    assert mistakes(folder, PLAIN, overrides=["tasks.mood.train=mood.csv"]) == [
        f"`overrides` tasks.mood.train=mood.csv: tasks.mood.train: {missing}"
    ]


# ---------------------------------------------------------------- extends and profiles


def test_extends_reads_a_chain_of_files_and_the_closest_wins(folder):
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


def test_a_mistake_in_an_extended_file_is_reported_with_its_line_there(folder):
    (folder / "base.yaml").write_text(PLAIN + "pooling: meen\nlr: fast\n")
    assert mistakes(folder, "extends: base.yaml\nlr: 1\nbest_by: moot\n") == [
        "base.yaml:11: pooling: unknown name 'meen'; did you mean 'mean'?",
        "recipe.yaml:3: best_by: unknown name 'moot'; did you mean 'mood'?",
    ]


def test_an_encoder_is_looked_for_beside_the_recipe_that_names_it(folder, monkeypatch, tmp_path_factory):
    (folder / "mine").mkdir()
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert read(folder, PLAIN.replace("encoder: tiny", "encoder: mine")).encoder == str((folder / "mine").resolve())


def test_yaml_merge_keys_work(folder):
    task = "tasks:\n  a: &a {train: mood.csv, text: sentence, label: mood}\n  b: {<<: *a, weight: 2}\n"
    assert read(folder, "encoder: tiny\n" + task).tasks["b"].text == ("sentence",)
    assert mistakes(folder, "encoder: tiny\n" + task.replace("weight", "wait")) == [
        "recipe.yaml:4: tasks.b: unknown key 'wait'; did you mean 'weight'?"
    ]


def test_moved_data_is_found_by_name_in_the_data_folder(folder, tmp_path_factory):
    recipe = read(folder, PLAIN)
    write_recipe(recipe, folder / "saved.yaml")
    moved = tmp_path_factory.mktemp("moved")
    for name in ("mood.csv", "near.csv"):
        (folder / name).rename(moved / name)
    found = read_recipe(folder / "saved.yaml", VARIANTS, data=moved)
    assert files(found, "mood", "train") == [moved / "mood.csv"]


def test_a_temperature_belongs_to_sampling_by_temperature(folder):
    assert mistakes(folder, PLAIN + "schedule: {name: sampled, t: 3.0}\n") == [
        "recipe.yaml:11: schedule.t: belongs to by: temperature"
    ]


@pytest.mark.parametrize("relative", [False, True])
def test_circular_extends_is_refused(folder, monkeypatch, relative):
    monkeypatch.chdir(folder)
    (folder / "one.yaml").write_text("encoder: tiny\nextends: two.yaml\n")
    (folder / "two.yaml").write_text("extends: one.yaml\n")
    with pytest.raises(RecipeError, match=r"(one|two)\.yaml:[12]: extends: (one|two)\.yaml extends itself"):
        read_recipe("one.yaml" if relative else folder / "one.yaml", VARIANTS)


def test_a_recipe_that_extends_itself_is_refused(folder):
    assert mistakes(folder, "extends: recipe.yaml\n") == ["recipe.yaml:1: extends: recipe.yaml extends itself"]


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


def test_a_profile_overrides_the_recipe(folder):
    recipe = read(folder, PLAIN + PROFILES + "epochs: 9\nlr: 1\n", profile="laptop")
    near = recipe.tasks["near"]
    assert (recipe.epochs, recipe.lr, recipe.batch_size, near.rows, near.text) == (1, 1.0, 32, 1, ("one", "two"))
    assert files(recipe, "near", "dev") == [folder / "near.csv"]
    assert list(recipe.tasks) == ["mood", "near"]


def test_without_a_profile_the_profiles_change_nothing(folder):
    assert read(folder, PLAIN + PROFILES).model_dump() == read(folder, PLAIN).model_dump()


def test_an_unknown_profile_suggests_the_closest(folder):
    found = mistakes(folder, PLAIN + PROFILES, profile="labtop")
    assert found == ["recipe.yaml:11: no profile 'labtop'; did you mean 'laptop'?"]
    assert mistakes(folder, PLAIN, profile="laptop") == ["recipe.yaml: no profile 'laptop'; allowed: quick"]


def test_a_profile_name_may_be_a_number(folder):
    assert read(folder, PLAIN + "profiles:\n  8: {epochs: 1}\n", profile="8").epochs == 1


def test_a_mistake_in_a_profile_has_its_line(folder):
    text = PLAIN + PROFILES.replace("epochs: 1", "epochz: 1").replace("rows: 1", "rows: 0")
    assert sorted(mistakes(folder, text, profile="laptop")) == [
        "recipe.yaml:13: unknown key 'epochz'; did you mean 'epochs'?",
        "recipe.yaml:14: tasks.near.rows: expected a number greater than 0, found 0",
    ]


def test_set_overrides_the_profile_and_the_profile_overrides_an_extended_recipe(folder):
    (folder / "base.yaml").write_text(PLAIN + PROFILES + "batch_size: 8\n")
    recipe = read(folder, "extends: base.yaml\nprofiles:\n  laptop: {lr: 5}\n", profile="laptop", overrides=["lr=7"])
    assert (recipe.epochs, recipe.lr, recipe.batch_size, recipe.tasks["near"].rows) == (1, 7.0, 8, 1)


def test_a_profile_of_an_extended_recipe_merges_by_key(folder):
    (folder / "base.yaml").write_text(PLAIN + PROFILES)
    text = "extends: base.yaml\nprofiles:\n  laptop: {epochs: 5, lr: 5, tasks: {near: {rows: 2}, mood: {rows: 1}}}\n"
    recipe = read(folder, text, profile="laptop")
    mood, near = recipe.tasks["mood"], recipe.tasks["near"]
    assert (recipe.epochs, recipe.lr, mood.rows, near.rows) == (5, 5.0, 1, 2)
    assert files(recipe, "near", "dev") == [folder / "near.csv"]  # a key of the extended profile
    assert read(folder, text, profile="cluster").batch_size == 256


@pytest.mark.parametrize("profiles", ["profiles:", "profiles: [laptop]", "profiles: {laptop: 3}"])
def test_profiles_must_map_names_to_keys(folder, profiles):
    found = mistakes(folder, f"{PLAIN}{profiles}\n")
    assert found == ["recipe.yaml:11: profiles: expected names, each with keys"]


def test_all_mistakes_of_several_changes_are_reported(folder):
    found = mistakes(folder, PLAIN, overrides=["lr", "tasks.mod.head=linear", "epochs=2", "lr=["])
    assert [line.partition(": ")[0] for line in found] == [
        "`overrides` lr",
        "`overrides` tasks.mod.head=linear",
        "`overrides` lr=[",
    ]
