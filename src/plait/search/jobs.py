"""The nearest rows of an index for every row of a file."""

from collections.abc import Sequence
from dataclasses import replace

from plait.inference.jobs import ChunkResult, Job, embed_job
from plait.search.index import Hit, Index

__all__ = ["search_job"]


def search_job(index: Index, column: str, top_k: int) -> Job:
    """The id, score and text of the nearest rows, in columns of their own."""
    job = embed_job(index.model, column)
    names = [f"{name}_{rank}" for rank in range(1, top_k + 1) for name in ("id", "score", "text")]
    types = {name: "number" if name.startswith("score") else "text" for name in names}

    def work(texts: list[list[str]]) -> ChunkResult:
        found = job.work(texts)
        assert found.vectors_nD is not None, "it embeds"
        cells = [_cells(hits, len(names)) for hits in index.nearest(found.vectors_nD, top_k=top_k)]
        return found._replace(cells=cells, vectors_nD=None)

    state = ",".join(f"{one.name}:{one.deleted}" for one in index.record.segments)
    identity = f"{job.identity} {index.folder.resolve()} {state} {top_k}"
    return replace(job, what="searching", identity=identity, added=types, width=None, work=work)


def _cells(hits: Sequence[Hit], count: int) -> list[object]:
    cells = [cell for hit in hits for cell in (hit.id, hit.score, hit.text)]
    return cells + [None] * (count - len(cells))
