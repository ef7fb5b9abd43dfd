"""Weights from the Gram matrix, compared with torchjd's; and torchjd's own methods in a recipe."""

import itertools
import sys
from importlib.util import find_spec

import pytest
import torch

import plait
from plait.errors import RecipeError
from plait.gradients.combine import ByGram, find_combiner, surgery
from plait.training.loop import as_recipe

pytestmark = pytest.mark.skipif(find_spec("torchjd") is None, reason="torchjd is not installed")

SCALES = [1e-6, 1e-3, 1.0, 1e5, 1e15]
USABLE = ["AlignedMTL", "DualProj", "IMTLG", "MGDA", "PCGrad", "UPGrad"]
SOLVER = {"DualProj", "UPGrad"}  # need quadprog
NO_SOLVER = find_spec("quadprog") is None or find_spec("qpsolvers") is None


@pytest.fixture(autouse=True)
def forget() -> None:
    """Methods that were found are remembered."""
    find_combiner.cache_clear()


def gram(tasks: int, seed: int, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    g_KP = scale * torch.randn(tasks, 7, generator=generator, dtype=torch.float64)
    return g_KP @ g_KP.T


@pytest.mark.parametrize("tasks", [1, 2, 3, 4, 5])
def test_surgery_has_the_weights_of_pcgrad_divided_by_the_tasks(tasks):
    from torchjd.aggregation import PCGradWeighting

    conflicts = 0
    for seed, scale in itertools.product(range(30), SCALES):
        gram_KK = gram(tasks, seed, scale)
        conflicts += bool((gram_KK < 0).any())
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            expected_K = PCGradWeighting()(gram_KK) / tasks
            torch.manual_seed(seed)  # it draws one permutation of all tasks for each of them
            orders = [torch.randperm(tasks).tolist() for _ in range(tasks)]
        torch.testing.assert_close(surgery(gram_KK, orders=orders), expected_K, atol=1e-12, rtol=1e-12)
    assert conflicts or tasks == 1


@pytest.mark.parametrize("tasks", [2, 3])
def test_a_zero_row_is_weighed_as_in_pcgrad(tasks):
    from torchjd.aggregation import PCGradWeighting

    for seed in range(20):
        gram_KK = gram(tasks, seed)
        gram_KK[0, :] = gram_KK[:, 0] = 0
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            expected_K = PCGradWeighting()(gram_KK) / tasks
            torch.manual_seed(seed)
            orders = [torch.randperm(tasks).tolist() for _ in range(tasks)]
        torch.testing.assert_close(surgery(gram_KK, orders=orders), expected_K, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("name", USABLE)
def test_a_method_of_torchjd_gives_its_own_weights_from_the_seed_alone(name):
    if name in SOLVER and NO_SOLVER:
        pytest.skip("quadprog is not installed")
    from torchjd import aggregation

    found = find_combiner(f"torchjd.{name}")
    assert isinstance(found, ByGram)
    before = torch.get_rng_state()
    weights = [found.weigh(gram(3, 4), "7/0/41/combine") for _ in range(2)]
    assert torch.equal(weights[0], weights[1]) and torch.equal(torch.get_rng_state(), before)
    if name != "PCGrad":  # which draws
        assert torch.equal(weights[0], getattr(aggregation, f"{name}Weighting")()(gram(3, 4)))


def test_upgrad_by_hand():
    """Of two opposed gradients, each is projected onto the other's normal plane and then halved."""
    if NO_SOLVER:
        pytest.skip("quadprog is not installed")
    g_KP = torch.tensor([[1.0, 0.0], [-1.0, 1.0]], dtype=torch.float64)
    weights_K = find_combiner("torchjd.UPGrad").weigh(g_KP @ g_KP.T, "0")
    torch.testing.assert_close(
        weights_K @ g_KP, torch.tensor([0.25, 0.75], dtype=torch.float64), atol=1e-3, rtol=0
    )  # torchjd adds 1e-4 to the diagonal


def mistake(tiny_recipe, name: str) -> str:
    with pytest.raises(RecipeError) as caught:
        as_recipe(tiny_recipe(schedule={"name": "together", "combine": name}), None, None, ())
    (found,) = caught.value.mistakes
    assert "schedule.combine: " in found
    return found.partition("schedule.combine: ")[2]


LIST = "of torchjd there are " + ", ".join(f"torchjd.{name}" for name in USABLE)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("UPGrd", "unknown name 'torchjd.UPGrd'"),
        ("Aggregator", "unknown name 'torchjd.Aggregator'"),
        ("UPGradWeighting", "unknown name 'torchjd.UPGradWeighting'"),
        ("", "unknown name 'torchjd.'"),
        ("GradDrop", "torchjd.GradDrop does not weigh the tasks by the products of their gradients"),
        ("Random", "torchjd.Random does not weigh the tasks by the products of their gradients"),
        ("NashMTL", "torchjd.NashMTL does not weigh the tasks by the products of their gradients"),
        ("GradVac", "torchjd.GradVac remembers earlier steps, which a run that goes on would have lost"),
        ("CAGrad", "torchjd.CAGrad needs c, which a recipe cannot give"),
        ("Krum", "torchjd.Krum needs n_byzantine, which a recipe cannot give"),
    ],
)
def test_a_method_that_cannot_be_used_is_refused_with_those_that_can(name, why, tiny_recipe):
    assert mistake(tiny_recipe, f"torchjd.{name}") == f"{why}; {LIST}"


def test_without_torchjd_the_recipe_is_refused_with_one_sentence(tiny_recipe, monkeypatch):
    for module in [name for name in sys.modules if name.partition(".")[0] == "torchjd"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "torchjd", None)
    found = mistake(tiny_recipe, "torchjd.MGDA")
    assert found == 'torchjd.MGDA needs the package torchjd; pip install "plait[torchjd]"'


def test_without_its_solver_a_method_says_so(tiny_recipe, monkeypatch):
    from torchjd import _mixins

    monkeypatch.setattr(_mixins, "find_spec", lambda name: None)
    found = mistake(tiny_recipe, "torchjd.UPGrad")
    assert found.startswith('torchjd.UPGrad needs more packages; pip install "plait[torchjd]" (')
    assert "quadprog" in found


def test_torchjd_is_imported_only_when_it_is_named(tiny_recipe, monkeypatch):
    for module in [name for name in sys.modules if name.partition(".")[0] == "torchjd"]:
        monkeypatch.delitem(sys.modules, module)
    as_recipe(tiny_recipe(schedule={"name": "together", "combine": "surgery"}), None, None, ())
    assert "torchjd" not in sys.modules


def test_a_run_with_a_method_of_torchjd_ends_in_the_same_bits_each_time(tiny_recipe, tmp_path):
    for name in ("PCGrad", "MGDA"):
        recipe = tiny_recipe(schedule={"name": "together", "combine": f"torchjd.{name}"}, epochs=1)
        texts = []
        for number in range(2):
            plait.train(recipe, tmp_path / f"{name}-{number}", baselines=False)
            texts.append((tmp_path / f"{name}-{number}/best/model.safetensors").read_bytes())
        assert texts[0] == texts[1]
