"""Losses of tokens inside a run: what they see, where their proxies live, what is refused."""

import pytest
import torch
from safetensors.torch import load_file

import plait
from plait.errors import PlaitError
from plait.losses.proxies import ProxyNca, SoftTriple
from plait.recipe.read import recipe_from
from plait.recipe.tree import Tree
from plait.training.backward import pass_on
from plait.training.loop import Stopped, resume
from plait.training.settle import settle, settle_recipe
from plait.training.tables import TABLES
from plait.training.trainer import Trainer

SOFT = {"name": "soft_triple", "proxies": 3, "weight": 0.5}
NCA = {"name": "proxy_nca", "weight": 0.5, "lr": 0.02}


def recipe_with(tiny_recipe, task: str, loss: object, *, head: str | None = None, **changes) -> dict:
    recipe = tiny_recipe(**changes)
    keys = {**recipe["tasks"][task], "loss": loss}
    recipe["tasks"] = {task: {**keys, "head": head} if head else keys}
    return recipe


def trainer_of(recipe: dict) -> Trainer:
    return Trainer(settle_recipe(recipe_from(Tree(recipe), TABLES)))


def rows_and_states(trainer: Trainer, task: str, rows: tuple[int, ...]):
    (batch,) = trainer.batches([(task, rows)])
    trainer.model.eval()
    return batch, pass_on(trainer.model, trainer.objectives[task], batch, trainer.encode(batch))


# What they see


def test_every_token_comes_with_the_row_of_its_text(tiny_recipe):
    trainer = trainer_of(recipe_with(tiny_recipe, "mood", ["cross_entropy", SOFT]))
    batch, passed = rows_and_states(trainer, "mood", (4, 0, 9, 2))
    table = trainer.tokens["mood"]["first"]
    assert torch.bincount(passed.tokens.row_N).tolist() == [len(table.row(row)) for row in (4, 0, 9, 2)]
    for place, ids in enumerate(batch.ids):
        own_ND = passed.tokens.states_ND[passed.tokens.row_N == place]
        packed = trainer.model.states([ids], [len(ids)])[1]  # the text alone
        torch.testing.assert_close(own_ND, packed, atol=1e-5, rtol=0)


def test_special_tokens_are_the_first_and_the_last(tiny_recipe):
    trainer = trainer_of(recipe_with(tiny_recipe, "mood", ["cross_entropy", SOFT]))
    _, passed = rows_and_states(trainer, "mood", (4, 0))
    for row in (0, 1):
        special = passed.tokens.special_N[passed.tokens.row_N == row].tolist()
        assert special == [True] + [False] * (len(special) - 2) + [True]


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize(("choice", "module"), [(SOFT, SoftTriple), (NCA, ProxyNca)])
def test_the_loss_is_the_modules_on_the_states_of_the_tokens(tiny_recipe, choice, module, special):
    loss = ["cross_entropy", {**choice, "special_tokens": special}]
    trainer = trainer_of(recipe_with(tiny_recipe, "mood", loss))
    batch, passed = rows_and_states(trainer, "mood", (4, 0, 9, 2))
    objective = trainer.objectives["mood"]
    label_B = torch.from_numpy(batch.labels)
    own = objective.parts[1].function
    assert isinstance(own, module)
    chosen_N = torch.ones_like(passed.tokens.special_N) if special else ~passed.tokens.special_N
    expected = torch.nn.functional.cross_entropy(passed.outputs_BC, label_B) + 0.5 * own(
        passed.tokens.states_ND[chosen_N], label_B[passed.tokens.row_N[chosen_N]]
    )
    torch.testing.assert_close(objective(passed, label_B), expected)
    assert chosen_N.sum() == sum(map(len, batch.ids)) - (0 if special else 2 * len(batch.ids))


def test_joined_pairs_give_the_tokens_of_their_one_input(tiny_recipe):
    recipe = recipe_with(tiny_recipe, "same", ["binary_cross_entropy", SOFT, "multiple_negatives"], head="joined")
    trainer = trainer_of(recipe)
    assert trainer.views("same") == ("joined", "first", "second")
    batch, passed = rows_and_states(trainer, "same", (1, 2, 3))
    table = trainer.tokens["same"]["joined"]
    assert torch.bincount(passed.tokens.row_N).tolist() == [len(table.row(row)) for row in (1, 2, 3)]
    assert passed.tokens.special_N.sum() == 3 * 3  # [CLS] … [SEP] … [SEP]
    assert trainer.objectives["same"](passed, torch.from_numpy(batch.labels)).isfinite()


def test_roberta_has_its_own_special_tokens(tiny_recipe, tiny_roberta):
    recipe = recipe_with(tiny_recipe, "same", ["binary_cross_entropy", SOFT], head="joined", encoder=str(tiny_roberta))
    _, passed = rows_and_states(trainer_of(recipe), "same", (1, 2))
    assert passed.tokens.special_N.sum() == 2 * 4  # <s> … </s></s> … </s>


# Where the proxies live


def test_proxies_are_drawn_from_the_seed(tiny_recipe):
    def proxies(**changes):
        trainer = trainer_of(recipe_with(tiny_recipe, "mood", ["cross_entropy", SOFT], **changes))
        return trainer.objectives["mood"].parts[1].function.proxies_CKD

    assert torch.equal(proxies(), proxies())
    assert not torch.equal(proxies(), proxies(seed=8))
    assert proxies().shape[:2] == (2, 3)


def test_proxies_learn_at_their_own_rate_and_do_not_decay(tiny_recipe):
    recipe = recipe_with(tiny_recipe, "mood", ["cross_entropy", {**SOFT, "lr": 0.07}, NCA], lr=1e-3, weight_decay=0.1)
    trainer = trainer_of(recipe)
    for part, rate in zip(trainer.objectives["mood"].parts[1:], (0.07, 0.02), strict=True):
        (weight,) = part.function.parameters()
        (group,) = [group for group in trainer.optimizer.param_groups if any(weight is x for x in group["params"])]
        assert (group["base_lr"], group["weight_decay"]) == (rate, 0.0)
        before = weight.detach().clone()
        trainer.step(0, [("mood", tuple(range(8)))])
        assert not torch.equal(weight, before)


def test_proxies_are_in_checkpoints_and_not_in_the_model(tiny_recipe, tmp_path):
    recipe = recipe_with(tiny_recipe, "mood", ["cross_entropy", SOFT], epochs=2, checkpoint_every=1)
    calls = iter([False, False, True])
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "run", baselines=False, stop=lambda: next(calls))
    (checkpoint,) = (tmp_path / "run/checkpoints").iterdir()
    name = "losses/mood/1-soft_triple/proxies_CKD"
    assert load_file(checkpoint / "weights.safetensors")[name].shape[:2] == (2, 3)
    assert f"{name}/exp_avg" in load_file(checkpoint / "optimizer.safetensors")
    result = resume(tmp_path / "run")
    for file in result.model.glob("*.safetensors"):
        assert not [key for key in load_file(file) if "proxies" in key]
    assert plait.load(result.model).predict("mood", ["a good film"])


@pytest.mark.parametrize("stops", [1, 3])
def test_a_resumed_run_has_the_bits_of_an_unbroken_one(tiny_recipe, tmp_path, stops):
    recipe = recipe_with(tiny_recipe, "mood", ["cross_entropy", SOFT, NCA], epochs=3, checkpoint_every=1, dropout=0.3)
    plait.train(recipe, tmp_path / "whole", baselines=False)
    calls = iter([False] * stops + [True])
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "broken", baselines=False, stop=lambda: next(calls))
    resume(tmp_path / "broken")
    assert (tmp_path / "broken/metrics.jsonl").read_text() == (tmp_path / "whole/metrics.jsonl").read_text()


def test_a_slash_in_the_name_of_a_task_does_not_hinder_resuming(tiny_recipe, tmp_path):
    recipe = recipe_with(tiny_recipe, "mood", ["cross_entropy", SOFT], checkpoint_every=1)
    recipe["tasks"] = {"mood/film": recipe["tasks"]["mood"]}
    plait.train(recipe, tmp_path / "whole", baselines=False)
    calls = iter([False, True])
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "broken", baselines=False, stop=lambda: next(calls))
    resume(tmp_path / "broken")
    assert (tmp_path / "broken/metrics.jsonl").read_text() == (tmp_path / "whole/metrics.jsonl").read_text()


# The shorthand


def test_triple_entropy_is_two_weighted_losses(tiny_recipe):
    loss = {"name": "triple_entropy", "beta": 0.8, "weight": 2.0, "proxies": 5, "special_tokens": False}
    settled = settle_recipe(recipe_from(Tree(recipe_with(tiny_recipe, "mood", loss)), TABLES))
    cross_entropy, soft_triple = settled.tasks["mood"].settings.loss
    assert (cross_entropy.name, cross_entropy.weight, cross_entropy.options) == ("cross_entropy", 1.6, {})
    assert (soft_triple.name, soft_triple.weight) == ("soft_triple", pytest.approx(0.4))
    assert soft_triple.options == {
        "proxies": 5, "gamma": 0.1, "lam": 3.3, "delta": 0.3, "tau": 0.0, "lr": 0.01, "special_tokens": False,
    }  # fmt: skip


def test_triple_entropy_is_the_papers_unless_told(tiny_recipe):
    settled = settle_recipe(recipe_from(Tree(recipe_with(tiny_recipe, "mood", "triple_entropy")), TABLES))
    cross_entropy, soft_triple = settled.tasks["mood"].settings.loss
    assert (cross_entropy.weight, soft_triple.weight) == (0.9, pytest.approx(0.1))
    assert soft_triple.options["proxies"] == 2000


def test_zero_and_one_are_classes_to_triple_entropy(tiny_recipe):
    recipe = recipe_with(tiny_recipe, "same", {"name": "triple_entropy", "proxies": 2}, head="joined")
    settled = settle_recipe(recipe_from(Tree(recipe), TABLES))
    assert settled.tasks["same"].spec.labels.kind == "classes"


# What is refused


@pytest.mark.parametrize(
    ("task", "loss", "changes", "what"),
    [
        ("mood", {"name": "triple_entropy", "beta": 1.5}, {}, "triple_entropy.beta: expected less than 1, found 1.5"),
        (
            "mood",
            {"name": "triple_entropy", "gama": 1},
            {},
            "triple_entropy: unknown key 'gama'; did you mean 'gamma'?",
        ),
        ("mood", {"name": "triple_entropy", "btea": 1}, {}, "triple_entropy: unknown key 'btea'; did you mean 'beta'?"),
        (
            "same",
            ["binary_cross_entropy", SOFT],
            {},
            "soft_triple looks at one input of both texts, difference_product reads others; fitting: joined",
        ),
        ("near", ["mse", SOFT], {}, "soft_triple cannot learn from score labels"),
        ("mood", SOFT, {"head": "linear"}, "none of these losses trains the head linear; add one of predictions"),
        (
            "mood",
            ["cross_entropy", SOFT],
            {"train_encoder": False},
            "soft_triple teaches the encoder, and train_encoder: false keeps it as it is; drop one",
        ),
        (
            "mood",
            ["cross_entropy", SOFT, {"name": "simcse_unsupervised", "cached": True}],
            {},
            "cached: true keeps no tokens, which soft_triple looks at; drop one",
        ),
        ("mood", ["cross_entropy", {**SOFT, "cached": True}], {}, "cached: true keeps no tokens"),
        ("mood", {"name": "cross_entropy", "cached": True}, {}, "cached is for losses of embeddings"),
        ("near", ["mse", {"name": "info_nce", "positive_above": 0.5, "chunk": 3}], {}, "chunk belongs to cached: true"),
        (
            "near",
            ["mse", {"name": "info_nce", "positive_above": 0.5, "on": "head"}],
            {},
            "on: head needs a head that projects embeddings: dot",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(tiny_recipe, task, loss, changes, what):
    with pytest.raises(PlaitError) as caught:
        settle(recipe_from(Tree(recipe_with(tiny_recipe, task, loss, **changes)), TABLES), 40)
    assert any(what in mistake for mistake in caught.value.mistakes), caught.value.mistakes


def test_a_token_loss_alone_trains_the_encoder_without_a_head(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    keys = {key: recipe["tasks"]["mood"][key] for key in ("train", "text", "label")}
    recipe["tasks"]["words"] = {**keys, "loss": {"name": "proxy_nca", "denominator": "all"}}
    result = plait.train(recipe, tmp_path / "run")
    assert "words" not in result.scores and "mood" in result.scores
