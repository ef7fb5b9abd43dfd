"""Every recipe that comes with plait plans, and every suite has a recipe a row and a figure a column."""

import csv
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait.data import splits
from plait.recipe.read import read_recipe
from plait.recipe.schema import Recipe
from plait.recipe.tree import load_tree, read_yaml
from plait.training.plan import run_facts
from plait.training.settle import settle_run
from plait.training.tables import TABLES
from tiny import sentences

FOLDER = Path(__file__).parent.parent.parent / "src/plait/recipes"
SUITES = {path.parent.name: read_yaml(path).values for path in sorted(FOLDER.glob("*/suite.yaml"))}
NAMES = [
    str(path.relative_to(FOLDER).with_suffix(""))
    for path in sorted(FOLDER.rglob("*.yaml"))
    if path.stem not in ("base", "suite")
]
DATA = {"triple-entropy": "senteval"}  # of other suites: cs224n
CUT = 40  # rows of each split that are planned with
LIMIT = 40  # tokens of the tiny encoders


def rows_with(key: str) -> list[tuple[str, str]]:
    """The rows of all suites that say something."""
    return [(suite, name) for suite, keys in SUITES.items() for name, row in keys["rows"].items() if key in row]


PLANNED = [(name, profile) for name in NAMES for profile in (None, "laptop") if "/" in name or not profile]


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with the columns of the real ones."""
    root = tmp_path_factory.mktemp("papers")
    pair = ["sentence1", "sentence2"]
    for split in ("train", "dev"):
        write(root / f"cs224n/ids-sst-{split}.csv", ["sentence"], sentiment=range(5))
        write(root / f"cs224n/ids-cfimdb-{split}.csv", ["sentence"], sentiment=range(2))
        write(root / f"cs224n/quora-{split}.csv", pair, is_duplicate=range(2))
        write(root / f"cs224n/sts-{split}.csv", pair, similarity=[0, 1.5, 3, 4.2, 5])
    write(root / "nli/triplets.csv", ["sent0", "sent1", "hard_neg"])
    write(root / "pairs/mrpc-train.csv", pair, is_duplicate=range(2))
    for name in ("sst2", "imdb-10k", "subj", "mpqa", "cr", "mr"):
        write(root / f"senteval/{name}.csv", ["sentence"], label=range(2))
    write(root / "senteval/trec.csv", ["sentence"], label="ABCDEF", split=["train"])
    return root


def write(path: Path, texts: list[str], **labels: Any) -> None:
    """A file of other texts in every column and row, its labels in turn."""
    path.parent.mkdir(exist_ok=True)
    columns = [
        [f"{text} {row}" for row, text in enumerate(sentences(60, seed=number))] for number, _ in enumerate(texts)
    ]
    columns += [list(itertools.islice(itertools.cycle(values), 60)) for values in labels.values()]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow([*texts, *labels])
        writer.writerows(zip(*columns, strict=True))


@pytest.fixture(scope="module")
def read_once() -> Iterator[None]:
    """Every file is read once, however many recipes name it."""
    kept: dict[str, Any] = {}
    read_rows = splits.read_rows

    def read(*given: Any, **options: Any) -> Any:
        key = repr((given, options))
        if key not in kept:
            kept[key] = read_rows(*given, **options)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splits, "read_rows", read)
        yield


@pytest.fixture(scope="module")
def encoders(tiny_bert: Path, tiny_roberta: Path) -> dict[str, Path]:
    """The tiny encoder of the same kind, by the name in a recipe."""
    berts, robertas = ("bert-base-uncased", "minilm"), ("roberta-base", "roberta-large")
    return {**dict.fromkeys(berts, tiny_bert), **dict.fromkeys(robertas, tiny_roberta)}


def plan(name: str, profile: str | None, root: Path, encoders: dict[str, Path]) -> Recipe:
    """Read, settle and plan a recipe as it stands, but for the encoder and the number of rows."""
    values = load_tree(FOLDER / f"{name}.yaml", profile).values
    changes = [f"encoder={encoders[values['encoder']]}", f"dev_rows={CUT}"]
    for task, keys in values["tasks"].items():
        changes += [f"tasks.{task}.rows={CUT}"]
        changes += [f"tasks.{task}.max_length={LIMIT}"] if "max_length" in keys else []
    data = None if name == "starter" else root / DATA.get(name.partition("/")[0], "cs224n")
    recipe = read_recipe(
        FOLDER / f"{name}.yaml", TABLES, data=data, profile=profile, assignments=[*changes, f"rows={CUT}"]
    )
    facts = run_facts(settle_run(recipe), trial=False)
    assert all(stage.steps > 0 for stage in facts)
    assert [task.task for stage in facts for task in stage.tasks if task.rows.get("train", 0) > CUT] == []
    assert [task.task for task in facts[-1].tasks if not task.rows.get("dev")] == []
    return recipe


@pytest.mark.parametrize(("name", "profile"), PLANNED)
def test_a_recipe_plans(name, profile, made_up, read_once, encoders):
    recipe = plan(name, profile, made_up, encoders)
    if "/" in name and name.partition("/")[0] != "triple-entropy":
        suite = SUITES[name.partition("/")[0]]
        assert len(recipe.tasks) == 1 or set(recipe.tasks) == set(suite.get("mean_of", suite["scores"]))


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_plans_on_the_real_data(name, real_data, read_once, encoders):
    plan(name, None, real_data, encoders)


@pytest.mark.parametrize("name", [name for name in NAMES if "/" in name])
def test_a_recipe_begins_with_its_command_and_what_it_is(name):
    first, second, *_ = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    suite, _, row = name.partition("/")
    if "folds" in SUITES.get(suite, {}):  # a run alone has neither its folds nor its grid
        assert first == f"# plait experiment recipes/{suite} --rows {row} --data DIR"
    else:
        assert first == f"# plait train recipes/{name}.yaml --data DIR"
    assert second.startswith("# ") and second.endswith(".")


@pytest.mark.parametrize("suite", SUITES)
def test_every_row_has_its_recipe_and_every_recipe_its_row(suite):
    rows = SUITES[suite]["rows"]
    measured = {name for name, row in rows.items() if not row.keys() & {"ensemble", "shown"}}
    assert measured == {path.stem for path in (FOLDER / suite).glob("*.yaml")} - {"base", "suite"}
    named = {row[key] for row in rows.values() for key in ("against", "ensemble") if row.get(key)}
    assert named | {SUITES[suite].get("baseline", next(iter(measured)))} <= rows.keys()
    assert not any(row.get("against") == name for name, row in rows.items())


@pytest.mark.parametrize(("suite", "name"), rows_with("paper"))
def test_a_row_has_a_figure_of_the_paper_in_every_column(suite, name):
    every, means = SUITES[suite]["scores"], SUITES[suite].get("means", {})
    scores = {task: every[task] for task in SUITES[suite].get("mean_of", every)}
    paper = SUITES[suite]["rows"][name]["paper"]
    found = paper.keys() - means.keys()
    assert found == scores.keys() or (len(found) == 1 and found <= every.keys())
    assert all(-1 <= figure <= 1 for figure in paper.values())
    for heading, kind in means.items():
        if heading in paper:  # the paper's mean is that of its scores, but for their rounding
            r = paper["sts"]
            total = sum(paper[task] for task in scores) - r + ((r + 1) / 2 if kind == "shifted" else r)
            assert paper[heading] == pytest.approx(total / len(scores), abs=0.0011)


@pytest.mark.parametrize("suite", ["robust-embeddings", "minbert-downstream", "best-of-bert"])
@pytest.mark.parametrize("profile", [None, "laptop"])
def test_no_two_rows_are_the_same_recipe(suite, profile):
    values = [load_tree(FOLDER / f"{name}.yaml", profile).values for name in NAMES if name.partition("/")[0] == suite]
    assert not any(one == other for one, other in itertools.combinations(values, 2))


@pytest.mark.parametrize(("suite", "name"), rows_with("grid"))
def test_every_value_of_a_grid_is_one_that_the_recipe_takes(suite, name, made_up):
    for key, values in SUITES[suite]["rows"][name]["grid"].items():
        for value in values:
            recipe = read_recipe(
                FOLDER / suite / f"{name}.yaml",
                TABLES,
                data=made_up / DATA[suite],
                assignments=[f"{key}={flow(value)}"],
            )
            assert len(recipe.tasks) == 1


def flow(value: object) -> str:
    """A value as YAML in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(part)}" for key, part in value.items()) + "}"
    return f"[{', '.join(map(flow, value))}]" if isinstance(value, list) else str(value)


@pytest.mark.parametrize(("suite", "name"), rows_with("grid"))
def test_rows_that_are_compared_have_had_the_same_search(suite, name):
    rows = SUITES[suite]["rows"]
    against = rows[rows[name].get("against", name)]
    assert rows[name].get("search") == against.get("search")
    if "search" not in against:
        assert points(rows[name]["grid"]) == points(against["grid"])
    else:
        assert points(against["grid"]) > against["search"]["trials"]


def points(grid: dict[str, list[object]]) -> int:
    """How many settings a grid has."""
    return math.prod(len(values) for values in grid.values())
