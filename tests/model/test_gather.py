"""Several model directories become the directory of an ensemble, or one model of their mean weights."""

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
from plait.evaluation.find import find_split
from plait.model.about import read_about
from plait.model.ensemble import Ensemble
from plait.model.gather import find_member, make_ensemble, make_soup
from plait.model.load import load_model, model_identity
from tiny import sentences, write_csv, write_tasks

EXAMPLES = {"mood": sentences(8, 7), "same": [("a dog", "a cat")] * 8, "near": [("a dog", "the dog ran")] * 8}


def recipe_of(folder: Path, encoder: Path, **changes) -> dict:
    return {**write_tasks(folder / "data", encoder), "epochs": 3, **changes}


@pytest.fixture(scope="module")
def runs(tiny_bert, tmp_path_factory) -> Path:
    """Two runs of one recipe by two seeds, each with two kept models."""
    folder = tmp_path_factory.mktemp("gather")
    for seed in (1, 2):
        recipe = recipe_of(folder, tiny_bert, seed=seed)
        plait.train(recipe, folder / f"run{seed}", baselines=False, keep=2)
    return folder


def trained(folder: Path, encoder: Path, tasks=lambda tasks: None, **changes) -> str:
    """A run whose recipe differs in something."""
    recipe = recipe_of(folder, encoder, epochs=1, **changes)
    tasks(recipe["tasks"])
    return str(plait.train(recipe, folder / "run", baselines=False).run)


def refused(make, sources, out: Path) -> list[str]:
    with pytest.raises(PlaitError) as caught:
        make([str(source) for source in sources], out)
    assert not out.exists() and not list(out.parent.glob(".*.part"))
    return list(caught.value.mistakes)


# Which models are meant


def test_a_member_is_a_model_a_run_or_one_that_a_run_kept(runs):
    run = runs / "run1"
    kept = sorted((run / "kept").iterdir())
    assert find_member(str(run)) == find_member(f"{run}@best") == run / "best"
    assert find_member(str(run / "best")) == run / "best"
    for folder in kept:
        assert find_member(f"{run}@{folder.name}") == folder == find_member(str(folder))
        step = read_about(folder)["step"]
        assert read_about(find_member(f"{run}@step{step}"))["step"] == step


def test_a_folder_with_an_at_sign_is_itself(runs, tmp_path):
    copy = shutil.copytree(runs / "run1/best", tmp_path / "a@epoch1")
    assert find_member(str(copy)) == copy


def test_a_model_that_was_not_kept_is_refused_with_those_that_were(runs):
    with pytest.raises(RequestError) as caught:
        find_member(f"{runs}/run1@epoch99")
    assert f"{runs}/run1@epoch99: the run has kept no 'epoch99'; " in str(caught.value)
    assert "plait train --keep N keeps more" in str(caught.value)
    with pytest.raises(ModelError, match="is no plait model; give model directories, runs, or RUN@epoch3"):
        find_member(str(runs / "gone"))


# The directory of an ensemble


@pytest.fixture(scope="module")
def ensemble(runs) -> Path:
    name = sorted((runs / "run2/kept").iterdir())[0].name
    make_ensemble([str(runs / "run1"), f"{runs}/run2@{name}"], runs / "both")
    return runs / "both"


def test_the_directory_stands_alone_and_says_what_it_is(ensemble, runs):
    names = {path.relative_to(ensemble).as_posix() for path in ensemble.rglob("*") if path.is_file()}
    own = {name for name in names if not name.startswith("members/")}
    assert own == {"plait.json", "manifest.json", "README.md"}
    assert (ensemble / "members/1/manifest.json").read_bytes() == (runs / "run1/best/manifest.json").read_bytes()
    about = json.loads((ensemble / "plait.json").read_text())
    assert about["kind"] == "ensemble" and about["members"][0]["name"] == "run1"
    assert str(runs) not in (ensemble / "plait.json").read_text(), "the folders of this machine are left out"
    card = (ensemble / "README.md").read_text()
    assert "Other tools cannot open this directory" in card and "| members/2 | run2@epoch" in card
    from transformers import AutoModel

    with pytest.raises(ValueError, match="Unrecognized model"):
        AutoModel.from_pretrained(ensemble)


def test_the_code_of_its_card_runs(ensemble):
    code = (ensemble / "README.md").read_text().split("```python\n")[1].split("```")[0]
    exec(code.replace("path/to/this/directory", str(ensemble)), {})


def test_it_loads_and_predicts_the_mean_wherever_it_is(ensemble, tmp_path):
    moved = shutil.copytree(ensemble, tmp_path / "moved")
    model = plait.load(moved)
    members = [plait.load(moved / f"members/{number}") for number in (1, 2)]
    assert list(model.tasks) == ["mood", "same", "near"] and model.width == 32
    for task, texts in EXAMPLES.items():
        means = np.mean([[said.score for said in one.predict(task, texts)] for one in members], axis=0)
        for said, mean, *apart in zip(
            model.predict(task, texts), means, *(one.predict(task, texts) for one in members), strict=True
        ):
            if said.probabilities is None:
                assert said.score == pytest.approx(mean, abs=1e-9)
            else:
                assert said.probabilities == pytest.approx(
                    {name: np.mean([one.probabilities[name] for one in apart]) for name in said.probabilities}, abs=1e-9
                )


def test_what_was_changed_or_lost_is_told(ensemble, tmp_path):
    broken = shutil.copytree(ensemble, tmp_path / "broken")
    with (broken / "members/2/heads.safetensors").open("ab") as file:
        file.write(b" ")
    with pytest.raises(ModelError, match=r"members/2/heads\.safetensors: was changed after the model was saved"):
        plait.load(broken)
    shutil.rmtree(broken / "members/2")
    with pytest.raises(ModelError, match=r"members/2/manifest\.json is missing"):
        plait.load(broken)
    other = shutil.copytree(ensemble, tmp_path / "other")
    shutil.rmtree(other / "members/1")
    shutil.copytree(other / "members/2", other / "members/1")
    with pytest.raises(ModelError, match=r"members/1/manifest\.json: was changed"):
        plait.load(other)


def test_each_ensemble_has_its_own_identity(ensemble, runs, tmp_path):
    make_ensemble([str(runs / "run1"), str(runs / "run2")], tmp_path / "again")
    prints = {model_identity(folder) for folder in (ensemble, tmp_path / "again", runs / "run1")}
    assert len(prints) == 3


def test_it_is_evaluated_like_a_model_beside_its_members(ensemble, runs):
    model, about = load_model(ensemble, device="cpu"), read_about(ensemble)
    assert isinstance(model, Ensemble)
    examples = find_split(model, ensemble, about, "dev", runs / "data")
    assert {task: len(part) for task, part in examples.items()} == {"mood": 24, "same": 24, "near": 24}
    one, two = (score_task(member, "near", examples["near"]).value for member in model.members)
    near = about["baselines"]["dev"]["mean of members"]["near"]
    assert near == pytest.approx((one + two) / 2, abs=1e-6)
    assert about["baselines"]["dev"]["best member"]["near"] in (
        pytest.approx(one, abs=1e-6),
        pytest.approx(two, abs=1e-6),
    )
    assert -1 <= score_task(model, "near", examples["near"]).value <= 1


def test_dev_rows_that_another_seed_drew_are_not_shared(tiny_bert, tmp_path):
    """What is dev for one member was trained on by another."""
    sources = []
    for seed in (1, 2):
        recipe = recipe_of(tmp_path, tiny_bert, epochs=1, seed=seed)
        recipe["tasks"]["mood"]["dev"] = 0.25
        sources.append(str(plait.train(recipe, tmp_path / f"run{seed}", baselines=False).run))
    make_ensemble(sources, tmp_path / "both")
    about = read_about(tmp_path / "both")
    assert about["data"]["mood"] == {} and "dev" in about["data"]["near"]
    assert "mood" not in about["baselines"]["dev"]["best member"]


def test_dev_rows_that_were_made_in_another_way_are_not_shared(tiny_bert, tmp_path):
    labels = ["entailment", "neutral", "contradiction"]
    cells = [(f"{a} {row // 3}", a, labels[row % 3]) for row, a in enumerate(sentences(30, 3))]
    cells = [(cells[3 * (row // 3)][0], text, label) for row, (_, text, label) in enumerate(cells)]
    write_csv(tmp_path / "nli.csv", ["premise", "hypothesis", "label"], cells)
    file = str(tmp_path / "nli.csv")
    task = {"train": file, "dev": file, "text": ["premise", "hypothesis"], "label": "label"}
    sources = []
    for entailed in ("entailment", "neutral"):
        made = {**task, "make": {"name": "triplets", "entailed": entailed}}
        recipe = {"encoder": str(tiny_bert), "tasks": {"nli": made}, "epochs": 1}
        sources.append(str(plait.train(recipe, tmp_path / entailed, baselines=False).run))
    make_ensemble(sources, tmp_path / "both")
    assert read_about(tmp_path / "both")["data"] == {"nli": {}}


def test_members_without_common_data_ask_for_it(tiny_bert, tmp_path):
    sources = []
    for seed in (1, 2):
        recipe = recipe_of(tmp_path, tiny_bert, epochs=1, seed=seed)
        recipe["tasks"] = {"mood": {**recipe["tasks"]["mood"], "dev": 0.25}}
        sources.append(str(plait.train(recipe, tmp_path / f"run{seed}", baselines=False).run))
    make_ensemble(sources, tmp_path / "both")
    model, about = load_model(tmp_path / "both", device="cpu"), read_about(tmp_path / "both")
    assert about["baselines"] == {}
    with pytest.raises(RequestError, match="is made of models that do not share their dev data; give --on TASK=FILE"):
        find_split(model, tmp_path / "both", about, "dev", tmp_path / "data")


def test_members_may_have_other_encoders_and_heads(runs, tiny_roberta, tmp_path):
    def heads(tasks: dict) -> None:
        tasks["near"]["head"] = "concat"

    other = trained(tmp_path, tiny_roberta, heads)
    make_ensemble([str(runs / "run1"), other], tmp_path / "both")
    assert len(plait.load(tmp_path / "both").predict("near", EXAMPLES["near"])) == 8


def test_an_ensemble_does_not_train(ensemble, tiny_recipe, tmp_path):
    with pytest.raises(RecipeError, match=r"is an ensemble; start from one of its members, such as .*members/1"):
        plait.train(tiny_recipe(encoder=str(ensemble)), tmp_path / "run")


# What cannot be put together


def test_differences_between_tasks_are_named_all_at_once(runs, tiny_bert, tmp_path):
    def change(tasks: dict) -> None:
        del tasks["same"]
        tasks["near"]["label"]["range"] = [0, 10]
        tasks["mood"]["label"] = {"column": "mood", "classes": {"high": "glad", "low": "sad"}}

    first, other = str(runs / "run1"), trained(tmp_path, tiny_bert, change)
    for make in (make_ensemble, make_soup):
        assert refused(make, [first, other], tmp_path / "both") == [
            f"{other}: has no task 'same', {first} has",
            f"{other}: the labels of 'mood' are classes (high: glad, low: sad); in {first} classes (high, low)",
            f"{other}: the labels of 'near' are score (0 to 10); in {first} score (0 to 5)",
        ]


def test_what_is_no_member_is_refused(runs, ensemble, tiny_bert, tmp_path):
    first = str(runs / "run1")
    assert refused(make_ensemble, [first, tiny_bert, ensemble, first, runs / "run1/best"], tmp_path / "x") == [
        f"{tiny_bert}: is no plait model; give model directories, runs, or RUN@epoch3",
        f"{ensemble}: is an ensemble; give its members, which lie in {ensemble}/members",
        f"{first}: is the same model as {first}; give each one once",
        f"{first}/best: is the same model as {first}; give each one once",
    ]
    assert refused(make_ensemble, [first], tmp_path / "x") == ["give at least two models"]
    (tmp_path / "full").mkdir()
    with pytest.raises(RequestError, match="is there already; choose another name"):
        make_ensemble([first, str(runs / "run2")], tmp_path / "full")


def test_a_damaged_member_leaves_nothing_behind(runs, tmp_path):
    broken = shutil.copytree(runs / "run2/best", tmp_path / "broken")
    with (broken / "model.safetensors").open("ab") as file:
        file.write(b" ")
    for make in (make_ensemble, make_soup):
        assert refused(make, [runs / "run1", broken], tmp_path / "x") == [
            f"{broken}/model.safetensors: was changed after the model was saved; copy it again"
        ]


# The mean of the weights


def test_a_soup_is_an_ordinary_model_of_the_mean_weights(runs, tmp_path):
    sources = [str(runs / "run1"), str(runs / "run2")]
    make_soup(sources, tmp_path / "soup")
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
    assert "Its weights are the mean of those of 2 models: `run1`, `run2`." in card
    about = read_about(tmp_path / "soup")
    examples = find_split(load_model(tmp_path / "soup"), tmp_path / "soup", about, "dev", runs / "data")
    assert set(examples) == {"mood", "same", "near"} and set(about["baselines"]["dev"]) == {
        "mean of members",
        "best member",
    }


def test_a_soup_of_kept_models_is_their_mean_and_not_one_of_them(runs, tmp_path):
    kept = sorted((runs / "run1/kept").iterdir())
    make_soup([f"{runs}/run1@{folder.name}" for folder in kept], tmp_path / "soup")
    vectors = [plait.load(folder).embed(["a dog ran"]) for folder in (*kept, tmp_path / "soup")]
    assert not np.array_equal(vectors[2], vectors[0]) and not np.array_equal(vectors[2], vectors[1])


def test_a_soup_grows_again(runs, tiny_recipe, tmp_path):
    make_soup([str(runs / "run1"), str(runs / "run2")], tmp_path / "soup")
    result = plait.train(tiny_recipe(encoder=str(tmp_path / "soup"), epochs=1), tmp_path / "run", baselines=False)
    assert set(result.scores) == {"mood", "same", "near"}


def test_a_soup_of_unlike_models_names_every_difference(runs, tiny_bert, tmp_path):
    def change(tasks: dict) -> None:
        tasks["near"]["head"] = {"name": "cosine", "scale": 4}
        tasks["same"]["head"] = "concat"

    first, other = str(runs / "run1"), trained(tmp_path, tiny_bert, change, pooling="cls", normalise=True)
    assert refused(make_soup, [first, other], tmp_path / "soup") == [
        f"{other}: the pooling is cls; in {first} it is mean",
        f"{other}: `normalise` is True; in {first} it is False",
        f"{other}: the head of 'same' is concat; in {first} it is difference_product",
        f"{other}: the head of 'near' is {{name: cosine, scale: 4.0}}; in {first} it is cosine",
        "--soup needs weights of the same kind; without it each model is asked",
    ]


def test_a_soup_of_two_families_is_refused(runs, tiny_roberta, tmp_path):
    first, other = str(runs / "run1"), trained(tmp_path, tiny_roberta)
    mistakes = refused(make_soup, [first, other], tmp_path / "soup")
    assert f"{other}: the encoder's model type is roberta; in {first} it is bert" in mistakes
    assert f"{other}: has another tokenizer than {first}" in mistakes
