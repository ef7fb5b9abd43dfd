"""Several model directories become the directory of an ensemble, or one model with their mean weights."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import plait
from plait.errors import ModelError, PlaitError, RecipeError, RequestError
from plait.evaluation.evaluate import score_task
from plait.model.directory.load import load_model
from plait.model.directory.record import open_directory
from plait.model.ensemble import Ensemble
from plait.model.ensemble_build import build_ensemble, build_soup, find_member
from plait.runs.origins import find_split
from tiny import sentences, write_csv, write_tasks

EXAMPLES = {"mood": sentences(8, 7), "same": [("a dog", "a cat")] * 8, "near": [("a dog", "the dog ran")] * 8}


def recipe_of(folder: Path, encoder: Path, **changes) -> dict:
    return {**write_tasks(folder / "data", encoder), "epochs": 3, **changes}


@pytest.fixture(scope="module")
def runs(tiny_bert, tmp_path_factory) -> Path:
    """Two runs of one recipe with two seeds, each with two kept models."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        recipe = recipe_of(folder, tiny_bert, seed=seed)
        plait.train(recipe, folder / f"run{seed}", baselines=False, keep=2)
    return folder


def trained(folder: Path, encoder: Path, tasks=lambda tasks: None, **changes) -> str:
    """A run with a changed recipe; `tasks` changes its tasks in place."""
    recipe = recipe_of(folder, encoder, epochs=1, **changes)
    tasks(recipe["tasks"])
    return str(plait.train(recipe, folder / "run", baselines=False).run)


def refused(make, sources, out: Path) -> list[str]:
    with pytest.raises(PlaitError) as caught:
        make([str(source) for source in sources], out)
    assert not out.exists() and not list(out.parent.glob(".*.part"))
    return list(caught.value.mistakes)


# Finding the members


def test_a_member_is_a_model_a_run_or_a_kept_model(runs):
    run = runs / "run1"
    kept = sorted((run / "kept").iterdir())
    assert find_member(str(run)) == find_member(f"{run}@best") == run / "best"
    assert find_member(str(run / "best")) == run / "best"
    for folder in kept:
        assert find_member(f"{run}@{folder.name}") == folder == find_member(str(folder))
        step = open_directory(folder).record.provenance.step
        assert open_directory(find_member(f"{run}@step{step}")).record.provenance.step == step


def test_a_folder_may_have_an_at_sign_in_its_name(runs, tmp_path):
    copy = shutil.copytree(runs / "run1/best", tmp_path / "a@epoch1")
    assert find_member(str(copy)) == copy


def test_a_model_that_was_not_kept_is_refused_and_the_others_are_listed(runs):
    with pytest.raises(RequestError) as caught:
        find_member(f"{runs}/run1@epoch99")
    assert f"{runs}/run1@epoch99: the run kept no model 'epoch99'; " in str(caught.value)
    assert "plait train --keep N keeps more" in str(caught.value)
    with pytest.raises(ModelError, match="not a plait model; give model directories, runs, or RUN@epoch3"):
        find_member(str(runs / "gone"))


# The directory of an ensemble


@pytest.fixture(scope="module")
def ensemble(runs) -> Path:
    name = sorted((runs / "run2/kept").iterdir())[0].name
    build_ensemble([str(runs / "run1"), f"{runs}/run2@{name}"], runs / "both")
    return runs / "both"


def test_the_directory_is_self_contained_and_describes_itself(ensemble, runs):
    names = {path.relative_to(ensemble).as_posix() for path in ensemble.rglob("*") if path.is_file()}
    own = {name for name in names if not name.startswith("members/")}
    assert own == {"plait.json", "manifest.json", "README.md"}
    assert (ensemble / "members/1/manifest.json").read_bytes() == (runs / "run1/best/manifest.json").read_bytes()
    about = json.loads((ensemble / "plait.json").read_text())
    assert about["kind"] == "ensemble" and about["members"][0]["name"] == "run1"
    assert str(runs) not in (ensemble / "plait.json").read_text(), "paths of this machine must be left out"
    card = (ensemble / "README.md").read_text()
    assert "Other tools cannot open this directory" in card and "| members/2 | run2@epoch" in card
    from transformers import AutoModel

    with pytest.raises(ValueError, match="Unrecognized model"):
        AutoModel.from_pretrained(ensemble)


def test_the_code_in_its_model_card_runs(ensemble):
    code = (ensemble / "README.md").read_text().split("```python\n")[1].split("```")[0]
    exec(code.replace("path/to/this/directory", str(ensemble)), {})


def test_a_moved_ensemble_loads_and_predicts_the_mean(ensemble, tmp_path):
    moved = shutil.copytree(ensemble, tmp_path / "moved")
    model = plait.load(moved)
    members = [plait.load(moved / f"members/{number}") for number in (1, 2)]
    assert list(model.tasks) == ["mood", "same", "near"] and model.width == 32
    for task, texts in EXAMPLES.items():
        for predicted, *apart in zip(
            model.predict(task, texts), *(member.predict(task, texts) for member in members), strict=True
        ):
            if predicted.probabilities is None:
                assert predicted.score == pytest.approx(np.mean([one.score for one in apart]), abs=1e-9)
            else:
                means = {name: np.mean([one.probabilities[name] for one in apart]) for name in predicted.probabilities}
                assert predicted.probabilities == pytest.approx(means, abs=1e-9)


def test_modified_and_missing_files_are_reported(ensemble, tmp_path):
    broken = shutil.copytree(ensemble, tmp_path / "broken")
    with (broken / "members/2/heads.safetensors").open("ab") as file:
        file.write(b" ")
    with pytest.raises(ModelError, match=r"members/2/heads\.safetensors: modified after the model was saved"):
        plait.load(broken)
    shutil.rmtree(broken / "members/2")
    with pytest.raises(ModelError, match=r"members/2/manifest\.json is missing"):
        plait.load(broken)
    other = shutil.copytree(ensemble, tmp_path / "other")
    shutil.rmtree(other / "members/1")
    shutil.copytree(other / "members/2", other / "members/1")
    with pytest.raises(ModelError, match=r"members/1/manifest\.json: modified"):
        plait.load(other)


def test_each_ensemble_has_its_own_identity(ensemble, runs, tmp_path):
    build_ensemble([str(runs / "run1"), str(runs / "run2")], tmp_path / "again")
    identities = {open_directory(folder).identity for folder in (ensemble, tmp_path / "again", runs / "run1")}
    assert len(identities) == 3


def test_an_ensemble_is_evaluated_like_a_model_and_compared_with_its_members(ensemble, runs):
    loaded = load_model(ensemble, device="cpu")
    model, record = loaded.model, loaded.record
    assert isinstance(model, Ensemble)
    examples = find_split(record, ensemble, "dev", runs / "data")
    assert {task: len(part) for task, part in examples.items()} == {"mood": 24, "same": 24, "near": 24}
    one, two = (score_task(member, "near", examples["near"]).value for member in model.members)
    baselines = record.provenance.baselines["dev"]
    assert baselines["mean of members"]["near"] == pytest.approx((one + two) / 2, abs=1e-6)
    assert baselines["best member"]["near"] in (pytest.approx(one, abs=1e-6), pytest.approx(two, abs=1e-6))
    assert -1 <= score_task(model, "near", examples["near"]).value <= 1


def test_dev_rows_drawn_with_different_seeds_are_not_shared(tiny_bert, tmp_path):
    """The dev rows of one member are training rows of the other."""
    sources = []
    for seed in (1, 2):
        recipe = recipe_of(tmp_path, tiny_bert, epochs=1, seed=seed)
        recipe["tasks"]["mood"]["dev"] = 0.25
        sources.append(str(plait.train(recipe, tmp_path / f"run{seed}", baselines=False).run))
    build_ensemble(sources, tmp_path / "both")
    provenance = open_directory(tmp_path / "both").record.provenance
    assert provenance.data["mood"] == {} and "dev" in provenance.data["near"]
    assert "mood" not in provenance.baselines["dev"]["best member"]


def test_dev_rows_that_were_derived_differently_are_not_shared(tiny_bert, tmp_path):
    labels = ["entailment", "neutral", "contradiction"]
    cells = [(f"{a} {row // 3}", a, labels[row % 3]) for row, a in enumerate(sentences(30, 3))]
    cells = [(cells[3 * (row // 3)][0], text, label) for row, (_, text, label) in enumerate(cells)]
    write_csv(tmp_path / "nli.csv", ["premise", "hypothesis", "label"], cells)
    file = str(tmp_path / "nli.csv")
    task = {"train": file, "dev": file, "text": ["premise", "hypothesis"], "label": "label"}
    sources = []
    for entailed in ("entailment", "neutral"):
        derived = {**task, "derive": {"name": "triplets", "entailed": entailed}}
        recipe = {"encoder": str(tiny_bert), "tasks": {"nli": derived}, "epochs": 1}
        sources.append(str(plait.train(recipe, tmp_path / entailed, baselines=False).run))
    build_ensemble(sources, tmp_path / "both")
    assert open_directory(tmp_path / "both").record.provenance.data == {"nli": {}}


def test_an_ensemble_without_common_dev_data_asks_for_some(tiny_bert, tmp_path):
    sources = []
    for seed in (1, 2):
        recipe = recipe_of(tmp_path, tiny_bert, epochs=1, seed=seed)
        recipe["tasks"] = {"mood": {**recipe["tasks"]["mood"], "dev": 0.25}}
        sources.append(str(plait.train(recipe, tmp_path / f"run{seed}", baselines=False).run))
    build_ensemble(sources, tmp_path / "both")
    record = open_directory(tmp_path / "both").record
    assert record.provenance.baselines == {}
    with pytest.raises(RequestError, match="its members do not share their dev data; give labelled data with `on`"):
        find_split(record, tmp_path / "both", "dev", tmp_path / "data")


def test_members_may_have_different_encoders_and_heads(runs, tiny_roberta, tmp_path):
    def heads(tasks: dict) -> None:
        tasks["near"]["head"] = "concat"

    other = trained(tmp_path, tiny_roberta, heads)
    build_ensemble([str(runs / "run1"), other], tmp_path / "both")
    assert len(plait.load(tmp_path / "both").predict("near", EXAMPLES["near"])) == 8


def test_an_ensemble_cannot_be_trained(ensemble, tiny_recipe, tmp_path):
    with pytest.raises(RecipeError, match=r"is an ensemble; start from one of its members, such as .*members/1"):
        plait.train(tiny_recipe(encoder=str(ensemble)), tmp_path / "run")


# Models that cannot be combined


def test_differences_between_tasks_are_listed_all_at_once(runs, tiny_bert, tmp_path):
    def change(tasks: dict) -> None:
        del tasks["same"]
        tasks["near"]["label"]["range"] = [0, 10]
        tasks["mood"]["label"] = {"column": "mood", "classes": {"high": "glad", "low": "sad"}}

    first, other = str(runs / "run1"), trained(tmp_path, tiny_bert, change)
    for make in (build_ensemble, build_soup):
        assert refused(make, [first, other], tmp_path / "both") == [
            f"{other}: has no task 'same', {first} has one",
            f"{other}: the labels of 'mood' are classes (high: glad, low: sad); in {first} classes (high, low)",
            f"{other}: the labels of 'near' are score (0 to 10); in {first} score (0 to 5)",
        ]


def test_anything_but_two_different_models_is_refused(runs, ensemble, tiny_bert, tmp_path):
    first = str(runs / "run1")
    assert refused(build_ensemble, [first, tiny_bert, ensemble, first, runs / "run1/best"], tmp_path / "x") == [
        f"{tiny_bert}: not a plait model; give model directories, runs, or RUN@epoch3",
        f"{ensemble}: already an ensemble; give its members, which are in {ensemble}/members",
        f"{first}: the same model as {first}; give each model once",
        f"{first}/best: the same model as {first}; give each model once",
    ]
    assert refused(build_ensemble, [first], tmp_path / "x") == ["give at least two models"]
    (tmp_path / "full").mkdir()
    with pytest.raises(RequestError, match="already exists; choose another name"):
        build_ensemble([first, str(runs / "run2")], tmp_path / "full")


def test_a_damaged_member_leaves_nothing_behind(runs, tmp_path):
    broken = shutil.copytree(runs / "run2/best", tmp_path / "broken")
    with (broken / "model.safetensors").open("ab") as file:
        file.write(b" ")
    for make in (build_ensemble, build_soup):
        assert refused(make, [runs / "run1", broken], tmp_path / "x") == [
            f"{broken}/model.safetensors: modified after the model was saved; copy the whole model directory again"
        ]


# Soups


def test_a_soup_is_an_ordinary_model_with_the_mean_weights(runs, tmp_path):
    sources = [str(runs / "run1"), str(runs / "run2")]
    build_soup(sources, tmp_path / "soup")
    for name in ("model.safetensors", "heads.safetensors"):
        parts = [load_file(Path(source) / "best" / name) for source in sources]
        for key, tensor in load_file(tmp_path / "soup" / name).items():
            expected = (parts[0][key].double() + parts[1][key].double()) / 2
            assert torch.equal(tensor, expected.float()), key
    from transformers import AutoModel

    AutoModel.from_pretrained(tmp_path / "soup")
    model = plait.load(tmp_path / "soup")
    assert model.width == 16 and [len(model.predict(task, texts)) for task, texts in EXAMPLES.items()] == [8, 8, 8]
    card = (tmp_path / "soup/README.md").read_text()
    assert "Its weights are the mean of 2 models: `run1`, `run2`." in card
    record = open_directory(tmp_path / "soup").record
    assert set(find_split(record, tmp_path / "soup", "dev", runs / "data")) == {"mood", "same", "near"}
    assert set(record.provenance.baselines["dev"]) == {"mean of members", "best member"}


def test_a_soup_of_kept_models_is_their_mean_and_not_one_of_them(runs, tmp_path):
    kept = sorted((runs / "run1/kept").iterdir())
    build_soup([f"{runs}/run1@{folder.name}" for folder in kept], tmp_path / "soup")
    vectors = [plait.load(folder).embed(["a dog ran"]) for folder in (*kept, tmp_path / "soup")]
    assert not np.array_equal(vectors[2], vectors[0]) and not np.array_equal(vectors[2], vectors[1])


def test_training_can_start_from_a_soup(runs, tiny_recipe, tmp_path):
    build_soup([str(runs / "run1"), str(runs / "run2")], tmp_path / "soup")
    result = plait.train(tiny_recipe(encoder=str(tmp_path / "soup"), epochs=1), tmp_path / "run", baselines=False)
    assert set(result.scores) == {"mood", "same", "near"}


def test_a_soup_of_different_models_is_refused_with_every_difference(runs, tiny_bert, tmp_path):
    def change(tasks: dict) -> None:
        tasks["near"]["head"] = {"name": "cosine", "scale": 4}
        tasks["same"]["head"] = "concat"

    first, other = str(runs / "run1"), trained(tmp_path, tiny_bert, change, pooling="cls", normalise=True)
    assert refused(build_soup, [first, other], tmp_path / "soup") == [
        f"{other}: the pooling is cls; in {first} it is mean",
        f"{other}: `normalise` is True; in {first} it is False",
        f"{other}: the head of 'same' is concat; in {first} it is difference_product",
        f"{other}: the head of 'near' is {{name: cosine, scale: 4.0}}; in {first} it is cosine",
        "--soup needs models of the same shape; drop --soup to build an ensemble",
    ]


def test_a_soup_of_two_families_is_refused(runs, tiny_roberta, tmp_path):
    first, other = str(runs / "run1"), trained(tmp_path, tiny_roberta)
    mistakes = refused(build_soup, [first, other], tmp_path / "soup")
    assert f"{other}: the encoder's model type is roberta; in {first} it is bert" in mistakes
    assert f"{other}: its tokenizer differs from that of {first}" in mistakes
