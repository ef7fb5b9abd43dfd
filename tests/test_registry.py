"""Named variants: their versions and their registration."""

from importlib.metadata import version

import pytest

import plait.registry
from plait.heads import HEADS
from plait.losses import LOSSES
from plait.metrics import METRICS
from plait.registry import Package, Registry, split_version
from plait.schedules import SCHEDULES

NO_GROUP = "plait.no_package_adds_to_this"


def build_registry(group: str = NO_GROUP) -> Registry[str]:
    return Registry("head", group, {"linear": "first", "linear.v2": "second", "cosine": "only"})


# Versions


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("linear", ("linear", None)),
        ("linear.v2", ("linear", 2)),
        ("joined_both.v10", ("joined_both", 10)),
        ("linear.v0", ("linear.v0", None)),  # versions start at 1
        ("linear.2", ("linear.2", None)),
        ("two words.v1", ("two words.v1", None)),
    ],
)
def test_name_is_split_from_its_version(name, parts):
    assert split_version(name) == parts


def test_bare_name_means_the_newest_version():
    registry = build_registry()
    assert [registry[name] for name in ("linear", "linear.v1", "linear.v2")] == ["second", "first", "second"]
    assert [registry[name] for name in ("cosine", "cosine.v1")] == ["only", "only"]


def test_full_name_carries_the_version():
    registry = build_registry()
    assert [registry.versioned(name) for name in ("linear", "linear.v1", "cosine")] == [
        "linear.v2",
        "linear.v1",
        "cosine.v1",
    ]


def test_iterating_gives_bare_names():
    registry = build_registry()
    assert list(registry) == ["linear", "cosine"] and len(registry) == 2
    assert dict(registry) == {"linear": "second", "cosine": "only"}


def test_versions_are_members_and_unknown_names_are_not():
    registry = build_registry()
    assert all(name in registry for name in ("linear", "linear.v1", "linear.v2", "cosine.v1"))
    assert not any(name in registry for name in ("linear.v3", "cosine.v2", "linea", "linear.v0", 3))
    for name in ("linear.v3", "linea"):
        with pytest.raises(KeyError):
            registry[name]
        with pytest.raises(KeyError):
            registry.versioned(name)


def test_unknown_version_is_answered_with_the_known_ones():
    registry = build_registry()
    assert registry.unknown("linear.v9") == "the head 'linear' has no version 9; there are: v1, v2"
    assert registry.unknown("cosine.v2") == "the head 'cosine' has no version 2; there are: v1"


def test_unknown_name_is_answered_with_the_closest_or_all():
    registry = build_registry()
    assert registry.unknown("linaer") == "unknown name 'linaer'; did you mean 'linear'?"
    assert registry.unknown("x") == "unknown name 'x'; allowed: cosine, linear"


@pytest.mark.parametrize("registry", [HEADS, LOSSES, SCHEDULES, METRICS], ids=lambda registry: registry.what)
def test_every_variant_of_plait_itself_has_a_first_version_and_no_package(registry):
    second = {"info_nce"}
    for name in registry:
        newest = f"{name}.v2" if name in second else f"{name}.v1"
        assert registry[newest] is registry[name] and registry.versioned(name) == newest
        assert f"{name}.v1" in registry and registry.package(name) is None


# Registration


def test_registered_variant_is_found_with_the_package_of_its_module():
    registry = build_registry()
    registry.register("product", "numpy's", "numpy.linalg")
    assert registry["product"] == registry["product.v1"] == "numpy's"
    assert registry.package("product") == Package("numpy", version("numpy"))
    assert str(registry.package("product")) == f"numpy {version('numpy')}"
    assert registry.package("linear") is None


def test_module_outside_any_distribution_is_its_own_package():
    registry = build_registry()
    registry.register("product", "mine", "my_experiment.heads")
    assert registry.package("product") == Package("my_experiment", None)
    assert str(registry.package("product")) == "my_experiment"


def test_new_version_of_a_package_wins_and_the_old_one_stays():
    registry = build_registry()
    registry.register("product", "old", "my_experiment")
    registry.register("product.v2", "new", "my_experiment")
    assert (registry["product"], registry["product.v1"], registry["product.v2"]) == ("new", "old", "new")


def test_package_may_register_its_own_name_again():  # as when a notebook cell runs twice
    registry = build_registry()
    registry.register("product", "old", "my_experiment.first")
    registry.register("product", "new", "my_experiment.second")
    assert registry["product"] == "new"


@pytest.mark.parametrize("name", ["linear", "linear.v1", "linear.v2", "linear.v3"])
def test_name_of_plait_itself_is_refused(name):
    registry = build_registry()
    with pytest.raises(ValueError) as caught:
        registry.register(name, "other", "numpy")
    assert str(caught.value) == "the head 'linear' is already registered by plait; choose another name"
    assert (registry["linear"], registry["linear.v1"], "linear.v3" in registry) == ("second", "first", False)


@pytest.mark.parametrize("name", ["product", "product.v1", "product.v2"])
def test_name_of_another_package_is_refused(name):
    registry = build_registry()
    registry.register("product", "numpy's", "numpy")
    with pytest.raises(ValueError) as caught:
        registry.register(name, "other", "my_experiment")
    known = f"numpy {version('numpy')}"
    assert str(caught.value) == f"the head 'product' is already registered by {known}; choose another name"
    assert registry["product"] == "numpy's"


@pytest.mark.parametrize("name", ["two words", "1st", "product.v0", "product.2", "product.v", "a.b", "", "my-head"])
def test_invalid_name_is_refused(name):
    with pytest.raises(ValueError) as caught:
        build_registry().register(name, "other", "numpy")
    expected = "expected a word such as product or product.v2"
    assert str(caught.value) == f"{name!r} cannot be the name of a head; {expected}"


def test_entry_points_are_scanned_once(monkeypatch):
    scans = []
    monkeypatch.setattr(plait.registry, "entry_points", lambda group: scans.append(group) or [])
    registry = build_registry()
    assert registry["linear"] == "second" and registry.versioned("cosine") == "cosine.v1" and scans == []
    assert "product" not in registry and "sum" not in registry
    assert list(registry) == ["linear", "cosine"] and len(registry) == 2
    assert scans == [NO_GROUP]
