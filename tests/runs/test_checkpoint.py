"""Checkpoints: weights, optimizer state and position come back bit for bit."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from optimizers import give_gradients, optimizer_for
from plait.errors import RunError
from plait.model.model import Model
from plait.runs.best_models import RankedModel
from plait.runs.checkpoint import (
    Position,
    find_checkpoints,
    load_checkpoint,
    read_position,
    save_checkpoint,
    verify_checkpoint,
)
from plait.runs.records import MetricsMark, StageResult

POSITION = Position(
    stage=1,
    epoch=2,
    step_in_epoch=3,
    step=40,
    best_step=36,
    best_score=0.5,
    patience=1,
    seconds=2.5,
    kept=[RankedModel("epoch1", 36, 0.5)],
    began=30,
    finished=[StageResult(["near"], 30, 24, 0.4, {"near": {"pearson": 0.4}}, {})],
    metrics=MetricsMark(12, "ab" * 32),
)


def save(folder: Path, model: Model, optimizer: torch.optim.Optimizer, step: int = 40) -> Path:
    save_checkpoint(folder, {"": model}, optimizer, Position(step=step))
    found = find_checkpoints(folder)[0]
    assert found.name == f"step-{step:08d}"
    return found


def test_the_optimizer_state_names_each_tensor_after_its_weight_and_role(make_model, tmp_path):
    model = make_model()
    optimizer = optimizer_for(model)
    assert load_file(save(tmp_path, model, optimizer, 1) / "optimizer.safetensors") == {}
    give_gradients(model, 1)
    optimizer.step()
    tensors = load_file(save(tmp_path, model, optimizer, 2) / "optimizer.safetensors")
    names = {name for name, _ in model.named_parameters()}
    assert tensors.keys() == {f"{name}/{role}" for name in names for role in ("step", "exp_avg", "exp_avg_sq")}
    weight = model.heads["mood"].linear.weight
    torch.testing.assert_close(tensors["heads.mood.linear.weight/exp_avg"], 0.1 * weight.grad, atol=1e-5, rtol=1e-5)


def test_a_restored_optimizer_continues_bit_by_bit(make_model, tmp_path):
    first, second, fresh = make_model(), make_model(), make_model()
    optimizer = optimizer_for(first)
    for step in (1, 2, 3):
        give_gradients(first, step)
        optimizer.step()
    place = save(tmp_path, first, optimizer)
    restored = optimizer_for(second)
    load_checkpoint(place, {"": second}, restored)
    fresh.load_state_dict(load_file(place / "weights.safetensors"))
    without_state = optimizer_for(fresh)
    for step in (4, 5, 6):
        for model, its in ((first, optimizer), (second, restored), (fresh, without_state)):
            give_gradients(model, step)
            its.step()
    for name, weight in first.state_dict().items():
        assert torch.equal(weight, second.state_dict()[name]), name
        assert not torch.equal(weight, fresh.state_dict()[name]), name  # the state does matter
    states = [
        (save(tmp_path / name, model, its) / "optimizer.safetensors").read_bytes()
        for name, model, its in (("first", first, optimizer), ("second", second, restored))
    ]
    assert states[0] == states[1]


def test_later_steps_do_not_change_a_checkpoint_that_was_loaded(make_model, tmp_path):
    model = make_model()
    optimizer = optimizer_for(model)
    give_gradients(model, 1)
    optimizer.step()
    place = save(tmp_path, model, optimizer)
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    load_checkpoint(place, {"": model}, optimizer)
    give_gradients(model, 2)
    optimizer.step()
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


def test_a_position_is_read_as_it_was_written(make_model, tmp_path):
    model = make_model()
    save_checkpoint(tmp_path, {"": model}, optimizer_for(model), POSITION)
    assert read_position(find_checkpoints(tmp_path)[0]) == POSITION
    assert POSITION.step_in_stage == 10


def test_the_next_stage_begins_where_the_last_one_ended():
    result = StageResult(["mood"], 10, None, None, {}, {})
    after = POSITION.next_stage(result)
    assert (after.stage, after.step, after.began, after.step_in_stage) == (2, 40, 40, 0)
    assert (after.epoch, after.best_step, after.best_score, after.patience, after.kept) == (0, None, None, 0, [])
    assert after.finished == [*POSITION.finished, result] and after.seconds == POSITION.seconds


def test_the_newest_two_checkpoints_stay(make_model, tmp_path):
    model = make_model()
    optimizer = optimizer_for(model)
    folder = tmp_path / "checkpoints"
    assert find_checkpoints(folder) == []
    for step in (9, 10, 11):
        save(folder, model, optimizer, step)
    assert [path.name for path in find_checkpoints(folder)] == ["step-00000011", "step-00000010"]
    save_checkpoint(folder, {"": model}, optimizer, Position(step=10))  # step 11 was damaged, and comes again
    assert [path.name for path in find_checkpoints(folder)] == ["step-00000010"]


FILES = ["weights.safetensors", "optimizer.safetensors", "position.json", "manifest.json"]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", ["cut", "missing", "flip", "renamed"])
def test_a_damaged_checkpoint_is_refused(make_model, tmp_path, file, damage):
    model = make_model()
    optimizer = optimizer_for(model)
    give_gradients(model, 1)
    optimizer.step()
    place = save(tmp_path, model, optimizer)
    verify_checkpoint(place, needs_manifest=True)
    content = bytearray((place / file).read_bytes())
    (place / file).unlink()
    if damage == "cut":
        (place / file).write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        content[len(content) // 2] ^= 1
        (place / file).write_bytes(content)
    elif damage == "renamed":
        (place / f"{file}.old").write_bytes(content)
    with pytest.raises(RunError, match=r"step-00000040: damaged \(.*\)$"):
        verify_checkpoint(place, needs_manifest=True)


@pytest.mark.parametrize("text", ["{}", '{"sha256": {}}', "[]", '{"sha256": {"position.json": "0"}}'])
def test_an_incomplete_manifest_is_refused(make_model, tmp_path, text):
    model = make_model()
    place = save(tmp_path, model, optimizer_for(model))
    (place / "manifest.json").write_text(text)
    with pytest.raises(RunError, match=r"step-00000040: damaged"):
        verify_checkpoint(place, needs_manifest=False)


@pytest.mark.parametrize("text", ["", "[1]", '{"unknown": 1}'])
def test_a_damaged_position_is_refused(make_model, tmp_path, text):
    model = make_model()
    place = save(tmp_path, model, optimizer_for(model))
    (place / "position.json").write_text(text)
    with pytest.raises(RunError, match=r"step-00000040: damaged"):
        read_position(place)


def test_weights_that_no_module_asks_for_are_refused(make_model, tmp_path):
    model = make_model()
    optimizer = optimizer_for(model)
    extra = torch.nn.Linear(2, 2)
    save_checkpoint(tmp_path, {"": model, "losses/mood/0-x/": extra}, optimizer, POSITION)
    (place,) = find_checkpoints(tmp_path)
    with pytest.raises(RunError, match="unknown weights: losses/mood/0-x/bias, losses/mood/0-x/weight"):
        load_checkpoint(place, {"": model}, optimizer)


def test_a_checkpoint_of_plait_0_1_is_read():
    place = Path(__file__).parent.parent / "fixtures/plait-0.1/run/checkpoints/step-00000005"
    verify_checkpoint(place, needs_manifest=False)
    position = read_position(place)
    assert (position.step, position.epoch, position.step_in_epoch, position.best_step) == (5, 1, 2, 3)
    assert position.kept == [RankedModel(**json.loads((place / "position.json").read_text())["kept"][0])]
