"""Named variants of one thing (heads, losses, schedules, metrics), open to other packages.

A name may carry a version: `linear.v2`. A bare name means the newest version; what plait saves always carries its
version, so a model that was saved with version 1 keeps its meaning when version 2 arrives. All versions of a name
belong to the package that registered it first: installing another package never changes what a recipe means.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, packages_distributions, version
from pathlib import Path
from typing import Generic, TypeVar

from plait.errors import did_you_mean

__all__ = ["Package", "Registry", "split_version"]

Variant = TypeVar("Variant")
_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)(?:\.v(?P<version>[1-9]\d*))?")


@dataclass(frozen=True)
class Package:
    """The distribution that a variant comes from; a script that belongs to none has no version."""

    name: str
    version: str | None

    def __str__(self) -> str:
        return f"{self.name} {self.version}" if self.version else self.name


@dataclass(frozen=True)
class _Entry(Generic[Variant]):
    value: Variant
    package: Package | None  # None: plait itself


def split_version(name: str) -> tuple[str, int | None]:
    """`linear.v2` → ("linear", 2); `linear` → ("linear", None)."""
    found = _NAME.fullmatch(name)
    if found is None:
        return name, None
    return found["name"], int(found["version"]) if found["version"] else None


class Registry(Mapping[str, Variant]):
    """Variants by name. Iterating gives bare names; `group` is the entry-point group that other packages add to.

    `expects` is the type of a variant, or the base class if variants are classes.
    """

    def __init__(
        self, what: str, group: str, builtin: Mapping[str, Variant], *, expects: type[object] | None = None
    ) -> None:
        self.what = what
        self.group = group
        self._expects = expects
        self._entries: dict[str, dict[int, _Entry[Variant]]] = {}
        self._broken: dict[str, str] = {}  # bare name → why the entry point of that name cannot be loaded
        self._scanned = False
        for name, value in builtin.items():
            self._add(name, value, None)

    def __getitem__(self, name: str) -> Variant:
        return self._entry(name).value

    def __iter__(self) -> Iterator[str]:
        self._scan()
        return iter(self._entries)

    def __len__(self) -> int:
        self._scan()
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def versioned(self, name: str) -> str:
        """The full name of a variant: `linear` → `linear.v1`."""
        self._entry(name)
        bare, number = split_version(name)
        return f"{bare}.v{number or max(self._entries[bare])}"

    def package(self, name: str) -> Package | None:
        """The package that registered a variant; None for plait's own."""
        return self._entry(name).package

    def register(self, name: str, value: Variant, module: str) -> None:
        """Add a variant that is defined in `module`; its name may carry a version, the first is 1."""
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} cannot be the name of a {self.what}; expected a word such as product or product.v2"
            )
        self._scan()
        self._add(name, value, _package_of(module, self.group))

    def unknown(self, name: str) -> str:
        """A message about a name that is not registered."""
        bare, number = split_version(name)
        if bare in self._broken:
            return f"the {self.what} {bare!r} cannot be loaded: {self._broken[bare]}"
        if number and bare in self:
            there = ", ".join(f"v{known}" for known in sorted(self._entries[bare]))
            return f"the {self.what} {bare!r} has no version {number}; there are: {there}"
        return f"unknown name {name!r}; {did_you_mean(name, self)}"

    def _entry(self, name: str) -> _Entry[Variant]:
        found = self._find(name)
        if found is None:
            raise KeyError(name)
        return found

    def _find(self, name: str) -> _Entry[Variant] | None:
        bare, number = split_version(name)
        if bare not in self._entries:  # looking at other packages takes time, and plait's own names do not need it
            self._scan()
        versions = self._entries.get(bare, {})
        return versions.get(number or max(versions, default=0))

    def _add(self, name: str, value: Variant, package: Package | None) -> None:
        bare, number = split_version(name)
        versions = self._entries.setdefault(bare, {})
        if versions:
            owner = next(iter(versions.values())).package
            twice = owner is None and (number or 1) in versions  # other packages may replace theirs, as notebooks do
            if twice or (owner and owner.name) != (package and package.name):
                raise ValueError(
                    f"the {self.what} {bare!r} is already registered by {owner or 'plait'}; choose another name"
                )
        versions[number or 1] = _Entry(value, package)
        self._broken.pop(bare, None)

    def _scan(self) -> None:
        """Load the entry points of other packages, once."""
        if self._scanned:
            return
        self._scanned = True
        for point in entry_points(group=self.group):
            package = Package(point.dist.name, point.dist.version) if point.dist else Package(point.module, None)
            try:
                value = point.load()
                if not self._has(point.name, package):  # otherwise a decorator in its module has registered it
                    self._check(value)
                    self._add(point.name, value, package)
            except Exception as error:  # a broken package must not keep plait from working
                bare, _ = split_version(point.name)
                self._broken[bare] = f"the package {package} failed: {type(error).__name__}: {error}"

    def _has(self, name: str, package: Package) -> bool:
        """Whether this package has registered this name and version."""
        bare, number = split_version(name)
        entry = self._entries.get(bare, {}).get(number or 1)
        return entry is not None and entry.package == package

    def _check(self, value: object) -> None:
        expects = self._expects
        if expects is None or isinstance(value, expects) or (isinstance(value, type) and issubclass(value, expects)):
            return
        raise TypeError(f"expected a {expects.__name__}, found {value!r}; decorate it with plait.register_{self.what}")


@cache
def _package_of(module: str, group: str) -> Package:
    """The distribution that a module belongs to: the one with an entry point into it, or that lists it as its own."""
    top = module.partition(".")[0]
    if top == "__main__":
        script = getattr(sys.modules["__main__"], "__file__", None)
        return Package(Path(script).name if script else "an interactive session", None)
    for point in entry_points(group=group):  # editable installs do not list their modules
        if point.dist and point.module.partition(".")[0] == top:
            return Package(point.dist.name, point.dist.version)
    for name in packages_distributions().get(top, ()):
        try:
            return Package(name, version(name))
        except PackageNotFoundError:
            continue
    return Package(top, None)
