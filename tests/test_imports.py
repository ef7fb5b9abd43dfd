"""Imports go one way, importing plait is light, and `__all__` is the truth."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import plait

SOURCE = Path(plait.__file__).parent
# Each part may import the parts below it; those in one row do not import each other, but for the pairs allowed.
LEVELS = [
    {"errors"},
    {"recipe"},
    {"data", "encoder", "heads", "losses", "schedules", "gradients"},
    {"model"},
    {"training", "evaluation", "inference", "export"},
    {"experiments"},
    {"cli"},
]
ALLOWED = {("training", "evaluation")}
ONLY_ERRORS = {"losses", "heads", "gradients"}
NEVER = {("inference", "losses"), ("inference", "gradients"), ("inference", "training")}


def imports_of(path: Path, everywhere: bool = True) -> set[str]:
    """The parts of plait that a file imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = ast.walk(tree) if everywhere else tree.body
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides where it goes"
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("plait.")}
    return found


def parts() -> list[tuple[str, Path]]:
    files = [
        path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem not in ("__init__", "__main__")
    ]
    return [(path.relative_to(SOURCE).parts[0].removesuffix(".py"), path) for path in sorted(files)]


@pytest.mark.parametrize(("part", "path"), parts(), ids=lambda value: value if isinstance(value, str) else value.stem)
def test_imports_go_one_way(part, path):
    level = {name: number for number, names in enumerate(LEVELS) for name in names}
    assert part in level, f"{part} has no place in the order of imports"
    for other in imports_of(path) - {part}:
        allowed = level[other] < level[part] or (part, other) in ALLOWED
        assert allowed, f"{path.relative_to(SOURCE)} imports {other}, which is not below {part}"
        assert part not in ONLY_ERRORS or other == "errors", f"{path.name} imports {other}; {part} is to stay pure"
        assert (part, other) not in NEVER, f"{path.name} imports {other}"


def test_importing_plait_does_not_import_torch():
    code = (
        "import sys, plait, plait.cli.main; print([name for name in ('torch', 'rich', 'numpy') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


MODULES = [module.name for module in pkgutil.walk_packages(plait.__path__, "plait.") if module.name != "plait.__main__"]


@pytest.mark.parametrize("name", ["plait", *MODULES])
def test_all_is_the_truth(name):
    module = importlib.import_module(name)
    public = getattr(module, "__all__", None)
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    if public is None:
        assert not defined, f"{name} defines {defined[0].name} and has no __all__"
        return
    assert (
        public == sorted(public, key=lambda word: (not word.isupper(), not word[0].isupper(), word)) or name == "plait"
    )
    for word in public:
        assert hasattr(module, word), f"{name}.__all__ names {word}, which is not there"


def test_public_names_are_documented_and_typed():
    assert (SOURCE / "py.typed").is_file()
    for name in plait.__all__:
        value = getattr(plait, name)
        assert name == "__version__" or (value.__doc__ and not value.__doc__.startswith("dict(")), (
            f"{name} has no docstring"
        )
