"""A run that plait 0.1 began resumes, although keys were renamed and added since."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from ruamel.yaml import YAML
from safetensors.torch import load_file

import plait
from plait.errors import RunError
from plait.model.directory.record import open_directory
from plait.runs.directory import RunDirectory
from plait.runs.origins import find_split
from plait.training.train import resume
from small_runs import Recorder, metrics_lines

FIXTURE = Path(__file__).parent.parent / "fixtures/plait-0.1"
TASKS = ["mood", "same", "near", "topics", "closer"]


@pytest.fixture
def project(tmp_path) -> Path:
    """A project folder with a run that plait 0.1 stopped after step 5; it was in /elsewhere/project then."""
    return shutil.copytree(FIXTURE, tmp_path / "project")


def resume_in(project: Path, *overrides: str, **options):
    overrides = (f"encoder={project}/encoder", *overrides)
    return resume(project / "run", data=project / "data", overrides=overrides, **options)


def edit_recipe(project: Path, change) -> None:
    """Change the recipe in both places where a run keeps it."""
    path = project / "run/run.json"
    value = json.loads(path.read_text())
    change(value["recipe"])
    path.write_text(json.dumps(value))
    path = project / "run/recipe.yaml"
    recipe = YAML().load(path)
    change(recipe)
    YAML().dump(recipe, path)


def test_a_run_of_plait_0_1_resumes_and_finishes(project):
    recipe = (project / "run/recipe.yaml").read_text()
    assert "make:\n      name: triplets" in recipe and "watch_conflict: 2" in recipe and "kind: several" in recipe
    progress = Recorder()
    before = metrics_lines(project / "run")
    result = resume_in(project, progress=progress)
    assert "resuming after step 5 of 9" in progress.notes
    assert metrics_lines(result.run)[: len(before)] == before  # its lines stay as plait 0.1 wrote them
    assert [line["step"] for line in metrics_lines(result.run) if line["kind"] == "train"] == list(range(1, 10))
    assert result.steps == 9 and RunDirectory(result.run).is_finished()
    assert [folder.name for folder in result.kept_models] == [f"epoch{result.best_step // 3}"]
    assert not (project / "run/checkpoints").exists()


def test_the_model_of_a_resumed_run_has_the_keys_and_names_of_today(project):
    result = resume_in(project)
    tasks = plait.load(result.model).tasks
    assert list(tasks) == TASKS
    assert tasks["topics"].labels.kind == "multilabel" and tasks["mood"].head == "linear.v1"
    record = open_directory(result.model).record
    assert record.provenance.recipe["conflict_every"] == 2
    assert record.provenance.recipe["tasks"]["closer"]["derive"]["name"] == "triplets"
    examples = find_split(record, result.model, "dev", project / "data")
    assert {name: len(part) for name, part in examples.items()} == {"mood": 24, "same": 24, "near": 24, "topics": 6}


def test_a_resumed_run_ends_with_the_model_that_plait_0_1_would_have_trained(project):
    result = resume_in(project)
    former = open_directory(project / "model").record.provenance  # of the same run, never stopped
    assert result.best_step == former.step == 9
    for task, values in former.scores.items():
        known = {metric: result.scores[task][metric] for metric in values}  # metrics may have been added since
        assert known == pytest.approx(values, abs=1e-6)
    for file in ("model.safetensors", "heads.safetensors"):
        old, new = (load_file(folder / file) for folder in (project / "model", result.model))
        assert old.keys() == new.keys()
        for name, tensor in old.items():
            # Equal bits on the machine that made the fixture; another processor rounds differently. A key's bias
            # changes nothing in the softmax, so its gradient is rounding alone, which Adam scales up.
            if name.endswith("key.bias"):
                continue
            torch.testing.assert_close(new[name], tensor, atol=1e-5, rtol=1e-4)


def test_the_conflicts_before_and_after_resuming_are_summarized_together(project):
    result = resume_in(project)
    lines = [line for line in metrics_lines(result.run) if line["kind"] == "conflict"]
    assert [line["step"] for line in lines] == [2, 4, 6, 8]
    assert {found["count"] for found in result.conflicts.values()} == {4}


def test_a_changed_setting_is_refused_with_the_difference(project):
    with pytest.raises(RunError) as caught:
        resume_in(project, "lr=2e-3")
    assert list(caught.value.mistakes) == [
        f"{project}/run: the recipe has changed: lr: 0.001 → 0.002",
        "a run can only be resumed unchanged; undo the change, or start a new run with another `out`",
    ]


def test_a_single_override_may_be_a_string(project):
    assert resume(project / "run", data=project / "data", overrides=f"encoder={project}/encoder").steps == 9


def test_a_changed_encoder_is_refused(project):
    config = project / "encoder/config.json"
    config.write_text(config.read_text() + " ")
    with pytest.raises(RunError, match=r"the encoder has changed: config\.json: "):
        resume_in(project)


def test_changed_data_is_refused(project):
    with (project / "data/mood-dev.csv").open("a") as file:
        file.write("a good day,high\n")
    with pytest.raises(RunError, match=r"the data has changed: mood\.dev\.0\.sha256: "):
        resume_in(project)


@pytest.mark.parametrize("key", ["precision", "early_stopping", "fold", "best_by", "clip"])
def test_a_recipe_key_that_is_added_later_does_not_make_a_run_differ(project, key):
    edit_recipe(project, lambda recipe: recipe.pop(key))
    assert resume_in(project).steps == 9


def test_a_task_key_that_is_added_later_does_not_make_a_run_differ(project):
    def remove(recipe) -> None:
        for task in recipe["tasks"].values():
            for key in ("learn", "quoting", "label_smoothing"):
                del task[key]

    edit_recipe(project, remove)
    assert resume_in(project).steps == 9


def test_a_head_option_that_is_added_later_does_not_make_a_run_differ(project):
    edit_recipe(project, lambda recipe: recipe["tasks"]["same"]["head"].pop("hidden"))
    assert resume_in(project).steps == 9


def test_a_loss_option_that_is_added_later_does_not_make_a_run_differ(project):
    edit_recipe(project, lambda recipe: recipe["tasks"]["mood"]["loss"][1].pop("special_tokens"))
    assert resume_in(project).steps == 9


def test_a_removed_key_whose_value_was_not_the_default_is_a_difference(project):
    path = project / "run/run.json"
    value = json.loads(path.read_text())
    del value["recipe"]["batch_size"]
    path.write_text(json.dumps(value))
    with pytest.raises(RunError, match="the recipe has changed: batch_size: 32 → 8"):
        resume_in(project)


def test_a_user_who_resumes_with_an_old_recipe_file_learns_the_new_names(project):
    with pytest.raises(plait.PlaitError) as caught:
        resume_in(project, recipe=project / "recipe.yaml")
    found = [mistake.replace(f"{project}/", "") for mistake in caught.value.mistakes]
    assert "recipe.yaml:8: tasks.closer: 'make' is now called 'derive'" in found
    assert "recipe.yaml:10: 'watch_conflict' is now called 'conflict_every'" in found


def test_a_user_who_resumes_with_an_updated_recipe_file_may(project):
    text = (project / "recipe.yaml").read_text()
    for old, new in (("make:", "derive:"), ("watch_conflict:", "conflict_every:"), ("several", "multilabel")):
        assert old in text
        text = text.replace(old, new)
    (project / "recipe.yaml").write_text(text + "head_start: random\nbatches: sorted\nprecision: float32\n")
    assert resume(project / "run", recipe=project / "recipe.yaml").steps == 9
