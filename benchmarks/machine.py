"""The machine and the versions behind a measurement."""

import os
import subprocess
from importlib.metadata import packages_distributions, version
from pathlib import Path

from store import REPO


def machine() -> dict[str, object]:
    """The processor, its cores and the memory; Linux only."""
    with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
        facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in file)}
    with Path("/proc/meminfo").open(encoding="ascii") as file:
        memory = next(int(line.split()[1]) for line in file if line.startswith("MemTotal"))
    model, family = facts.get("model name", "unknown"), facts.get("cpu family", "?")
    widest = [name for name in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8") if has_instructions(name)]
    about = f"{model} (family {family}, model {facts.get('model', '?')}; {', '.join(widest)})"
    return {"processor": about, "cores": os.cpu_count(), "gigabytes": round(memory / 2**20, 1)}


def has_instructions(name: str) -> bool:
    """Whether the processor has an instruction set such as avx512_vnni."""
    return name in Path("/proc/cpuinfo").read_text(encoding="utf-8").split()


def versions_of(modules: tuple[str, ...]) -> dict[str, str]:
    """The versions of the packages that these modules belong to."""
    packages = packages_distributions()
    names = sorted({name for module in modules for name in packages.get(module.partition(".")[0], ())})
    return {name: version(name) for name in names}


def commit() -> str:
    """The commit that is checked out, with a + if files have changed since."""
    command = ["git", "-C", str(REPO), "describe", "--always", "--dirty=+", "--abbrev=10"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def process_megabytes(key: str) -> float:
    """A memory figure of this process, such as VmHWM, its peak; Linux only."""
    with Path("/proc/self/status").open(encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key)) / 1024
