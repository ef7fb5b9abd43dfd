"""Every recipe that plait includes can be planned, and every suite has a recipe per row and the paper's figures."""

import csv
import functools
import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait.data import splits
from plait.experiments.cells import Cell, Experiment
from plait.experiments.run_cell import cell_mistakes
from plait.recipe import suite as suites
from plait.recipe.bundled import BUNDLED, bundled_recipes
from plait.recipe.read import read_recipe
from plait.recipe.schema import Recipe
from plait.recipe.suite import Row, Suite, read_row, read_suite
from plait.recipe.tree import load_tree
from plait.resolve.run import resolve_run
from plait.resolve.variants import VARIANTS
from plait.training.estimate import preview_run
from tiny import sentences

SUITES = {path.parent.name: read_suite(path.parent) for path in sorted(BUNDLED.glob("*/suite.yaml"))}
FILES = list(bundled_recipes())
ROWS = [f"{name}#{row}" for name, suite in SUITES.items() for row in suite.trained if suite.rows[row].ensemble is None]
DESKTOP = [(row, "desktop") for row in ROWS]
DATA = dict.fromkeys(["triple-entropy", "few-shot"], "senteval")  # of the other suites: cs224n
CUT = 40  # rows of each split
LIMIT = 40  # tokens of the tiny encoders


def rows_with(key: str) -> list[tuple[str, str]]:
    """The rows of all suites that have a key."""
    return [(name, row) for name, suite in SUITES.items() for row, keys in suite.rows.items() if getattr(keys, key)]


def data_of(source: str, root: Path) -> Path | None:
    return None if source in ("abbreviations", "starter") else root / DATA.get(source.partition("#")[0], "cs224n")


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
    write(root / "cs224n/sst-phrases.csv", ["sentence"], sentiment=range(5))
    write(root / "nli/triplets.csv", ["sent0", "sent1", "hard_neg"])
    write(root / "pairs/mrpc-train.csv", pair, is_duplicate=range(2))
    for name in ("sst2", "imdb-10k", "subj", "mpqa", "cr", "mr"):
        write(root / f"senteval/{name}.csv", ["sentence"], label=range(2))
    write(root / "senteval/trec.csv", ["sentence"], label="ABCDEF", split=["train"])
    return root


def write(path: Path, texts: list[str], **labels: Any) -> None:
    """A file with different texts in every column and row, and repeating labels."""
    path.parent.mkdir(exist_ok=True)
    columns = [
        [f"{text} {row}" for row, text in enumerate(sentences(60, seed=number))] for number, _ in enumerate(texts)
    ]
    columns += [list(itertools.islice(itertools.cycle(values), 60)) for values in labels.values()]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow([*texts, *labels])
        writer.writerows(zip(*columns, strict=True))


@pytest.fixture(scope="module", autouse=True)
def read_once() -> Iterator[None]:
    """Every file of data and every suite is read once, however many recipes name it."""
    kept: dict[str, Any] = {}
    read_rows = splits.read_rows

    def read(*given: Any, **options: Any) -> Any:
        key = repr((given, options))
        if key not in kept:
            kept[key] = read_rows(*given, **options)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splits, "read_rows", read)
        patch.setattr(suites, "read_suite", functools.cache(read_suite))
        yield


@pytest.fixture(scope="module")
def encoders(tiny_bert: Path, tiny_roberta: Path) -> dict[str, Path]:
    """The tiny encoder of the same kind, by the name in a recipe."""
    berts, robertas = ("bert-base-uncased", "minilm"), ("roberta-base", "roberta-large")
    return {**dict.fromkeys(berts, tiny_bert), **dict.fromkeys(robertas, tiny_roberta)}


def plan(source: str, profile: str | None, root: Path, encoders: dict[str, Path]) -> Recipe:
    """Read, resolve and preview a recipe, unchanged except for the encoder and the number of rows."""
    values = (read_row(source, profile) if "#" in source else load_tree(BUNDLED / f"{source}.yaml", profile)).values
    changes = [f"encoder={encoders[values['encoder']]}", f"dev_rows={CUT}"]
    for task, keys in values["tasks"].items():
        changes += [f"tasks.{task}.rows={CUT}"]
        changes += [f"tasks.{task}.max_length={LIMIT}"] if "max_length" in keys else []
        changes += [f"tasks.{task}.choose_rows={CUT // 2}"] if "choose_rows" in keys else []
    changes += [f"choose_rows={CUT // 2}"] if "choose_rows" in values else []
    recipe = read_recipe(
        source, VARIANTS, data=data_of(source, root), profile=profile, overrides=[*changes, f"rows={CUT}"]
    )
    stages = preview_run(resolve_run(recipe), trial=False)
    assert all(stage.steps > 0 for stage in stages)
    assert [task.task for stage in stages for task in stage.tasks if task.rows.get("train", 0) > CUT] == []
    assert [task.task for task in stages[-1].tasks if not task.rows.get("dev")] == []
    return recipe


@pytest.mark.parametrize(
    ("source", "profile"), [*((name, None) for name in FILES), *itertools.product(ROWS, (None, "laptop")), *DESKTOP]
)
def test_recipe_can_be_planned(source, profile, made_up, encoders):
    recipe = plan(source, profile, made_up, encoders)
    name = source.partition("#")[0]
    if name in SUITES and DATA.get(name) != "senteval":
        suite = SUITES[name]
        assert len(recipe.tasks) == 1 or set(recipe.tasks) == set(suite.mean_of or suite.scores)


@pytest.mark.parametrize("source", [*FILES, *ROWS])
def test_recipe_can_be_planned_with_the_real_data(source, real_data, encoders):
    plan(source, None, real_data, encoders)


# Rows


def test_suites_have_the_rows_of_their_papers():
    assert {name: len(suite.rows) for name, suite in SUITES.items()} == {
        "best-of-bert": 14,
        "few-shot": 18,
        "learning-curve": 9,
        "minbert-downstream": 17,
        "robust-embeddings": 32,
        "triple-entropy": 64,
    }
    assert list(SUITES["best-of-bert"].rows)[1:4] == ["multi-dataset", "cosine", "mean-pooling"]
    names = list(SUITES["triple-entropy"].rows)
    assert names[:4] == ["sst2-1k-ce", "sst2-1k-te", "sst2-1k-sc", "imdb-1k-ce"]
    assert names[24:32] == ["mrpc-ce", "mrpc-te", "trec-ce", "trec-te", "cr-ce", "cr-te", "mr-ce", "mr-te"]
    assert names[32:40] == [
        *("sst2-10k-ce", "sst2-10k-te", "imdb-10k-ce", "imdb-10k-te"),
        *("subj-ce", "subj-te", "mpqa-ce", "mpqa-te"),
    ]
    assert names[40:46] == ["sst2-ce", "sst2-te", "imdb-ce", "imdb-te", "sst2-1k-large-ce", "sst2-1k-large-te"]
    assert names[56:62] == [f"{data}-1k-{loss}" for data in ("trec", "cr") for loss in ("cc", "ct", "cth")]
    assert names[-2:] == ["trec-1k-search-ce", "trec-1k-search"]


def test_every_recipe_has_a_quick_profile(made_up):
    for source in [*FILES, *ROWS]:
        values = read(source, "quick", made_up)
        assert values["encoder"] in ("minilm", "gte-small"), source
        blocks = values.get("stages") or [values]
        for block in [*blocks, *(task for part in blocks for task in part["tasks"].values())]:
            assert (block["rows"] or 0) <= 500 and (block["dev_rows"] or 0) <= 200, source
        assert all(block["epochs"] <= 2 and block["rows"] for block in blocks), source


def read(source: str, profile: str | None, root: Path) -> dict[str, Any]:
    return read_recipe(source, VARIANTS, data=data_of(source, root), profile=profile).model_dump(mode="json")


def test_row_of_the_matrix_is_exactly_this_recipe(made_up):
    large, laptop = (read("triple-entropy#trec-1k-large-te", profile, made_up) for profile in (None, "laptop"))
    assert large["tasks"].keys() == {"trec"}
    trec = large["tasks"]["trec"]
    assert (large["encoder"], large["epochs"], large["lr"], large["rows"]) == ("roberta-large", 10, 1e-5, None)
    assert (laptop["encoder"], laptop["epochs"], laptop["lr"], laptop["rows"]) == ("minilm", 4, 1e-4, 2000)
    assert trec["train"] == [{"file": str(made_up / "senteval/trec.csv"), "where": {"split": "train"}}]
    assert (trec["dev"], trec["text"], trec["head"], trec["rows"]) == (0.1, ["sentence"], "linear", 1000)
    assert trec == laptop["tasks"]["trec"]
    cross_entropy, soft_triple = trec["loss"]
    assert cross_entropy == {"name": "cross_entropy", "weight": 0.9}
    assert soft_triple.items() >= {"name": "soft_triple", "proxies": 2000, "gamma": 0.1, "delta": 0.3}.items()
    assert (soft_triple["weight"], soft_triple["lam"]) == (pytest.approx(0.1), 3.3)


def test_sizes_of_the_matrix_limit_the_right_rows(made_up):
    for profile, rows in ((None, 10000), ("laptop", 2000)):
        assert read("triple-entropy#imdb-10k-te", profile, made_up)["rows"] == rows
    imdb = read("triple-entropy#imdb-1k-ce", "laptop", made_up)
    assert (imdb["rows"], imdb["tasks"]["imdb"]["rows"], imdb["tasks"]["imdb"]["max_length"]) == (2000, 1000, 64)
    mrpc = read("triple-entropy#mrpc-te", None, made_up)["tasks"]["mrpc"]
    assert (mrpc["head"], mrpc["text"], mrpc["rows"]) == ("joined", ["sentence1", "sentence2"], None)
    assert mrpc["train"] == [str(made_up / "pairs/mrpc-train.csv")]


def test_rows_of_the_matrix_have_these_keys():
    suite = SUITES["triple-entropy"]
    row = suite.rows["cr-1k-te"]
    assert (row.paper, row.paper_rows, row.against) == ({"only": 0.9216}, {"cr": 1000}, "cr-1k-ce")
    assert row.grid == {"tasks.cr.loss.beta": [0.7, 0.9]}
    assert row.title == "CR (product reviews, two classes), 1,000 rows, cross-entropy and SoftTriple on all tokens"
    assert suite.rows["cr-1k-ce"].grid == {"dropout": [0.1, 0.3]} and suite.opponent("cr-1k-ce") is None
    assert suite.rows["mr-te"].paper_rows == {"mr": 10662} and suite.rows["sst2-ce"].paper_rows == {"sst2": 67349}
    assert suite.rows["cr-1k-sc"].paper == {} and len(suite.rows["cr-1k-sc"].grid["tasks.cr.loss"]) == 2
    assert [suite.opponent(f"trec-1k-{loss}") for loss in ("te", "sc", "cc", "ct")] == 4 * ["trec-1k-ce"]


def test_each_row_of_best_of_bert_adds_to_the_one_before(made_up):
    last = read("best-of-bert#more-epochs", None, made_up)
    assert (last["pooling"], last["epochs"], last["schedule"]["combine"]) == ("mean", 15, "sum")
    assert last["tasks"]["sts"]["head"] == {"name": "cosine", "scale": 5.0}
    assert last["tasks"]["quora"]["head"]["name"] == "difference_product"
    assert read("best-of-bert#more-epochs", "laptop", made_up)["epochs"] == 6
    assert read("best-of-bert#concatenation", "laptop", made_up)["epochs"] == 4


def test_both_readings_of_the_difference_differ_in_nothing_else(made_up):
    for row in ("baseline", "multi-dataset", "cosine", "mean-pooling", "multi-task"):
        signed, absolute = (read(f"best-of-bert#{name}", None, made_up) for name in (row, f"{row}-absolute"))
        changed = [task for task, keys in signed["tasks"].items() if keys != absolute["tasks"][task]]
        assert changed == (["quora", "sts"] if row in ("baseline", "multi-dataset") else ["quora"])
        for task in changed:
            assert signed["tasks"][task].pop("head") == {"name": "difference", "absolute": False}
            assert absolute["tasks"][task].pop("head") == {"name": "difference", "absolute": True}
        assert signed == absolute
        rows = SUITES["best-of-bert"].rows
        assert rows[row].paper == rows[f"{row}-absolute"].paper and rows[f"{row}-absolute"].against == row


def test_stages_of_exp15(made_up):
    recipe = read("robust-embeddings#exp15", "laptop", made_up)
    first, second = recipe["stages"]
    assert first["tasks"].keys() == {"nli"} and first["tasks"]["nli"]["rows"] == 1500 and first["epochs"] == 3
    assert second["tasks"].keys() == {"sst", "quora", "sts"} and second["epochs"] == 5
    assert recipe["dropout"] == 0.1


def test_rows_that_compare_poolings_differ_in_nothing_else(made_up):
    for task, profile in itertools.product(("sst", "sts", "quora"), (None, "laptop")):
        pooler, mean = (read(f"robust-embeddings#{task}-{pooling}", profile, made_up) for pooling in ("pooler", "mean"))
        assert list(mean["tasks"]) == [task] and mean["pooling"] == "mean"
        assert pooler == {**mean, "pooling": "cls" if profile else "pooler"}
        assert SUITES["robust-embeddings"].opponent(f"{task}-mean") == f"{task}-pooler"
        assert SUITES["robust-embeddings"].opponent(f"{task}-pooler") is None


def test_settings_of_the_milestone(made_up):
    recipe, laptop = (read("robust-embeddings#milestone-exp7", profile, made_up) for profile in (None, "laptop"))
    assert (recipe["lr"], recipe["dropout"], recipe["batch_size"], recipe["epochs"]) == (5e-5, 0.1, 32, 5)
    assert (laptop["encoder"], laptop["lr"], laptop["head_lr"], laptop["rows"]) == ("minilm", 2e-4, 2e-3, 350)
    assert recipe["schedule"]["by"] == "size"


def test_losses_and_heads_that_the_paper_does_not_combine(made_up):
    quora = read("robust-embeddings#exp14-mnrl", None, made_up)["tasks"]["quora"]
    assert [loss["name"] for loss in quora["loss"]] == ["binary_cross_entropy", "multiple_negatives"]
    assert quora["head"]["name"] == "joined_difference"
    quora = read("robust-embeddings#exp14-one-head", None, made_up)["tasks"]["quora"]
    assert quora["head"] == {"same_as": "sts"} and quora["label"]["map"] == {"0": "1", "1": "4.5"}


@pytest.mark.parametrize("source", ROWS)
def test_row_has_a_title(source):
    name, _, row = source.partition("#")
    assert SUITES[name].rows[row].title


@pytest.mark.parametrize("name", SUITES)
def test_no_row_is_tested_against_itself_and_no_recipe_is_unused(name):
    suite = SUITES[name]
    assert not any(row.against == own for own, row in suite.rows.items())
    used = {suite.recipe_file(row).name for row in suite.trained} | {"base.yaml"}
    assert {path.name for path in suite.folder.glob("*.yaml")} - {"suite.yaml"} == used


# The page about suites


def test_suites_in_the_documentation_are_read(tmp_path):
    page = (Path(__file__).parents[2] / "docs/papers.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "base.yaml").write_text("encoder: minilm\n", encoding="utf-8")
    suites = []
    for block in blocks:
        (tmp_path / "suite.yaml").write_text(block, encoding="utf-8")
        suites.append(read_suite(tmp_path))
    rows, matrix = suites
    assert rows.recipe_tree("with-dropout").values["shared_layer"] == {"name": "tanh", "dropout": 0.5}
    assert list(matrix.rows) == ["cr-1k-ce", "cr-1k-te", "trec-1k-ce", "trec-1k-te"]
    assert matrix.recipe_tree("trec-1k-te").values["tasks"]["trec"]["rows"] == 1000
    assert matrix.rows["trec-1k-te"].paper == {"only": 0.8209} and matrix.opponent("trec-1k-te") == "trec-1k-ce"
    for key in (
        *Suite.model_fields.keys() - {"folder"},
        *Row.model_fields,
        "axes",
        "matrix",
        "name",
        "over",
        "figures",
    ):
        assert re.search(rf"^\| .*`{key}`.* \|", page, re.MULTILINE), f"{key} is not explained"


# Figures


@pytest.mark.parametrize(("name", "row"), rows_with("paper"))
def test_row_has_a_figure_of_the_paper_in_every_column(name, row):
    suite = SUITES[name]
    scores = {task: suite.scores[task] for task in suite.mean_of or suite.scores}
    paper = suite.rows[row].paper
    found = paper.keys() - suite.means.keys()
    assert found == scores.keys() or (len(found) == 1 and found <= suite.scores.keys())
    assert all(-1 <= figure <= 1 for figure in paper.values())
    for heading, kind in suite.means.items():
        if heading in paper:  # the paper's mean is that of its scores, up to rounding
            r = paper["sts"]
            total = sum(paper[task] for task in scores) - r + ((r + 1) / 2 if kind == "shifted" else r)
            assert paper[heading] == pytest.approx(total / len(scores), abs=0.0011)


@pytest.mark.parametrize("name", ["robust-embeddings", "minbert-downstream", "best-of-bert"])
@pytest.mark.parametrize("profile", [None, "laptop", "desktop"])
def test_no_two_rows_have_the_same_recipe(name, profile):
    suite = SUITES[name]
    rows = [row for row in suite.trained if suite.rows[row].ensemble is None]
    values = [suite.recipe_tree(row, profile).values for row in rows]
    assert not any(one == other for one, other in itertools.combinations(values, 2))


# Grids


@pytest.mark.parametrize(("name", "row"), rows_with("grid"))
def test_recipe_accepts_every_value_of_its_grid(name, row, made_up):
    experiment = Experiment(SUITES[name], Path("unused"), made_up / DATA[name])
    assert list(cell_mistakes(experiment, Cell(row, 1, 1))) == []


@pytest.mark.parametrize(("name", "row"), rows_with("grid"))
def test_rows_that_are_compared_have_grids_of_the_same_size(name, row):
    rows = SUITES[name].rows
    against = rows[rows[row].against or row]
    assert rows[row].search == against.search
    if against.search is None:
        assert points(rows[row].grid) == points(against.grid)
    else:
        assert points(against.grid) > against.search.trials


def points(grid: dict[str, list[object]]) -> int:
    return math.prod(len(values) for values in grid.values())
