"""Hard negatives that the encoder finds in the training data before each epoch."""

import itertools

import pytest
import torch
import torch.nn.functional as F

import plait
from plait.errors import PlaitError
from plait.losses.embedding import info_nce
from plait.progress import SilentProgress
from plait.training.mining import MinedNegatives, closest_below_own
from plait.training.train import Stopped, resume
from small_runs import forward, resolve, result_json, trainer_for

MINED = {"name": "info_nce", "positive_above": 0.5, "mine": True}


def mining(recipe: dict, task: str = "near", loss: object = None, **keys) -> dict:
    found = {**recipe["tasks"][task], "loss": ["mse", MINED] if loss is None else loss}
    return {**recipe, "tasks": {task: found}, **keys}


def test_the_closest_text_below_the_own_partner_is_found():
    source = torch.Generator().manual_seed(0)
    first_nD, second_nD = torch.randn(2, 40, 3, generator=source)
    first_n, second_n = torch.randint(30, (2, 40), generator=source).tolist()  # some texts are equal
    excluded = [[j for j in range(40) if second_n[j] in (second_n[i], first_n[i])] for i in range(40)]
    found = closest_below_own(first_nD, second_nD, excluded).tolist()
    cosines = F.normalize(first_nD, dim=-1) @ F.normalize(second_nD, dim=-1).T
    for i in range(40):
        others = [j for j in range(40) if j not in excluded[i]]
        below = [j for j in others if cosines[i, j] < cosines[i, i]]
        expected = max(below, key=lambda j: cosines[i, j]) if below else min(others, key=lambda j: cosines[i, j])
        assert found[i] == expected


def test_a_pair_whose_partner_is_the_least_similar_gets_the_least_similar_of_the_others():
    first_nD = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    second_nD = torch.tensor([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert closest_below_own(first_nD, second_nD, [[0], [1], [2]]).tolist() == [1, 0, 1]


def test_a_known_paraphrase_is_no_negative():
    texts = [["a", "a", "c", "e", "b"], ["b", "c", "d", "f", "g"]]
    positive_n = torch.tensor([True, True, True, False, False])
    rows = MinedNegatives(texts, positive_n)._excluded
    # "a" is "b" and "c"; "c" is "d" and "a"; "e" is not "f"; "b" is "a"
    assert [sorted(own) for own in rows] == [[0, 1], [0, 1], [1, 2], [3], [0, 4]]


def test_the_loss_gets_the_negatives_of_its_rows(tiny_recipe):
    trainer = trainer_for(mining(tiny_recipe()))
    trainer.begin_epoch(SilentProgress(), resumed=False)
    trainer.model.eval()
    batch, passed = forward(trainer, "near", range(8))
    mined_n = trainer.mined["near"].row_n
    _, everything = forward(trainer, "near", range(len(mined_n)))
    torch.testing.assert_close(passed.views_BD["third"], everything.views_BD["second"][mined_n[:8]])
    label_B = torch.from_numpy(batch.labels)
    squared_error = F.mse_loss(passed.outputs_BC[:, 0], label_B)
    expected = squared_error + info_nce(
        passed.views_BD["first"], passed.views_BD["second"], label_B >= 0.5, passed.views_BD["third"]
    )
    torch.testing.assert_close(trainer.objectives["near"](passed, label_B), expected.to(torch.float32))


def test_each_epoch_finds_its_own_negatives(tiny_recipe):
    trainer = trainer_for(mining(tiny_recipe(), lr=0.01))
    found = []
    for epoch in range(2):
        trainer.begin_epoch(SilentProgress(), resumed=False)
        found.append(trainer.mined["near"].row_n.clone())
        for number, planned in enumerate(trainer.plan.epoch_plan(epoch)):
            trainer.step(number, planned)
    assert not torch.equal(*found)


def test_a_run_that_stops_within_an_epoch_resumes_with_the_same_negatives(tiny_recipe, tmp_path):
    recipe = mining(tiny_recipe(), batch_size=4, epochs=2, lr=0.01)
    plait.train(recipe, tmp_path / "whole", baselines=False)
    count = itertools.count(1)
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "broken", baselines=False, stop=lambda: next(count) == 9)
    resume(tmp_path / "broken")
    digests = [result_json(tmp_path / name)["last_weights_sha256"] for name in ("whole", "broken")]
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("task", "loss", "what"),
    [
        (
            "near",
            ["mse", {"name": "contrastive", "positive_above": 0.5, "mine": True}],
            "suitable losses: info_nce",
        ),
        ("near", {"name": "mse", "mine": True}, "mine is for losses on embeddings, and mse is on predictions"),
        ("mood", ["cross_entropy", {"name": "simcse_unsupervised", "mine": True}], "third texts for tasks with two"),
    ],
)
def test_mining_is_for_losses_that_take_a_third_text(tiny_recipe, task, loss, what):
    with pytest.raises(PlaitError) as caught:
        resolve(mining(tiny_recipe(), task, loss))
    assert any(what in mistake for mistake in caught.value.mistakes), caught.value.mistakes
