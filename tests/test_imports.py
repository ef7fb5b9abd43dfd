"""Imports go one way, importing plait is light, and `__all__` lists exactly what a module offers."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import plait

SOURCE = Path(plait.__file__).parent
# A part may import the parts of lower levels; parts of one level do not import each other.
LEVELS = [
    {"errors"},
    {"files", "html_table", "names", "processes", "progress", "registry", "thread_pool", "world"},
    {"measurement_cache"},
    {"recipe"},
    {"data", "encoder", "heads", "losses", "schedules", "gradients", "metrics", "optimizers"},
    {"model"},
    {"runs", "plugins"},
    {"resolve", "evaluation", "inference", "export"},
    {"search"},
    {"training", "drafting", "serving"},
    {"experiments", "sklearn"},
    {"reporting"},
    {"cli"},
]
PURE = {"losses", "heads", "gradients"}  # functions of tensors: they import torch and these parts of plait only
ALLOWED_IN_PURE = {"errors", "registry"}
NEVER = {(part, other) for part in ("inference", "serving") for other in ("losses", "gradients", "training")}

MODULES = [
    "plait",
    *(found.name for found in pkgutil.walk_packages(plait.__path__, "plait.") if found.name != "plait.__main__"),
]
# Names that a package offers again, so that others need not know which of its modules defines them.
REEXPORTS = {
    "plait": set(plait.__all__),
    "plait.heads": {"Head", "Size"},
    "plait.losses": {"Loss"},
    "plait.training.train": {"Stopped"},
}


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path: Path) -> set[str]:
    """The parts of plait that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides what it refers to"
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("plait.")}
    return found


def parts() -> list[tuple[str, Path]]:
    """Every file of plait with the part that it belongs to."""
    files = [
        path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem not in ("__init__", "__main__")
    ]
    return [(path.relative_to(SOURCE).parts[0].removesuffix(".py"), path) for path in sorted(files)]


def path_of(name: str) -> Path:
    return Path(importlib.import_module(name).__file__)


def public_definitions(name: str) -> list[str]:
    """The functions and classes at the top level of a module that do not start with an underscore."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return [node.name for node in tree_of(path_of(name)).body if isinstance(node, kinds) and node.name[0] != "_"]


# ---------------------------------------------------------------- imports


@pytest.mark.parametrize(
    ("part", "path"), parts(), ids=lambda value: value if isinstance(value, str) else str(value.relative_to(SOURCE))
)
def test_imports_go_one_way(part, path):
    level = {name: number for number, names in enumerate(LEVELS) for name in names}
    assert part in level, f"{part} has no level"
    for other in imports_of(path) - {part}:
        assert level[other] < level[part], f"{path.relative_to(SOURCE)} imports {other}, which is not below {part}"
        if part in PURE:
            assert other in ALLOWED_IN_PURE, f"{path.relative_to(SOURCE)} imports {other}, but {part} must stay pure"
        assert (part, other) not in NEVER, f"{path.relative_to(SOURCE)} imports {other}"


def test_every_part_has_one_level():
    names = [name for names in LEVELS for name in names]
    assert sorted(names) == sorted({part for part, _ in parts()})


def test_the_documented_order_is_the_tested_one():
    """docs/architecture.md may put neighbouring levels without braces; the order of the names must agree."""
    page = (SOURCE.parent.parent / "docs/architecture.md").read_text(encoding="utf-8")
    block = page.partition("## Import order")[2].partition("```")[2].partition("```")[0]
    listed = [
        {name.strip() for name in names.strip().strip("{}").split(",")} for names in block.replace("\n", " ").split("<")
    ]
    assert listed[1:] == LEVELS[2:]
    assert listed[0] == LEVELS[0] | LEVELS[1]


def test_importing_plait_does_not_import_torch():
    code = (
        "import sys, plait, plait.cli.main; print([name for name in ('torch', 'rich', 'numpy') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


# ---------------------------------------------------------------- __all__


@pytest.mark.parametrize("name", MODULES)
def test_all_is_sorted_and_every_name_in_it_exists(name):
    module = importlib.import_module(name)
    public = getattr(module, "__all__", [])
    by_kind = sorted(public, key=lambda word: (not word.isupper(), not word[0].isupper(), word))
    assert public == by_kind or name == "plait"
    assert len(set(public)) == len(public)
    for word in public:
        assert hasattr(module, word), f"{name}.__all__ lists {word}, which does not exist"


@pytest.mark.parametrize("name", MODULES)
def test_all_lists_every_public_function_and_class(name):
    if name == "plait":
        return  # its functions __getattr__ and __dir__ make the public names load on first use
    listed = getattr(importlib.import_module(name), "__all__", [])
    missing = [word for word in public_definitions(name) if word not in listed]
    assert not missing, f"{name}: list {', '.join(missing)} in __all__, or start them with an underscore"


def test_no_two_modules_define_the_same_public_name():
    """A name must be enough to find what it means; each command is called `command` in its own module."""
    defined: dict[str, list[str]] = {}
    for name in MODULES:
        for word in getattr(importlib.import_module(name), "__all__", []):
            is_command = word == "command" and name.startswith("plait.cli.")
            if not is_command and word not in REEXPORTS.get(name, ()):
                defined.setdefault(word, []).append(name)
    twice = {word: modules for word, modules in defined.items() if len(modules) > 1}
    assert twice == {}


@pytest.mark.parametrize(("name", "words"), REEXPORTS.items())
def test_reexports_are_defined_elsewhere(name, words):
    module = importlib.import_module(name)
    own = {*public_definitions(name), *(["__version__"] if name == "plait" else [])}
    for word in words - own:
        value = getattr(module, word)
        assert value.__module__ != name, f"{name} defines {word} itself"
    assert words <= set(module.__all__)


def test_public_names_are_documented_and_typed():
    assert (SOURCE / "py.typed").is_file()
    for name in plait.__all__:
        value = getattr(plait, name)
        assert name == "__version__" or (value.__doc__ and not value.__doc__.startswith("dict(")), (
            f"{name} has no docstring"
        )
