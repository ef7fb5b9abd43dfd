"""The processes that train together: one by default; a step asks the others before it updates weights."""

from dataclasses import dataclass, field
from functools import partial

import pytest
import torch

from plait.errors import NotFiniteError
from plait.progress import SilentProgress
from plait.runs.checkpoint import Position
from plait.runs.directory import RunDirectory
from plait.runs.metrics_file import open_metrics
from plait.training.stage import RunContext, StageRun
from plait.training.train import _record_of as record_of
from plait.training.trainer import Trainer, build_start_model
from plait.world import World
from small_runs import resolve, trainer_for


@dataclass(frozen=True)
class TwoProcesses(World):
    """One of two processes; the other agrees or not."""

    size: int = 2
    other_agrees: bool = True
    asked: list[bool] = field(default_factory=list)

    def gather_rows(self, rows, counts):
        """The embeddings of the other process are zeros."""
        others = rows.new_zeros(counts[1 - self.rank], rows.shape[1])
        return torch.cat([rows, others] if self.rank == 0 else [others, rows])

    def gather(self, part) -> list:
        return [part, part]

    def all(self, flag: bool) -> bool:
        self.asked.append(flag)
        return flag and self.other_agrees


def trainer_in(world: World, recipe: dict) -> Trainer:
    resolved = resolve(recipe)
    return Trainer(resolved.stages[-1], build_start_model(resolved), world)


def bits(trainer: Trainer) -> list[bytes]:
    return [tensor.numpy().tobytes() for tensor in trainer.model.state_dict().values()]


STEP = [("mood", (0, 3, 5)), ("same", (1, 2))]


def test_a_single_process_changes_nothing():  # identity
    world = World()
    value = torch.tensor(3.0)
    assert world.is_main
    assert world.gather(value) == [value] and world.share(7) == range(7)
    assert world.all(True) and not world.all(False)
    assert world.sum_row(value, [True, False]) == [True, False]
    assert value.item() == 3.0 and world.from_main(value) is value


@pytest.mark.parametrize(("count", "size"), [(10, 3), (2, 3), (0, 2), (9, 1)])
def test_the_shares_of_all_processes_cover_every_item_once(count, size):
    shares = [World(rank, size).share(count) for rank in range(size)]
    assert [item for share in shares for item in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize(("rank", "is_main"), [(0, True), (1, False), (7, False)])
def test_only_the_first_process_is_the_main_one(rank, is_main):
    assert World(rank, 8).is_main is is_main


def test_a_step_stops_if_another_process_finds_a_number_that_is_not_finite(tiny_recipe):
    world = TwoProcesses(other_agrees=False)
    trainer = trainer_in(world, tiny_recipe())
    before = bits(trainer)
    message = (
        r"^step 5: the loss is not finite in another process, the weights were left unchanged \(mood: rows 0, 3, 5\)"
    )
    with pytest.raises(NotFiniteError, match=message):
        trainer.step(4, STEP)
    assert bits(trainer) == before
    assert world.asked == [True]  # this process found a finite loss


def test_a_step_asks_the_other_processes_about_every_loss_and_about_the_gradient(tiny_recipe):
    world = TwoProcesses()
    trainer = trainer_in(world, tiny_recipe())
    trainer.step(0, STEP)
    assert world.asked == [True, True, True]


@pytest.mark.parametrize("rank", [0, 1])
def test_only_the_main_process_writes(rank, tiny_recipe, tmp_path):
    resolved = resolve(tiny_recipe())
    run = RunDirectory(tmp_path / "run")
    with run.locked(), open_metrics(tmp_path / "metrics.jsonl", run.check_present) as metrics:
        model = build_start_model(resolved)
        record = record_of(resolved, model, World(), baselines=False, single_task=False, keep=1)
        run.create(record, resolved.recipe, {})
        context = RunContext(run, resolved, metrics, {}, SilentProgress(), lambda: False, TwoProcesses(rank))
        trainer = Trainer(resolved.stages[-1], model)
        stage = StageRun(context, trainer, Position())
        stage.evaluate("epoch1")
        stage.save()
    main = rank == 0
    written = (run.best.is_dir(), (run.kept / "epoch1").is_dir(), run.checkpoints.is_dir())
    assert written == (main, main, main)
    assert bool((tmp_path / "metrics.jsonl").read_text()) is main


def test_every_process_scores_its_share_of_dev(tiny_recipe, tmp_path):
    resolved = resolve(tiny_recipe())
    scored = []

    class Half(TwoProcesses):
        def gather(self, part) -> list:
            scored.append(len(part.values))
            return [part, part]

    run = RunDirectory(tmp_path / "run")
    run.folder.mkdir()
    model = build_start_model(resolved)
    record = record_of(resolved, model, World(), baselines=False, single_task=False, keep=0)
    run.create(record, resolved.recipe, {})
    context = RunContext(run, resolved, None, {}, SilentProgress(), lambda: False, Half(1))
    trainer = Trainer(resolved.stages[-1], model)
    model.eval()
    stage = StageRun(context, trainer, Position())
    scores = stage._score("dev")
    assert scored == [12, 12, 12]
    assert {name: task.rows for name, task in scores.items()} == {"mood": 24, "same": 24, "near": 24}


def test_a_trainer_trains_in_a_single_process_by_default(tiny_recipe):
    make = partial(tiny_recipe, dropout=0.3)
    default, single = trainer_for(make()), trainer_in(World(), make())
    assert default.step(0, STEP) == single.step(0, STEP)
    assert bits(default) == bits(single)
