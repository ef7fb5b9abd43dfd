"""Runs that learn from the answers of another model."""

import pytest
import torch
import torch.nn.functional as F

import plait
from plait.errors import RecipeError
from plait.losses.prediction import distil
from plait.model.ensemble_build import build_ensemble
from plait.progress import SilentProgress
from plait.runs.directory import RunDirectory
from plait.training.train import Stopped, resume
from small_runs import Recorder, forward, resolve, result_json, stop_after, trainer_for


@pytest.fixture
def teacher(tiny_recipe, tmp_path):
    """A run of all three tasks."""
    plait.train(tiny_recipe(seed=5, lr=1e-2), tmp_path / "teacher", baselines=False)
    return tmp_path / "teacher"


def losses_of(recipe: dict) -> dict[str, list[str]]:
    tasks = resolve(recipe).stages[-1].tasks
    return {name: [loss.name for loss in task.losses] for name, task in tasks.items()}


def test_tasks_that_name_no_loss_learn_from_the_teacher_too(tiny_recipe, teacher):
    recipe = tiny_recipe(teacher=str(teacher))
    recipe["tasks"]["near"]["loss"] = "mse"
    assert losses_of(recipe) == {
        "mood": ["cross_entropy", "distil"],
        "same": ["binary_cross_entropy", "distil"],
        "near": ["mse"],
    }


def test_the_loss_gets_what_the_teacher_says_about_its_rows(tiny_recipe, teacher):
    trainer = trainer_for(tiny_recipe(teacher=str(teacher)))
    trainer.ask_teacher(SilentProgress())
    trainer.model.eval()
    model, rows = plait.load(teacher), [3, 0, 7]
    for task, link, plain in (("mood", "softmax", F.cross_entropy), ("near", "identity", None)):
        batch, passed = forward(trainer, task, rows)
        texts = trainer.resolved.tasks[task].splits["train"].texts
        answers = model.predict(
            task, [tuple(side[row] for side in texts) if len(texts) > 1 else texts[0][row] for row in rows]
        )
        label_B = torch.from_numpy(batch.labels)
        if link == "softmax":
            shares_BC = torch.tensor([list(answer.probabilities.values()) for answer in answers])
            torch.testing.assert_close(passed.teacher_BC.softmax(dim=-1), shares_BC, atol=1e-5, rtol=0)
            hard = plain(passed.outputs_BC, label_B)
        else:
            hard = F.mse_loss(passed.outputs_BC[:, 0], label_B.float())
        expected = hard + distil(passed.outputs_BC, passed.teacher_BC, link)
        torch.testing.assert_close(trainer.objectives[task](passed, label_B).float(), expected.float())


def test_a_student_comes_closer_to_its_teacher(tiny_recipe, teacher, tmp_path):
    recipe = tiny_recipe(lr=1e-2, epochs=8)
    recipe["tasks"] = {"mood": recipe["tasks"]["mood"]}
    plait.train(recipe, tmp_path / "alone", baselines=False)
    taught = {**recipe["tasks"]["mood"], "loss": ["cross_entropy", {"name": "distil", "weight": 20}]}
    plait.train({**recipe, "tasks": {"mood": taught}, "teacher": str(teacher)}, tmp_path / "taught", baselines=False)
    texts = trainer_for(recipe).resolved.tasks["mood"].splits["train"].texts[0]

    def answers(run):
        found = plait.load(tmp_path / run).predict("mood", list(texts))
        return torch.tensor([list(answer.probabilities.values()) for answer in found])

    said = answers("teacher")
    assert (answers("taught") - said).abs().mean() < 0.5 * (answers("alone") - said).abs().mean()


def test_a_run_resumes_with_what_the_teacher_said(tiny_recipe, teacher, tmp_path):
    recipe = tiny_recipe(teacher=str(teacher))
    plait.train(recipe, tmp_path / "whole", baselines=False)
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "broken", baselines=False, stop=stop_after(4))
    seen = Recorder()
    resume(tmp_path / "broken", progress=seen)
    assert "asking the teacher" not in [what for what, _, _ in seen.parts]
    digests = [result_json(tmp_path / name)["last_weights_sha256"] for name in ("whole", "broken")]
    assert digests[0] == digests[1]


def test_an_ensemble_can_teach(tiny_recipe, teacher, tmp_path):
    plait.train(tiny_recipe(seed=6, lr=1e-2), tmp_path / "other", baselines=False)
    build_ensemble([str(teacher), str(tmp_path / "other")], tmp_path / "both")
    result = plait.train(tiny_recipe(teacher=str(tmp_path / "both"), epochs=1), tmp_path / "run")
    assert set(result.scores) == {"mood", "same", "near"}


def test_a_teacher_works_with_solved_heads_and_single_tasks(tiny_recipe, teacher, tmp_path):
    recipe = tiny_recipe(teacher=str(teacher), head_start="frozen", epochs=1)
    recipe["tasks"]["near"]["loss"] = "mse"
    plait.train(recipe, tmp_path / "run", single_task=True)
    assert {run.name for run in RunDirectory(tmp_path / "run").single_tasks.iterdir()} == {"mood", "same", "near"}


def test_a_teacher_beside_the_recipe_is_found(tiny_recipe, teacher, tmp_path):
    from plait.recipe.read import recipe_text

    (tmp_path / "recipe.yaml").write_text(recipe_text(tiny_recipe(teacher="teacher")))
    assert resolve(tmp_path / "recipe.yaml").recipe.teacher == str(teacher)


def mistakes_of(recipe: dict) -> str:
    with pytest.raises(RecipeError) as caught:
        resolve(recipe)
    return "\n".join(caught.value.mistakes)


def test_a_teacher_that_is_missing_is_reported_once(tiny_recipe, tmp_path):
    recipe = tiny_recipe(teacher=str(tmp_path / "nothing"))
    recipe["tasks"]["mood"]["loss"] = ["cross_entropy", "distil"]
    (line,) = mistakes_of(recipe).splitlines()
    assert line == f"teacher: {tmp_path}/nothing: no such directory; give a model directory or a run"


def test_mistakes_about_teachers(tiny_recipe, teacher):
    recipe = tiny_recipe()
    recipe["tasks"]["mood"]["loss"] = ["cross_entropy", "distil"]
    assert "tasks.mood.loss: distil needs a teacher; set teacher to a plait model, a run or an ensemble" in mistakes_of(
        recipe
    )
    recipe = tiny_recipe(teacher=str(teacher))
    recipe["tasks"]["moods"] = {**recipe["tasks"].pop("mood"), "loss": ["cross_entropy", "distil"]}
    assert "the teacher has no task 'moods'; did you mean 'mood'?" in mistakes_of(recipe)
    recipe = tiny_recipe(teacher=str(teacher))
    recipe["tasks"]["mood"]["loss"] = "distil"
    assert "distil needs a loss on the labels beside it, such as cross_entropy" in mistakes_of(recipe)
    recipe = tiny_recipe(teacher=str(teacher))
    recipe["tasks"]["mood"] |= {"label": {"column": "mood", "classes": ["low", "high"]}}
    assert "the teacher's task 'mood' differs in its classes" in mistakes_of(recipe)
    recipe = tiny_recipe(teacher=str(teacher))
    for task, loss in (("mood", "cross_entropy"), ("same", "binary_cross_entropy"), ("near", "mse")):
        recipe["tasks"][task]["loss"] = loss
    assert "teacher: no task learns from it; add distil to the losses of one" in mistakes_of(recipe)
    recipe = tiny_recipe(teacher=str(teacher))
    recipe["tasks"]["mood"]["loss"] = ["binary_cross_entropy", "distil"]
    assert "distil goes with cross_entropy, whose outputs mean the same" in mistakes_of(recipe)
