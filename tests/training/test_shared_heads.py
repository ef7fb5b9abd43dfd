"""Two tasks with one head: `head: {same_as: near}`, with labels that a map turns into those of the other task."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import plait
from plait.errors import PlaitError
from plait.export.export import export_onnx
from plait.gradients.rows import GradientRows
from plait.model.directory.load import load_model
from plait.model.directory.record import open_directory
from plait.model.ensemble_build import build_soup
from plait.resolve.single_task import recipe_of_tasks
from plait.training.step import shared_parameters, train_step
from plait.training.train import Stopped, resume
from small_runs import batch_of, resolve, result_json, step_parts, stop_after, trainer_for

MAPPED = {"column": "same", "range": [0, 5], "map": {0: 0.5, 1: 4.5}}
PAIRS = [("a good film", "a bad film"), ("the dog ran", "a dog ran"), ("cold", "warm")]


@pytest.fixture
def shared(tiny_recipe):
    """`same` is scored from 0 to 5 through the head of `near`; keyword arguments change the recipe's keys."""

    def make(head="difference_product", borrower=None, **changes) -> dict:
        recipe = tiny_recipe(**changes)
        recipe["tasks"]["near"]["head"] = head
        recipe["tasks"]["same"] |= {"label": dict(MAPPED), "head": {"same_as": "near"}, **(borrower or {})}
        return recipe

    return make


def head_weights(folder) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in load_file(folder / "heads.safetensors").items() if ".near." in name}


def test_the_head_is_one_module_that_is_saved_once_and_predicts_alike(shared, tmp_path):
    result = plait.train(shared(), tmp_path / "run", baselines=False)
    names = load_file(result.model / "heads.safetensors")
    assert {name.split(".")[1] for name in names} == {"mood", "near"}
    written = {task["name"]: task for task in json.loads((result.model / "plait.json").read_text())["tasks"]}
    assert written["same"]["same_as"] == "near" and "same_as" not in written["near"]
    assert written["same"]["labels"]["map"] == {"0": "0.5", "1": "4.5"} and "map" not in written["near"]["labels"]
    loaded = load_model(result.model, device="cpu").model
    assert loaded.head("same") is loaded.head("near") and list(loaded.heads) == ["mood", "near"]
    model = plait.load(result.model)
    same, near = ([found.score for found in model.predict(task, PAIRS)] for task in ("same", "near"))
    assert same == near
    assert "| difference_product of near |" in (result.model / "README.md").read_text()
    assert "same_as: near" in (result.run / "recipe.yaml").read_text()


def test_the_optimizer_gets_each_weight_once_and_both_tasks_train_it(shared):
    trainer = trainer_for(shared())
    parameters = [id(weight) for group in trainer.optimizer.param_groups for weight in group["params"]]
    assert len(parameters) == len(set(parameters))
    head = trainer.model.heads["near"]
    assert {id(weight) for weight in head.parameters()} <= set(parameters)
    gradients = []
    for tasks in (("same",), ("near",), ("same", "near")):
        batches = [batch_of(trainer, task, range(8)) for task in tasks]
        kept = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
        train_step(step_parts(trainer, combine="sum", clip=None), batches, 0)
        gradients.append(head.outer.weight.grad.clone())
        trainer.model.load_state_dict(kept)
    assert all(gradient.abs().max() > 1e-4 for gradient in gradients)
    torch.testing.assert_close(gradients[2], gradients[0] + gradients[1], atol=1e-5, rtol=1e-5)


def test_surgery_treats_a_head_of_two_trained_tasks_as_shared(shared):
    trainer = trainer_for(shared(schedule={"name": "together", "combine": "surgery"}))
    found = {id(weight) for weight in shared_parameters(trainer.model, trainer.objectives)}
    head = list(trainer.model.heads["near"].parameters())
    assert all(id(weight) in found for weight in head)
    assert not any(id(weight) in found for weight in trainer.model.heads["mood"].parameters())
    alone = {id(weight) for weight in shared_parameters(trainer.model, ["mood", "near"])}
    assert not any(id(weight) in alone for weight in head)  # if only one of them is trained, it is that task's own


def test_surgery_projects_the_gradients_of_a_shared_head(shared):
    trainer = trainer_for(shared(schedule={"name": "together", "combine": "surgery"}))
    weights = [weight for weight in shared_parameters(trainer.model, trainer.objectives) if weight.requires_grad]

    def gradient(tasks, **changes) -> torch.Tensor:
        kept = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
        batches = [batch_of(trainer, task, range(8)) for task in tasks]
        train_step(step_parts(trainer, clip=None, **changes), batches, 0)
        trainer.model.load_state_dict(kept)
        parts = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights]
        return torch.cat([part.flatten() for part in parts]).double()

    same, near = (gradient([task], combine="sum", rows=None) for task in ("same", "near"))
    conflict = min(float(same @ near), 0.0)
    first, second = same - near * conflict / (near @ near), near - same * conflict / (same @ same)
    mixed = gradient(["same", "near"], combine="surgery", rows=GradientRows(weights, 2))
    torch.testing.assert_close(mixed, (first + second) / 2, atol=1e-5, rtol=1e-4)
    in_head = sum(weight.numel() for weight in trainer.model.heads["near"].parameters())
    assert mixed[-in_head:].abs().max() > 1e-4


def test_a_frozen_start_is_solved_for_the_task_that_the_head_belongs_to(shared, tmp_path):
    recipe = shared("comparison", head_start="frozen", epochs=None, steps=1, lr=1e-9)
    both = plait.train(recipe, tmp_path / "both", baselines=False)
    del recipe["tasks"]["same"]
    alone = plait.train(recipe, tmp_path / "alone", baselines=False)
    before, after = head_weights(alone.model), head_weights(both.model)
    assert before.keys() == after.keys() and len(before) == 2
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, atol=1e-5, rtol=0)


def test_a_head_whose_owner_is_only_scored_is_solved_for_the_other_task(shared, tmp_path):
    recipe = shared("comparison", head_start="frozen", epochs=None, steps=1, lr=1e-9)
    recipe["tasks"]["near"]["learn"] = False
    both = plait.train(recipe, tmp_path / "both", baselines=False)
    recipe["tasks"] = {"same": {**recipe["tasks"]["same"], "head": "comparison"}, "mood": recipe["tasks"]["mood"]}
    alone = load_file(plait.train(recipe, tmp_path / "alone", baselines=False).model / "heads.safetensors")
    for name, tensor in head_weights(both.model).items():
        torch.testing.assert_close(tensor, alone[name.replace(".near.", ".same.")], atol=1e-5, rtol=0)


def test_stages_that_train_one_of_the_tasks_each(shared, tmp_path):
    recipe = {**shared(epochs=1), "stages": [{"tasks": ["near"]}, {"tasks": ["mood", "same"]}]}
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    first = plait.train(
        {**recipe, "stages": [{"tasks": ["near"]}], "tasks": {"near": recipe["tasks"]["near"]}},
        tmp_path / "first",
        baselines=False,
    )
    before, after = head_weights(first.model), head_weights(result.model)
    assert all(not torch.equal(before[name], after[name]) for name in before)  # the second stage trained it on
    assert list(plait.load(result.model).tasks) == ["near", "mood", "same"]
    recipe["stages"].reverse()
    with pytest.raises(PlaitError, match="same_as: no task 'near' in this stage, an earlier one or the model"):
        resolve(recipe)


def test_a_resumed_run_equals_an_unbroken_one(shared, tmp_path):
    recipe = shared(checkpoint_every=1, schedule={"name": "together", "combine": "surgery"})
    whole = plait.train(recipe, tmp_path / "whole", baselines=False)
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "run", baselines=False, stop=stop_after(3))
    resume(tmp_path / "run")
    digests = [result_json(run)["last_weights_sha256"] for run in (whole.run, tmp_path / "run")]
    assert digests[0] == digests[1]


def test_a_task_trained_alone_has_a_head_of_its_own(shared, tmp_path):
    recipe = shared(epochs=1)
    plait.train(recipe, tmp_path / "run", baselines=False, single_task=True)
    own = {**recipe["tasks"]["same"], "head": "difference_product"}
    alone = plait.train({**recipe, "tasks": {"same": own}}, tmp_path / "own", baselines=False)
    inner = result_json(tmp_path / "run/single_task/same")
    assert inner["last_weights_sha256"] == result_json(alone.run)["last_weights_sha256"]
    staged = resolve({**recipe, "stages": [{"tasks": ["near"]}, {"tasks": ["same", "mood"]}]}).recipe
    assert recipe_of_tasks(staged, ["same"]).stages[1].tasks["same"].head.same_as == "near"  # the first stage has it


def test_a_warm_start_keeps_the_shared_head_and_can_lend_it(shared, tmp_path):
    recipe = shared(epochs=1)
    first = plait.train(recipe, tmp_path / "first", baselines=False)
    new = {key: value for key, value in recipe["tasks"]["same"].items() if key != "head"} | {"label": "same"}
    again = plait.train({**recipe, "encoder": str(first.model), "tasks": {"same": new}}, tmp_path / "again")
    specs = open_directory(again.model).record.tasks
    assert specs["same"].same_as == "near" and specs["same"].labels.map == {"0": "0.5", "1": "4.5"}
    assert list(specs) == ["mood", "near", "same"]
    third = {"tasks": {"third": {**recipe["tasks"]["same"]}}}
    lent = plait.train({**recipe, **third, "encoder": str(first.model), "freeze": ["near"]}, tmp_path / "lent")
    kept, frozen = head_weights(first.model), head_weights(lent.model)
    assert all(torch.equal(kept[name], frozen[name]) for name in kept)
    assert load_model(lent.model, device="cpu").model.head("third") is not None
    with pytest.raises(PlaitError, match="different task whose head it uses: near, here same"):
        own = {**new, "head": "difference_product"}
        resolve({**recipe, "encoder": str(first.model), "tasks": {"same": own}})


def test_export_soup_and_evaluation(shared, tmp_path):
    recipe = shared(epochs=1)
    runs = [plait.train({**recipe, "seed": seed}, tmp_path / f"{seed}", baselines=False) for seed in (1, 2)]
    export_onnx(str(runs[0].model), tmp_path / "exported")  # compares every task's graph with the model
    build_soup([str(run.run) for run in runs], tmp_path / "soup")
    one, two, mean = (head_weights(folder) for folder in (runs[0].model, runs[1].model, tmp_path / "soup"))
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, (one[name] + two[name]) / 2, atol=1e-6, rtol=0)
    assert load_model(tmp_path / "soup", device="cpu").model.head("same") is not None
    own = shared(epochs=1, seed=3)
    own["tasks"]["same"]["head"] = "difference_product"
    other = plait.train(own, tmp_path / "own", baselines=False)
    with pytest.raises(PlaitError, match="the head of 'same' is difference_product"):
        build_soup([str(runs[0].run), str(other.run)], tmp_path / "none")
    scores = runs[0].scores["same"]
    assert {"pearson", "spearman", "accuracy"} == scores.keys() and 0 <= scores["accuracy"] <= 1


def test_yes_no_and_scores_share_a_head_if_both_read_a_probability(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    recipe["tasks"]["near"] |= {"head": "joined", "loss": {"name": "binary_cross_entropy", "threshold": 4}}
    recipe["tasks"]["same"]["head"] = {"same_as": "near"}
    model = plait.load(plait.train(recipe, tmp_path / "run", baselines=False).model)
    yes = [found.probabilities["yes"] for found in model.predict("same", PAIRS)]
    np.testing.assert_allclose([found.score / 5 for found in model.predict("near", PAIRS)], yes, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head": {"same_as": "neer"}}, "same.head.same_as: no task 'neer' in this stage, an earlier one or"),
        ({"head": {"same_as": "same"}}, "same.head.same_as: 'same' is this task; name another"),
        (
            {"head": {"same_as": "near", "name": "joined"}},
            "same.head: same_as takes the other task's head as it is; remove name",
        ),
        ({"head": {"same_as": "near", "hidden": 3}}, "remove hidden"),
        ({"head": {}}, "same.head: give the name of a head, or same_as and the name of a task"),
        ({"label": "same"}, "different kind of label: score, here yes_no; give the label a map, or a kind"),
        (
            {"label": {**MAPPED, "range": [0, 6]}},
            r"different range: 0 to 5, here 0 to 6; give the label range: \[0, 5\]",
        ),
        ({"text": "one", "label": {**MAPPED, "kind": "score"}}, "different number of text columns: 2, here 1"),
        ({"head": {"same_as": "mood"}}, "different number of text columns: 1, here 2"),
    ],
)
def test_a_head_that_does_not_suit_the_task_is_refused(shared, change, message):
    with pytest.raises(PlaitError, match=message):
        resolve(shared(borrower=change))


def test_chains_and_cycles_are_refused(shared):
    chain = shared()
    chain["tasks"]["third"] = {**chain["tasks"]["same"], "head": {"same_as": "same"}}
    with pytest.raises(PlaitError, match="'same' itself uses the head of 'near' by same_as; write same_as: near"):
        resolve(chain)
    with pytest.raises(PlaitError, match="the task 'same' itself uses a head by same_as; give one of them a head"):
        resolve(shared(head={"same_as": "same"}))


def test_a_task_without_a_head_has_none_to_share(shared):
    recipe = shared()
    loss = {"name": "multiple_negatives", "positive_above": 0.5}
    recipe["tasks"]["near"] = {**recipe["tasks"]["near"], "loss": loss}
    del recipe["tasks"]["near"]["head"], recipe["tasks"]["near"]["dev"]
    with pytest.raises(PlaitError, match="same_as: the task 'near' has no head; give one of them a head"):
        resolve({**recipe, "head_start": "frozen"})


def test_mistakes_of_the_task_that_the_head_belongs_to_are_reported_once(shared):
    recipe = shared()
    recipe["tasks"]["near"]["metric"] = "f1"
    with pytest.raises(PlaitError) as caught:
        resolve(recipe)
    assert [mistake.partition(":")[0] for mistake in caught.value.mistakes] == ["tasks.near.metric"]


def test_a_head_of_other_classes_is_refused_until_a_map_makes_them_equal(tiny_recipe):
    recipe = tiny_recipe()
    mood = recipe["tasks"]["mood"]
    recipe["tasks"]["other"] = {**mood, "head": {"same_as": "mood"}, "label": {"column": "mood", "map": {"low": "bad"}}}
    with pytest.raises(PlaitError, match="different classes: high, low, here bad, high; give the label a map"):
        resolve(recipe)
    recipe["tasks"]["mood"] = {**mood, "label": {"column": "mood", "map": {"low": "bad"}}}
    assert resolve(recipe).stages[0].specs["other"].same_as == "mood"


def test_surgery_without_an_encoder_needs_a_shared_head(shared):
    frozen = {"train_encoder": False, "schedule": {"name": "together", "combine": "surgery"}}
    assert resolve(shared(**frozen)).stages[0].specs["same"].same_as == "near"
    with pytest.raises(PlaitError, match="surgery changes the gradients of shared weights"):
        resolve(shared(borrower={"head": "joined"}, **frozen))
