"""plait's surgery against torchjd's PCGrad, and torchjd's methods in a recipe."""

import itertools
import sys
from importlib.util import find_spec

import pytest
import torch

import plait
from plait.errors import RecipeError
from plait.gradients.combine import ByGram, find_combiner, surgery
from plait.training.given_recipe import as_recipe
from properties import assert_no_task_is_harmed

pytestmark = pytest.mark.skipif(find_spec("torchjd") is None, reason="torchjd is not installed")

SCALES = [1e-6, 1e-3, 1.0, 1e5, 1e15]
USABLE = ["AlignedMTL", "DualProj", "IMTLG", "MGDA", "PCGrad", "UPGrad"]
SOLVER = {"DualProj", "UPGrad"}  # need quadprog
NON_CONFLICTING = {"DualProj", "MGDA", "UPGrad"}  # for any number of tasks
NO_SOLVER = find_spec("quadprog") is None or find_spec("qpsolvers") is None


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    """find_combiner caches the methods that it finds."""
    find_combiner.cache_clear()


def gram(tasks: int, seed: int, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    g_KP = scale * torch.randn(tasks, 7, generator=generator, dtype=torch.float64)
    return g_KP @ g_KP.T


@pytest.mark.parametrize("tasks", [1, 2, 3, 4, 5])
def test_weights_of_surgery_are_those_of_pcgrad_divided_by_the_number_of_tasks(tasks):
    from torchjd.aggregation import PCGradWeighting

    conflicts = 0
    for seed, scale in itertools.product(range(30), SCALES):
        gram_KK = gram(tasks, seed, scale)
        conflicts += bool((gram_KK < 0).any())
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            expected_K = PCGradWeighting()(gram_KK) / tasks
            torch.manual_seed(seed)  # it draws one permutation of all tasks per task
            orders = [torch.randperm(tasks).tolist() for _ in range(tasks)]
        torch.testing.assert_close(surgery(gram_KK, orders=orders), expected_K, atol=1e-12, rtol=1e-12)
    assert conflicts or tasks == 1


@pytest.mark.parametrize("tasks", [2, 3])
def test_weights_with_a_zero_gradient_are_those_of_pcgrad(tasks):
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
def test_weights_of_torchjd_follow_from_the_seed_alone(name):
    if name in SOLVER and NO_SOLVER:
        pytest.skip("quadprog is not installed")
    from torchjd import aggregation

    found = find_combiner(f"torchjd.{name}")
    assert isinstance(found, ByGram)
    before = torch.get_rng_state()
    weights = [found.weigh(gram(3, 4), "7/0/41/combine") for _ in range(2)]
    assert torch.equal(weights[0], weights[1]) and torch.equal(torch.get_rng_state(), before)
    if name != "PCGrad":  # draws random orders
        assert torch.equal(weights[0], getattr(aggregation, f"{name}Weighting")()(gram(3, 4)))


def test_upgrad_by_hand():
    """Each of two conflicting gradients is projected onto the normal plane of the other; then the mean."""
    if NO_SOLVER:
        pytest.skip("quadprog is not installed")
    g_KP = torch.tensor([[1.0, 0.0], [-1.0, 1.0]], dtype=torch.float64)
    weights_K = find_combiner("torchjd.UPGrad").weigh(g_KP @ g_KP.T, "0")
    torch.testing.assert_close(
        weights_K @ g_KP, torch.tensor([0.25, 0.75], dtype=torch.float64), atol=1e-3, rtol=0
    )  # torchjd adds 1e-4 to the diagonal


@pytest.mark.parametrize("name", sorted(NON_CONFLICTING))
def test_methods_of_torchjd_harm_no_task(name):
    if name in SOLVER and NO_SOLVER:
        pytest.skip("quadprog is not installed")
    combiner = find_combiner(f"torchjd.{name}")
    for tasks, seed in itertools.product([2, 3, 4], range(10)):
        g_KP = torch.randn(tasks, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        # torchjd adds 1e-4 to the diagonal for its solver, and MGDA stops after some iterations
        assert_no_task_is_harmed(lambda gram_KK: combiner.weigh(gram_KK, "0"), g_KP, tolerance=2e-3)


def mistake(tiny_recipe, name: str) -> str:
    with pytest.raises(RecipeError) as caught:
        as_recipe(tiny_recipe(schedule={"name": "together", "combine": name}), None, None, ())
    (found,) = caught.value.mistakes
    assert "schedule.combine: " in found
    return found.partition("schedule.combine: ")[2]


LIST = "available from torchjd: " + ", ".join(f"torchjd.{name}" for name in USABLE)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("UPGrd", "unknown name 'torchjd.UPGrd'"),
        ("Aggregator", "unknown name 'torchjd.Aggregator'"),
        ("UPGradWeighting", "unknown name 'torchjd.UPGradWeighting'"),
        ("", "unknown name 'torchjd.'"),
        ("GradDrop", "torchjd.GradDrop does not weight tasks by the Gram matrix of their gradients"),
        ("Random", "torchjd.Random does not weight tasks by the Gram matrix of their gradients"),
        ("NashMTL", "torchjd.NashMTL does not weight tasks by the Gram matrix of their gradients"),
        ("GradVac", "torchjd.GradVac keeps a state between steps, which a resumed run would lose"),
        ("CAGrad", "torchjd.CAGrad needs c, which a recipe cannot give"),
        ("Krum", "torchjd.Krum needs n_byzantine, which a recipe cannot give"),
    ],
)
def test_unusable_method_is_refused_with_a_list_of_usable_ones(name, why, tiny_recipe):
    assert mistake(tiny_recipe, f"torchjd.{name}") == f"{why}; {LIST}"


def test_without_torchjd_the_recipe_is_refused(tiny_recipe, monkeypatch):
    for module in [name for name in sys.modules if name.partition(".")[0] == "torchjd"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "torchjd", None)
    found = mistake(tiny_recipe, "torchjd.MGDA")
    assert found == 'torchjd.MGDA needs the package torchjd; pip install "plait[torchjd]"'


def test_method_without_its_solver_is_refused(tiny_recipe, monkeypatch):
    from torchjd import _mixins

    monkeypatch.setattr(_mixins, "find_spec", lambda name: None)
    found = mistake(tiny_recipe, "torchjd.UPGrad")
    assert found.startswith('torchjd.UPGrad needs more packages; pip install "plait[torchjd]" (')
    assert "quadprog" in found


def test_torchjd_is_imported_only_if_a_recipe_names_it(tiny_recipe, monkeypatch):
    for module in [name for name in sys.modules if name.partition(".")[0] == "torchjd"]:
        monkeypatch.delitem(sys.modules, module)
    as_recipe(tiny_recipe(schedule={"name": "together", "combine": "surgery"}), None, None, ())
    assert "torchjd" not in sys.modules


def test_run_with_a_method_of_torchjd_gives_equal_weights_every_time(tiny_recipe, tmp_path):
    for name in ("PCGrad", "MGDA"):
        recipe = tiny_recipe(schedule={"name": "together", "combine": f"torchjd.{name}"}, epochs=1)
        texts = []
        for number in range(2):
            plait.train(recipe, tmp_path / f"{name}-{number}", baselines=False)
            texts.append((tmp_path / f"{name}-{number}/best/model.safetensors").read_bytes())
        assert texts[0] == texts[1]
