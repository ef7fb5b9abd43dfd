"""A worker's process: what it says at the start, and how the server notices that it is gone or stuck."""

import asyncio
import os
import signal

import pytest

from plait.errors import ModelError
from plait.serving.examples import EMBEDDING, Member, make_examples, pack_examples
from plait.serving.worker_process import WorkerFailed, WorkerProcess

PATIENCE = 120


def test_model_that_cannot_be_loaded_is_reported(tmp_path):
    with pytest.raises(ModelError, match="none"):
        asyncio.run(WorkerProcess.start({"m": (str(tmp_path / "none"), "torch")}))


@pytest.mark.parametrize(
    ("number", "seconds", "message"),
    [(signal.SIGKILL, PATIENCE, "stopped with exit code -9"), (signal.SIGSTOP, 0.5, "did not answer within 0.5 s")],
)
def test_dead_or_stuck_worker_is_noticed(untrained, number, seconds, message):
    async def hurt() -> None:
        worker = await WorkerProcess.start({"m": (str(untrained), "torch")})
        try:
            member = Member.from_json(worker.models["m"]["members"][0])
            header, payload = pack_examples(make_examples([member], [EMBEDDING], [["a dog"]]))
            answer, vectors = await worker.ask({"model": "m", **header}, payload, PATIENCE)
            assert answer == {"answers": [{EMBEDDING: 0}]} and len(vectors) == 4 * 16
            os.kill(worker.pid, number)
            with pytest.raises(WorkerFailed, match=message):
                await worker.ask({"model": "m", **header}, payload, seconds)
        finally:
            await worker.stop()
        with pytest.raises(ProcessLookupError):
            os.kill(worker.pid, 0)

    asyncio.run(hurt())


@pytest.mark.parametrize("engine", ["onnx", "auto"])
def test_engine_is_the_one_that_was_asked_for(exported, engine):
    async def engine_of() -> str:
        worker = await WorkerProcess.start({"m": (str(exported), engine)})
        await worker.stop()
        return worker.models["m"]["about"]["engine"]

    assert asyncio.run(engine_of()) in (("onnx",) if engine == "onnx" else ("onnx", "torch"))
