"""Mistakes in a recipe: all of them at once, each with its line."""

import pytest

from plait.data.batch import READS
from plait.heads import HEADS
from recipe_files import PLAIN, PYTHON_WORDS, mistakes, read

ELSEWHERE = "check the name, or give its folder with `data`"

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


def test_every_mistake_is_reported_with_its_line(folder):
    pairs = ", ".join(name for name, head in HEADS.items() if READS[head.reads] == 2)
    assert sorted(mistakes(folder, BROKEN)) == sorted(
        [
            "recipe.yaml: missing key 'encoder'",
            "recipe.yaml:1: unknown key 'epochz'; did you mean 'epochs'?",
            "recipe.yaml:2: pooling: unknown name 'meen'; did you mean 'mean'?",
            "recipe.yaml:4: lr: expected a number, found 'fast'",
            "recipe.yaml:5: best_by: unknown name 'moood'; did you mean 'mood'?",
            "recipe.yaml:6: schedule: unknown name 'round_robbin'; did you mean 'round_robin'?",
            "recipe.yaml:6: schedule.order: unknown name 'neer'; did you mean 'near'?",
            "recipe.yaml:6: schedule.order: the task 'near' is missing",
            "recipe.yaml:6: schedule.order: the task 'same' is missing",
            f"recipe.yaml:9: tasks.mood.train: no file 'gone.csv' in {folder}; {ELSEWHERE}",
            "recipe.yaml:12: tasks.mood: unknown key 'lable'; did you mean 'label'?",
            "recipe.yaml:13: tasks.mood.head: unknown name 'linnear'; did you mean 'linear'?",
            "recipe.yaml:18: tasks.near.head: cosine compares embeddings and cannot follow a shared_layer; "
            "remove one of them",
            "recipe.yaml:20: tasks.near.head.cosine: unknown key 'scal'; did you mean 'scale'?",
            "recipe.yaml:24: tasks.near.loss.1.binary_cross_entropy.threshold: expected a number, found 'high'",
            "recipe.yaml:25: tasks.near.metric: unknown name 'pearsn'; did you mean 'pearson'?",
            "recipe.yaml:26: tasks.near.take: expected a number less than or equal to 1, found 2",
            f"recipe.yaml:31: tasks.same.head: linear reads one text, the task has 2; suitable: {pairs}",
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
        (("text: sentence", "text: 3"), "recipe.yaml:5: tasks.mood.text: expected text, found 3"),
        (
            ("label: mood", "label: {column: mood, clases: [low, high]}"),
            "recipe.yaml:6: tasks.mood.label: unknown key 'clases'; did you mean 'classes'?",
        ),
        (
            ("label: mood", "label: {column: mood, range: [5, 0]}"),
            "recipe.yaml:6: tasks.mood.label: expected the lower end of the range first, found [5.0, 0.0]",
        ),
    ],
)
def test_an_invalid_required_key_does_not_hide_other_mistakes(folder, change, message):
    text = PLAIN.replace(*change) + "pooling: meen\n"
    line = text.splitlines().index("pooling: meen") + 1
    far = f"recipe.yaml:{line}: pooling: unknown name 'meen'; did you mean 'mean'?"
    assert {message, far} <= set(mistakes(folder, text))


def test_a_missing_text_does_not_cause_a_mistake_about_the_head(folder):
    text = PLAIN.replace("    text: [one, two]\n", "    head: cosine\n")
    assert mistakes(folder, text) == ["recipe.yaml:7: tasks.near: missing key 'text'"]


def test_epochs_and_steps_together_do_not_hide_other_mistakes(folder):
    found = mistakes(folder, PLAIN + "epochs: 3\nsteps: 4\npooling: meen\nlr: fast\n")
    assert [mistake.partition(": ")[2] for mistake in found if "not both" in mistake] == [
        "give epochs or steps, not both; null removes one"
    ]
    assert "recipe.yaml:13: pooling: unknown name 'meen'; did you mean 'mean'?" in found
    assert "recipe.yaml:14: lr: expected a number, found 'fast'" in found


@pytest.mark.parametrize("task", ["other: hello", "other:", "9: hello", "9: {train: near.csv}"])
def test_an_invalid_task_is_reported_with_its_line_and_does_not_hide_other_mistakes(folder, task):
    found = mistakes(folder, PLAIN + f"  {task}\npooling: meen\n")
    assert any(mistake.startswith(f"recipe.yaml:11: tasks.{task.partition(':')[0]}: ") for mistake in found), found
    assert "recipe.yaml:12: pooling: unknown name 'meen'; did you mean 'mean'?" in found


def test_a_task_name_may_be_a_number(folder):
    recipe = read(folder, PLAIN + "  9: {train: mood.csv, text: sentence, label: mood}\nbest_by: '9'\n")
    assert recipe.tasks["9"].text == ("sentence",)


@pytest.mark.parametrize("name", ["a.b", "''"])
def test_a_task_name_that_cannot_name_a_head_is_refused(folder, name):
    text = PLAIN + f"  {name}: {{train: mood.csv, text: sentence, label: mood}}\n"
    assert mistakes(folder, text)[0].startswith("recipe.yaml:11: tasks")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("lr: 0", "lr: expected a number greater than 0, found 0"),
        ("lr: true", "lr: expected a number, found True"),
        ("lr: '1'", "lr: expected a number, found '1'"),
        ("epochs: 3.0", "epochs: expected an integer, found 3.0"),
        ("dropout: 1", "dropout: expected a number less than 1, found 1"),
        ("device: gpu", "device: expected auto, cpu, mps, cuda or one GPU such as cuda:1, found 'gpu'"),
        (
            "device: cuda:0,1",
            "device: expected auto, cpu, mps, cuda or one GPU such as cuda:1, found 'cuda:0,1'; a run uses one device",
        ),
        ("evaluate_every: 0", "evaluate_every: expected 'epoch' or a positive number of steps"),
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
            "schedule.combine: sampled trains one task per step, so there is nothing to combine; remove it, or use "
            "together",
        ),
        ("conflict_every: 0", "conflict_every: expected a number greater than 0, found 0"),
        ("schedule: {name: together, epoch: moot}", "schedule.epoch: unknown name 'moot'; did you mean 'mood'?"),
        (
            "schedule: {name: sampled, weights: {moot: 2}}",
            "schedule.weights: unknown name 'moot'; did you mean 'mood'?",
        ),
        (
            "schedule: {name: sampled, by: sise}",
            "schedule.sampled.by: expected 'size', 'equal' or 'temperature', found 'sise'",
        ),
        ("schedule: {name: alternate, order: [mood]}", "schedule.order: the task 'near' is missing"),
        ("lr_schedule: lineal", "lr_schedule: unknown name 'lineal'; did you mean 'linear'?"),
        ("lr_schedule: {name: linear, warmup: long}", "lr_schedule.linear.warmup: expected a number, found 'long'"),
        ("optimizer: adam", "optimizer: unknown name 'adam'; did you mean 'adamw'?"),
        ("shared_layer: relu", "shared_layer: unknown name 'relu'; allowed: tanh"),
    ],
)
def test_one_mistake_gives_one_message(folder, line, message):
    assert mistakes(folder, PLAIN + line + "\n") == [f"recipe.yaml:11: {message}"]


def test_sequential_refuses_steps(folder):
    text = PLAIN + "steps: 4\nschedule: sequential\n"
    assert mistakes(folder, text) == [
        "recipe.yaml:11: steps: sequential trains each task for its own epochs; give epochs instead"
    ]


@pytest.mark.parametrize("option", ["order: 3", "weights: 3", "epoch: 7", "combine: 3"])
def test_an_unknown_schedule_with_options_of_a_wrong_type_is_reported(folder, option):
    found = mistakes(folder, PLAIN + f"schedule: {{name: sampld, {option}}}\n")
    assert "recipe.yaml:11: schedule: unknown name 'sampld'; did you mean 'sampled'?" in found


def test_a_mistake_in_a_single_loss_has_its_own_line_and_no_list_index(folder):
    text = PLAIN + "    loss:\n      name: mse\n      weight: 0\n"
    assert mistakes(folder, text) == [
        "recipe.yaml:13: tasks.near.loss.weight: expected a number greater than 0, found 0"
    ]


def test_an_empty_list_of_losses_is_refused(folder):
    (found,) = mistakes(folder, PLAIN + "    loss: []\n")
    assert found.startswith("recipe.yaml:11: tasks.near.loss: ")


def test_options_of_a_variant_belong_beside_its_name(folder):
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
def test_an_option_out_of_range_is_refused(folder, line):
    assert mistakes(folder, PLAIN + line)[0].startswith("recipe.yaml:11: ")


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
def test_messages_do_not_mention_python_types(folder, line):
    text = PLAIN.replace("    label: near\n", "") if "label:" in line and line[2] == " " else PLAIN
    found = mistakes(folder, text + line + "\n")
    assert found and not any(PYTHON_WORDS.search(mistake) for mistake in found), found
