"""One model used by eight threads with mixed tasks and limits, after fork, by pickle, and 10,000 times."""

import os
import pickle
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from faults.bench import Bench
from tiny import sentences

__all__ = ["CALLS", "check"]

ROW, CALLS, THREADS = "threads", 10_000, 8
GROWTH = 20.0  # megabytes that 10,000 calls may add


def _limited(place: Path, bench: Bench) -> None:
    """A model whose tasks truncate texts to 8, 20 and 40 tokens."""
    from plait.training.train import train

    recipe = bench.recipe()
    tasks = {
        name: {**task, "max_length": limit}
        for (name, task), limit in zip(recipe["tasks"].items(), (8, 20, 40), strict=True)
    }
    train({**recipe, "tasks": tasks}, place, baselines=False)


def _jobs(count: int) -> list[tuple[str, list[object]]]:
    chance, texts = random.Random(7), sentences(200, seed=9, longest=60)
    jobs: list[tuple[str, list[object]]] = []
    for _ in range(count):
        task, rows = chance.choice(["mood", "same", "near", "embed"]), chance.randint(1, 3)
        pair = task in ("same", "near")
        jobs.append((task, [tuple(chance.sample(texts, 2)) if pair else chance.choice(texts) for _ in range(rows)]))
    return jobs


def _answer(model: object, job: tuple[str, list[object]]) -> str:
    task, rows = job
    if task == "embed":
        return repr(model.embed(rows).tolist())  # type: ignore[attr-defined]
    return repr(list(model.predict(task, rows)))  # type: ignore[attr-defined]


def _wrong(bench: Bench, calls: int, warm: int = 0) -> tuple[int, float]:
    """How many answers of threads differ from those of one thread, and the megabytes that they cost."""
    from plait.inference.predictor import load

    model = load(bench.once("limits", lambda place: _limited(place, bench)), engine="torch")
    jobs = _jobs(250)
    expected = [_answer(model, job) for job in jobs]

    def is_wrong(call: int) -> bool:
        return _answer(model, jobs[call % len(jobs)]) != expected[call % len(jobs)]

    with ThreadPoolExecutor(THREADS) as pool:
        wrong = sum(pool.map(is_wrong, range(warm)))
        before = _megabytes()
        return wrong + sum(pool.map(is_wrong, range(calls))), _megabytes() - before


def few_calls(bench: Bench) -> str:
    wrong, _ = _wrong(bench, 200)
    return f"{wrong} of 200 answers differ" if wrong else ""


def many_calls(bench: Bench) -> str:
    """After a thousand calls, which fill the caches of the libraries, memory stays flat."""
    wrong, grown = _wrong(bench, CALLS, warm=1_000)
    if wrong:
        return f"{wrong} of {CALLS + 1_000} answers differ"
    return f"memory grew by {grown:.0f} MB" if grown > GROWTH else ""


def _megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def after_fork(bench: Bench) -> str:
    """A child of a process that has used its model answers the same, or says that it cannot; it never hangs."""
    from plait.inference.predictor import load

    model = load(bench.once("limits", lambda place: _limited(place, bench)), engine="torch")
    jobs = _jobs(8)
    expected = [_answer(model, job) for job in jobs]
    path = bench.folder / "forked.txt"
    path.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        path.write_text(str([_answer(model, job) for job in jobs] == expected))
        os._exit(0)
    timer = threading.Timer(60, os.kill, (pid, 9))
    timer.start()
    _, status = os.waitpid(pid, 0)
    timer.cancel()
    if status:
        return f"the child ended with {os.waitstatus_to_exitcode(status)}"
    return "" if path.read_text() == "True" else "the child answers otherwise"


def by_pickle(bench: Bench) -> str:
    """A pickled model answers the same, or is refused with a message."""
    from plait.errors import PlaitError
    from plait.inference.predictor import load

    model = load(bench.once("limits", lambda place: _limited(place, bench)), engine="torch")
    try:
        again = pickle.loads(pickle.dumps(model))
    except PlaitError:
        return ""
    return (
        ""
        if all(_answer(model, job) == _answer(again, job) for job in _jobs(8))
        else "a pickled model answers otherwise"
    )


CASES: tuple[Callable[[Bench], str], ...] = (few_calls, after_fork, by_pickle, many_calls)


def check(bench: Bench, number: int) -> str:
    problem = CASES[number](bench)
    return problem and f"{CASES[number].__name__}: {problem}"
