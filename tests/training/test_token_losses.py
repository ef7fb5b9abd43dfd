"""Losses on tokens in a run: what they get, where their proxies are, what is refused."""

import pytest
import torch
from safetensors.torch import load_file

import plait
from plait.errors import PlaitError
from plait.losses.proxies import ProxyNca, SoftTriple
from plait.training.train import Stopped, resume
from plait.training.trainer import Trainer
from small_runs import forward, resolve, stop_after, trainer_for

SOFT = {"name": "soft_triple", "proxies": 3, "weight": 0.5}
NCA = {"name": "proxy_nca", "weight": 0.5, "lr": 0.02}


def recipe_with(tiny_recipe, task: str, loss: object, *, head: str | None = None, **changes) -> dict:
    recipe = tiny_recipe(**changes)
    keys = {**recipe["tasks"][task], "loss": loss}
    recipe["tasks"] = {task: {**keys, "head": head} if head else keys}
    return recipe


def forward_without_dropout(trainer: Trainer, task: str, rows: tuple[int, ...]):
    trainer.model.eval()
    return forward(trainer, task, rows)


# ---------------------------------------------------------------- what they get


def test_every_token_knows_the_row_of_its_text(tiny_recipe):
    trainer = trainer_for(recipe_with(tiny_recipe, "mood", ["cross_entropy", SOFT]))
    batch, passed = forward_without_dropout(trainer, "mood", (4, 0, 9, 2))
    table = trainer.tokens["mood"]["first"]
    assert torch.bincount(passed.tokens.row_N).tolist() == [len(table.row(row)) for row in (4, 0, 9, 2)]
    for place, ids in enumerate(batch.ids):
        own_ND = passed.tokens.states_ND[passed.tokens.row_N == place]
        packed = trainer.model.states([ids], [len(ids)])[1]  # the text alone
        torch.testing.assert_close(own_ND, packed, atol=1e-5, rtol=0)


def test_the_first_and_last_tokens_are_special(tiny_recipe):
    trainer = trainer_for(recipe_with(tiny_recipe, "mood", ["cross_entropy", SOFT]))
    _, passed = forward_without_dropout(trainer, "mood", (4, 0))
    for row in (0, 1):
        special = passed.tokens.special_N[passed.tokens.row_N == row].tolist()
        assert special == [True] + [False] * (len(special) - 2) + [True]


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize(("choice", "module"), [(SOFT, SoftTriple), (NCA, ProxyNca)])
def test_the_loss_is_computed_on_the_token_states(tiny_recipe, choice, module, special):
    loss = ["cross_entropy", {**choice, "special_tokens": special}]
    trainer = trainer_for(recipe_with(tiny_recipe, "mood", loss))
    batch, passed = forward_without_dropout(trainer, "mood", (4, 0, 9, 2))
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


def test_joined_pairs_give_the_tokens_of_their_single_input(tiny_recipe):
    recipe = recipe_with(tiny_recipe, "same", ["binary_cross_entropy", SOFT, "multiple_negatives"], head="joined")
    trainer = trainer_for(recipe)
    assert trainer.views("same") == ("joined", "first", "second")
    batch, passed = forward_without_dropout(trainer, "same", (1, 2, 3))
    table = trainer.tokens["same"]["joined"]
    assert torch.bincount(passed.tokens.row_N).tolist() == [len(table.row(row)) for row in (1, 2, 3)]
    assert passed.tokens.special_N.sum() == 3 * 3  # [CLS] … [SEP] … [SEP]
    assert trainer.objectives["same"](passed, torch.from_numpy(batch.labels)).isfinite()


def test_roberta_has_its_own_special_tokens(tiny_recipe, tiny_roberta):
    recipe = recipe_with(tiny_recipe, "same", ["binary_cross_entropy", SOFT], head="joined", encoder=str(tiny_roberta))
    _, passed = forward_without_dropout(trainer_for(recipe), "same", (1, 2))
    assert passed.tokens.special_N.sum() == 2 * 4  # <s> … </s></s> … </s>


# ---------------------------------------------------------------- proxies


def test_proxies_are_drawn_from_the_seed(tiny_recipe):
    def proxies(**changes):
        trainer = trainer_for(recipe_with(tiny_recipe, "mood", ["cross_entropy", SOFT], **changes))
        return trainer.objectives["mood"].parts[1].function.proxies_CKD

    assert torch.equal(proxies(), proxies())
    assert not torch.equal(proxies(), proxies(seed=8))
    assert proxies().shape[:2] == (2, 3)


def test_proxies_have_their_own_rate_and_do_not_decay(tiny_recipe):
    recipe = recipe_with(tiny_recipe, "mood", ["cross_entropy", {**SOFT, "lr": 0.07}, NCA], lr=1e-3, weight_decay=0.1)
    trainer = trainer_for(recipe)
    for part, rate in zip(trainer.objectives["mood"].parts[1:], (0.07, 0.02), strict=True):
        (weight,) = part.function.parameters()
        (group,) = [group for group in trainer.optimizer.param_groups if any(weight is x for x in group["params"])]
        assert (group["base_lr"], group["weight_decay"]) == (rate, 0.0)
        before = weight.detach().clone()
        trainer.step(0, [("mood", tuple(range(8)))])
        assert not torch.equal(weight, before)


def test_proxies_are_in_checkpoints_and_not_in_the_model(tiny_recipe, tmp_path):
    recipe = recipe_with(tiny_recipe, "mood", ["cross_entropy", SOFT], epochs=2, checkpoint_every=1)
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "run", baselines=False, stop=stop_after(3))
    checkpoint = max((tmp_path / "run/checkpoints").iterdir())
    name = "losses/mood/1-soft_triple/proxies_CKD"
    assert load_file(checkpoint / "weights.safetensors")[name].shape[:2] == (2, 3)
    assert f"{name}/exp_avg" in load_file(checkpoint / "optimizer.safetensors")
    result = resume(tmp_path / "run")
    for file in result.model.glob("*.safetensors"):
        assert not [key for key in load_file(file) if "proxies" in key]
    assert plait.load(result.model).predict("mood", ["a good film"])


@pytest.mark.parametrize("steps", [2, 4])
def test_a_resumed_run_equals_an_uninterrupted_one(tiny_recipe, tmp_path, steps):
    recipe = recipe_with(tiny_recipe, "mood", ["cross_entropy", SOFT, NCA], epochs=3, checkpoint_every=1, dropout=0.3)
    plait.train(recipe, tmp_path / "whole", baselines=False)
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "resumed", baselines=False, stop=stop_after(steps))
    resume(tmp_path / "resumed")
    assert (tmp_path / "resumed/metrics.jsonl").read_text() == (tmp_path / "whole/metrics.jsonl").read_text()


# ---------------------------------------------------------------- triple_entropy


def test_triple_entropy_is_two_weighted_losses(tiny_recipe):
    loss = {"name": "triple_entropy", "beta": 0.8, "weight": 2.0, "proxies": 5, "special_tokens": False}
    resolved = resolve(recipe_with(tiny_recipe, "mood", loss)).stages[-1]
    cross_entropy, soft_triple = resolved.tasks["mood"].settings.loss
    assert (cross_entropy.name, cross_entropy.weight, cross_entropy.options) == ("cross_entropy", 1.6, {})
    assert (soft_triple.name, soft_triple.weight) == ("soft_triple", pytest.approx(0.4))
    assert soft_triple.options == {
        "proxies": 5, "gamma": 0.1, "lam": 3.3, "delta": 0.3, "tau": 0.0, "lr": 0.01, "special_tokens": False,
    }  # fmt: skip


def test_triple_entropy_has_the_defaults_of_the_paper(tiny_recipe):
    resolved = resolve(recipe_with(tiny_recipe, "mood", "triple_entropy")).stages[-1]
    cross_entropy, soft_triple = resolved.tasks["mood"].settings.loss
    assert (cross_entropy.weight, soft_triple.weight) == (0.9, pytest.approx(0.1))
    assert soft_triple.options["proxies"] == 2000


def test_triple_entropy_treats_zero_and_one_as_classes(tiny_recipe):
    recipe = recipe_with(tiny_recipe, "same", {"name": "triple_entropy", "proxies": 2}, head="joined")
    resolved = resolve(recipe).stages[-1]
    assert resolved.tasks["same"].spec.labels.kind == "classes"


# ---------------------------------------------------------------- invalid combinations


@pytest.mark.parametrize(
    ("task", "loss", "changes", "what"),
    [
        (
            "mood",
            {"name": "triple_entropy", "beta": 1.5},
            {},
            "triple_entropy.beta: expected a number less than 1, found 1.5",
        ),
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
            "soft_triple needs both texts in one input, unlike difference_product; suitable: joined",
        ),
        ("near", ["mse", SOFT], {}, "soft_triple cannot learn from scores"),
        ("mood", SOFT, {"head": "linear"}, "none of these losses trains the head linear; add a loss on predictions"),
        (
            "mood",
            ["cross_entropy", SOFT],
            {"train_encoder": False},
            "soft_triple trains the encoder, but train_encoder is false; remove one of them",
        ),
        (
            "mood",
            ["cross_entropy", SOFT, {"name": "simcse_unsupervised", "cached": True}],
            {},
            "cached: true does not keep the tokens that soft_triple needs; remove one of them",
        ),
        ("mood", ["cross_entropy", {**SOFT, "cached": True}], {}, "cached: true does not keep the tokens"),
        (
            "mood",
            {"name": "cross_entropy", "cached": True},
            {},
            "cached is for losses on embeddings, and cross_",
        ),
        ("near", ["mse", {"name": "info_nce", "positive_above": 0.5, "chunk": 3}], {}, "chunk belongs to cached: true"),
        (
            "near",
            ["mse", {"name": "info_nce", "positive_above": 0.5, "on": "head"}],
            {},
            "on: head needs a head that projects embeddings: dot",
        ),
    ],
)
def test_an_invalid_combination_is_refused(tiny_recipe, task, loss, changes, what):
    with pytest.raises(PlaitError) as caught:
        resolve(recipe_with(tiny_recipe, task, loss, **changes))
    assert any(what in mistake for mistake in caught.value.mistakes), caught.value.mistakes


def test_a_token_loss_alone_trains_the_encoder_without_a_head(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    keys = {key: recipe["tasks"]["mood"][key] for key in ("train", "text", "label")}
    recipe["tasks"]["words"] = {**keys, "loss": {"name": "proxy_nca", "denominator": "all"}}
    result = plait.train(recipe, tmp_path / "run")
    assert "words" not in result.scores and "mood" in result.scores
