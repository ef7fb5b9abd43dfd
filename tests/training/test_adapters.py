"""`adapt: lora`, from the recipe to the saved model.

N packed tokens, D width.
"""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

import plait
from plait.encoder.adapters import ADAPTERS, lora, remove_adapters
from plait.encoder.config import read_config
from plait.encoder.cpu.linear import CpuLinear
from plait.encoder.cpu.prepared import Prepared
from plait.encoder.packing import pack
from plait.encoder.weights import encoder_from, load_encoder, to_checkpoint
from plait.errors import RecipeError
from plait.training.train import Stopped, resume
from small_runs import Recorder, resolve, result_json, stop_after, trainer_for
from tiny import sentences

LENGTHS = (3, 9, 9, 17)
KINDS = ["bert", "mpnet", "modernbert"]


def make_encoder(folder, *, random: bool = True, **options):
    """An encoder with adapters, and what it was before; `random` adapters differ from 0, as after training."""
    plain, adapted = (encoder_from(folder, read_config(folder), pooler=False).eval() for _ in range(2))
    generator = torch.Generator().manual_seed(0)
    lora(adapted, generator, **options)
    if random:
        for name, parameter in adapted.named_parameters():
            if name.endswith("adapter.up.weight"):
                torch.nn.init.normal_(parameter, std=0.2, generator=generator)
    return plain, adapted


def some_texts(encoder):
    generator = np.random.default_rng(0)
    ids = [generator.integers(5, encoder.config.vocab_size, length) for length in LENGTHS]
    return pack(ids, LENGTHS, first_position=encoder.config.first_position, device=torch.device("cpu"))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_merged_weights_give_the_states_of_the_adapted_encoder(kind, request):
    folder = request.getfixturevalue(f"tiny_{kind}")
    plain, adapted = (encoder.double() for encoder in make_encoder(folder, rank=3))
    packed = some_texts(adapted)
    states_ND = adapted(packed)
    assert (states_ND - plain(packed)).abs().max() > 0.1
    for name, module in plain.named_modules():
        if isinstance(module, CpuLinear):
            module.weight.copy_(adapted.get_submodule(name).merged_weight())
    torch.testing.assert_close(plain(packed), states_ND, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_saved_and_prepared_encoders_are_merged(kind, request):
    folder = request.getfixturevalue(f"tiny_{kind}")
    _, adapted = make_encoder(folder, rank=3)
    packed = some_texts(adapted)
    saved = load_encoder(to_checkpoint(adapted), read_config(folder), pooler=False, where=folder).eval()
    assert saved.state_dict().keys() == {name for name in adapted.state_dict() if ".adapter." not in name}
    for encode in (saved, Prepared(adapted)):  # float32, added in another order: 1.4e-5 was observed
        torch.testing.assert_close(encode(packed), adapted(packed), rtol=0, atol=5e-5)


@torch.no_grad()
def test_change_is_alpha_by_rank_times_the_product(tiny_bert):
    plain, adapted = make_encoder(tiny_bert, rank=2, alpha=6.0, targets=("mix",))
    before, after = to_checkpoint(plain), to_checkpoint(adapted)
    changed = [name for name in before if not torch.equal(before[name], after[name])]
    assert changed == [f"encoder.layer.{number}.attention.output.dense.weight" for number in range(2)]
    adapter = adapted.layers[0].mix.adapter
    assert adapter.down.weight.shape == (2, 16) and adapter.up.weight.shape == (16, 2)
    expected = before[changed[0]].double() + 3.0 * adapter.up.weight.double() @ adapter.down.weight.double()
    torch.testing.assert_close(after[changed[0]].double(), expected, rtol=0, atol=1e-6)


@torch.no_grad()
def test_encoder_starts_as_it_is_and_adapters_can_be_removed(tiny_bert):
    plain, adapted = make_encoder(tiny_bert, random=False)
    packed = some_texts(plain)
    assert torch.equal(adapted(packed), plain(packed))
    remove_adapters(adapted)
    assert adapted.state_dict().keys() == plain.state_dict().keys()


@pytest.mark.parametrize("kind", KINDS)
def test_trained_model_is_an_ordinary_one_with_changes_of_that_rank(kind, request, tiny_recipe, tmp_path):
    folder = request.getfixturevalue(f"tiny_{kind}")
    adapt = {"name": "lora", "rank": 2, "targets": ["qkv", "narrow"]}
    notes = Recorder()
    recipe = tiny_recipe(encoder=str(folder), adapt=adapt, lr=1e-2, epochs=1)
    result = plait.train(recipe, tmp_path / "run", baselines=False, progress=notes)
    before, after = load_file(folder / "model.safetensors"), load_file(result.model / "model.safetensors")
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    config = read_config(folder)
    assert changed == {
        f"{config.architecture.layers}.{number}.{source}.weight"
        for number in range(config.layers)
        for target in ("qkv", "narrow")
        for source in config.architecture.layer[target]
    }
    for name in changed:
        values = torch.linalg.svdvals((after[name] - before[name]).double())
        assert values[2:].max() < 1e-5 < values[0], name  # the rest is rounding to float32
    texts = sentences(20, seed=4)
    ours, theirs = plait.load(result.model).embed(texts), SentenceTransformer(str(result.model)).encode(texts)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    weights = config.layers * 2 * ((16 + 48) + (32 + 16))
    assert f"lora trains {weights:,} weights in place of the encoder's {encoder_size(before):,}" in notes.notes


def encoder_size(tensors) -> int:
    return sum(tensor.numel() for tensor in tensors.values())


def test_only_adapters_heads_and_token_scores_are_trained(tiny_recipe):
    trainer = trainer_for(tiny_recipe(adapt="lora", pooling="weighted", shared_layer="tanh", lr=1e-3, head_lr=1e-2))
    trained = {name for name, parameter in trainer.model.named_parameters() if parameter.requires_grad}
    assert {name for name in trained if ".adapter." in name} == {
        f"encoder.layers.{number}.{target}.adapter.{side}.weight"
        for number in range(2)
        for target in ("qkv", "mix", "widen", "narrow")
        for side in ("down", "up")
    }
    others = {name for name in trained if ".adapter." not in name}
    assert "encoder.token_scores" in others
    assert all(name.startswith(("heads.", "shared_layer.")) for name in others - {"encoder.token_scores"})
    rates = {group["lr"]: {id(weight) for weight in group["params"]} for group in trainer.optimizer.param_groups}
    adapter = trainer.model.encoder.layers[0].qkv.adapter
    assert id(adapter.up.weight) in rates[1e-3] and id(trainer.model.encoder.token_scores) not in rates[1e-3]


@pytest.mark.parametrize("combine", ["sum", "surgery"])
def test_resumed_run_ends_with_the_same_bits(combine, tiny_recipe, tmp_path):
    recipe = tiny_recipe(adapt="lora", schedule={"name": "together", "combine": combine}, lr=1e-2)
    plait.train(recipe, tmp_path / "whole", baselines=False)
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "stopped", baselines=False, stop=stop_after(4))
    resume(tmp_path / "stopped")
    whole, stopped = (result_json(tmp_path / name) for name in ("whole", "stopped"))
    assert whole["last_weights_sha256"] == stopped["last_weights_sha256"] and whole["scores"] == stopped["scores"]
    files = [(tmp_path / name / "best/model.safetensors").read_bytes() for name in ("whole", "stopped")]
    assert files[0] == files[1]


def test_stages_start_from_the_merged_weights(tiny_bert, tiny_recipe, tmp_path):
    stages = [{"tasks": ["near"], "adapt": {"name": "lora", "targets": ["mix"]}, "epochs": 1}, {"epochs": 1}]
    recipe = tiny_recipe(stages=stages, lr=1e-2, checkpoint_every=1)
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "run", baselines=False, stop=stop_after(4))  # the first step of the second stage
    checkpoint = max((tmp_path / "run/checkpoints").glob("step-*"))  # the newest
    weights = load_file(checkpoint / "weights.safetensors")
    assert not any(".adapter." in name for name in weights)
    assert json.loads((checkpoint / "position.json").read_text())["stage"] == 1
    resume(tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adapt": "lorra"}, "adapt: unknown name 'lorra'; did you mean 'lora'?"),
        ({"adapt": {"name": "lora", "rank": 0}}, "adapt.lora.rank: expected a number greater than 0, found 0"),
        ({"adapt": {"name": "lora", "targets": []}}, "adapt.lora.targets: expected at least one, found an empty list"),
        ({"adapt": {"name": "lora", "targets": ["query"]}}, "adapt.lora.targets: expected 'qkv', 'mix', 'widen' or"),
        ({"adapt": "lora", "train_encoder": False}, "adapt: is about training the encoder; drop it, or drop train_en"),
    ],
)
def test_invalid_settings_are_refused(changes, message, tiny_recipe):
    with pytest.raises(RecipeError) as caught:
        resolve(tiny_recipe(**changes))
    assert message in str(caught.value)


def test_every_adapter_is_written_to_the_recipe_with_its_options(tiny_recipe):
    for name in ADAPTERS:
        recipe = resolve(tiny_recipe(adapt=name)).recipe
        assert recipe.adapt.options == {"rank": 8, "alpha": 16.0, "targets": ("qkv", "mix", "widen", "narrow")}
        assert resolve(json.loads(recipe.model_dump_json())).recipe == recipe
