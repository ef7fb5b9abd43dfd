"""Variants from the entry points of other packages, each test in a new process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SHAPES = '''
"""A head, a loss, a schedule and a metric from another package."""

from torch import nn

from plait.heads import Head, Size
from plait.losses import Loss
from plait.metrics import Metric
from plait.schedules import Schedule


class Product(Head):
    reads = "apart"
    symmetric = True

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.linear = nn.Linear(size.width, size.outputs)

    def forward(self, u_BD, v_BD):
        return self.linear(u_BD * v_BD)


def absolute(outputs_BC, label_B, class_weights_C, label_smoothing):
    return (outputs_BC.squeeze(-1) - label_B).abs().mean()


def backwards(batches, epochs, seed):
    return [[(task,) for task in reversed(batches) for _ in range(batches[task])] for _ in range(epochs)]


ABSOLUTE = Loss(absolute, {"score": "identity"})
BACKWARDS = Schedule(backwards)
NEGATIVE_ERROR = Metric({"score": lambda labels, predictions, probabilities: -abs(labels - predictions).mean()})
'''
SHAPES_ENTRY_POINTS = """
[plait.heads]
product = plait_shapes:Product
product.v2 = plait_shapes:Product

[plait.losses]
absolute = plait_shapes:ABSOLUTE

[plait.schedules]
backwards = plait_shapes:BACKWARDS

[plait.metrics]
negative_error = plait_shapes:NEGATIVE_ERROR
"""


def install(site: Path, distribution: str, entry_points: str, **modules: str) -> None:
    """A distribution as pip would install it in a folder of sys.path."""
    info = site / f"{distribution.replace('-', '_')}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(entry_points)
    (info / "RECORD").write_text("".join(f"{name}.py,,\n" for name in modules))
    for name, code in modules.items():
        (site / f"{name}.py").write_text(code)


@pytest.fixture
def run(tmp_path: Path) -> Callable[[str], Any]:
    """Run code in a new process that has plait-shapes installed; returns what it prints as JSON."""
    site = tmp_path / "site"
    install(site, "plait-shapes", SHAPES_ENTRY_POINTS, plait_shapes=SHAPES)

    def run_code(code: str, script: Path | None = None) -> Any:
        path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
        if script:
            script.write_text(code)
        command = [sys.executable, "-W", "error", *([str(script)] if script else ["-c", code])]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run_code


def test_variants_of_another_package_are_found_without_importing_it(run):
    found = run("""
import json, sys
from plait.heads import HEADS
from plait.losses import LOSSES
from plait.metrics import METRICS
from plait.schedules import SCHEDULES

before = "plait_shapes" in sys.modules
names = {"product": HEADS, "absolute": LOSSES, "backwards": SCHEDULES, "negative_error": METRICS}
print(json.dumps({
    "imported before": before,
    "found": {name: name in registry for name, registry in names.items()},
    "listed": {name: name in list(registry) for name, registry in names.items()},
    "packages": sorted({str(registry.package(name)) for name, registry in names.items()}),
    "head": [HEADS["product"].__module__, HEADS.versioned("product"), HEADS.versioned("product.v1")],
    "values": [type(LOSSES["absolute"]).__name__, type(SCHEDULES["backwards"]).__name__,
               type(METRICS["negative_error"]).__name__],
}))
""")
    names = ("product", "absolute", "backwards", "negative_error")
    assert found == {
        "imported before": False,
        "found": dict.fromkeys(names, True),
        "listed": dict.fromkeys(names, True),
        "packages": ["plait-shapes 1.2"],
        "head": ["plait_shapes", "product.v2", "product.v1"],
        "values": ["Loss", "Schedule", "Metric"],
    }


def test_recipe_may_name_variants_of_another_package(run, tiny_recipe, tmp_path):
    recipe = tiny_recipe(schedule="backwards", epochs=1)
    recipe["tasks"]["near"] |= {"head": "product", "loss": "absolute", "metric": "negative_error"}
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    scores, packages = run(f"""
import json, plait
from pathlib import Path

recipe = json.loads(Path({str(tmp_path / "recipe.json")!r}).read_text())
result = plait.train(recipe, {str(tmp_path / "run")!r}, baselines=False)
model = json.loads((result.model / "plait.json").read_text())
print(json.dumps([list(result.scores["near"]), model["packages"]]))
""")
    assert set(scores) == {"pearson", "spearman", "negative_error"}
    assert packages == {"product.v2": {"name": "plait-shapes", "version": "1.2"}}


def test_names_of_plait_itself_are_found_without_scanning_entry_points(run):
    found = run("""
import json, sys
from plait.heads import HEADS
found = [HEADS["linear"].__name__, "linear.v1" in HEADS, HEADS.versioned("cosine"), HEADS.package("dot")]
print(json.dumps([found, "plait_shapes" in sys.modules]))
""")
    assert found == [["Linear", True, "cosine.v1", None], False]


BROKEN_ENTRY_POINTS = """
[plait.heads]
missing = plait_no_such_module:Head
failing = plait_failing:Head
without = plait_shapes:NoSuchHead
linear = plait_shapes:Product

[plait.losses]
undecorated = plait_shapes:absolute
"""


def test_broken_entry_point_is_reported_and_does_not_break_the_rest(run, tmp_path):
    failing = "raise RuntimeError('no licence')\n"
    install(tmp_path / "site", "plait-broken", BROKEN_ENTRY_POINTS, plait_failing=failing)
    found = run("""
import json
from plait.heads import HEADS
from plait.losses import LOSSES

names = ("missing", "failing", "without", "failing.v1")
print(json.dumps({
    "found": [name in HEADS for name in names],
    "messages": [HEADS.unknown(name) for name in names],
    "listed": sorted(set(HEADS) & {*names, "linear", "product"}),
    "linear": [HEADS["linear"].__module__, HEADS["product"].__module__],
    "loss": ["undecorated" in LOSSES, "absolute" in LOSSES, LOSSES.unknown("undecorated")],
}))
""")
    assert found["found"] == [False] * 4
    missing, fails, without, versioned = found["messages"]
    cannot = "cannot be loaded: the package plait-broken 1.2 failed: "
    assert missing == f"the head 'missing' {cannot}ModuleNotFoundError: No module named 'plait_no_such_module'"
    assert fails == versioned == f"the head 'failing' {cannot}RuntimeError: no licence"
    assert without.startswith(f"the head 'without' {cannot}AttributeError: ")
    assert found["listed"] == ["linear", "product"]
    assert found["linear"] == ["plait.heads.single", "plait_shapes"]
    assert found["loss"][:2] == [False, True]
    assert found["loss"][2].startswith(f"the loss 'undecorated' {cannot}TypeError: expected a Loss, found <function ")
    assert found["loss"][2].endswith("; decorate it with plait.register_loss")


def test_first_of_two_packages_with_one_name_keeps_it(run, tmp_path):
    install(tmp_path / "site", "plait-copy", "[plait.heads]\nproduct = plait_copy:Product\n", plait_copy=SHAPES)
    found = run("""
import json
from plait.heads import HEADS
print(json.dumps([HEADS["product.v1"].__module__, str(HEADS.package("product.v1"))]))
""")
    assert found in (["plait_shapes", "plait-shapes 1.2"], ["plait_copy", "plait-copy 1.2"])


DECORATED = """
import plait


@plait.register_loss("absolute", links={"score": "identity"})
def absolute(outputs_BC, label_B, class_weights_C, label_smoothing):
    return (outputs_BC.squeeze(-1) - label_B).abs().mean()
"""


def test_entry_point_may_refer_to_what_a_decorator_registers(run, tmp_path):
    entry_points = "[plait.losses]\nabsolute_error = plait_decorated:absolute\nabsolute_error.v2 = plait_decorated:v2\n"
    decorated = DECORATED.replace('"absolute"', '"absolute_error"') + "\nv2 = plait.losses.LOSSES['mse']\n"
    install(tmp_path / "site", "plait-decorated", entry_points, plait_decorated=decorated)
    found = run("""
import json
from plait.losses import LOSSES
first = LOSSES["absolute_error.v1"]
print(json.dumps([type(first).__name__, first.function.__module__, str(LOSSES.package("absolute_error")),
                  LOSSES.versioned("absolute_error")]))
""")
    assert found == ["Loss", "plait_decorated", "plait-decorated 1.2", "absolute_error.v2"]


def test_module_registers_variants_when_it_is_imported(run, tmp_path):
    (tmp_path / "site" / "my_losses.py").write_text(DECORATED.replace('"absolute"', '"my_absolute"'))
    found = run("""
import json
from plait.losses import LOSSES
before = "my_absolute" in LOSSES
import my_losses
print(json.dumps([before, "my_absolute" in LOSSES, str(LOSSES.package("my_absolute"))]))
""")
    assert found == [False, True, "my_losses"]


def test_importing_a_module_that_takes_a_known_name_fails(run, tmp_path):
    (tmp_path / "site" / "my_losses.py").write_text(DECORATED)
    found = run("""
import json
from plait.losses import LOSSES
try:
    import my_losses
except ValueError as error:
    print(json.dumps([str(error), LOSSES["absolute"].function.__module__]))
""")
    assert found == [
        "the loss 'absolute' is already registered by plait-shapes 1.2; choose another name",
        "plait_shapes",
    ]


def test_variant_of_a_script_belongs_to_the_script(run, tmp_path):
    code = (
        DECORATED.replace('"absolute"', '"my_absolute"')
        + """
import json
from plait.losses import LOSSES
print(json.dumps(str(LOSSES.package("my_absolute"))))
"""
    )
    assert run(code) == "an interactive session"
    assert run(code, tmp_path / "my_script.py") == "my_script.py"
