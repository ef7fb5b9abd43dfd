"""The table of faults: what is done, what must happen, and how often it is tried. The short tests and the full run
read it."""

from faults import (
    bit_flips,
    damaged_files,
    data_files,
    disk,
    kills,
    locks,
    memory,
    model_directories,
    not_finite,
    outputs,
    recipe_files,
    resumes,
    server,
    signals,
    threads,
)
from faults.bench import Fault
from faults.running import in_batches, one_by_one

__all__ = ["FAULTS"]

FAULTS = {
    "kills": Fault(
        "kill -9 at a random moment of training: each schedule, stages, surgery, proxies, --keep, --single-task, refit",
        "resumed: weights, optimizer, metrics and models are bit-identical",
        one_by_one(kills.check),
        200,
        (4, 6),
    ),
    "resumes": Fault(
        "a run of 50 steps resumed from each step",
        "the same batches, order, dropout and bits",
        one_by_one(resumes.check),
        resumes.STEPS,
        (0, 30),
    ),
    "bit_flips": Fault(
        "one bit flipped in any file of a model, an export, a stopped run with its checkpoints, a finished run",
        "found by name before use, or harmless",
        in_batches(bit_flips.check, limited=False),
        1_000,
        range(12),
    ),
    "damaged_files": Fault(
        "each file of these truncated, emptied, missing, renamed, doubled, or replaced by a link",
        "named, replaced by the checkpoint before, or harmless",
        in_batches(damaged_files.check, limited=False),
        damaged_files.count,
        range(0, 10**6, 61),
    ),
    "disk": Fault(
        "disk full from each write on, EIO at each write and read, read-only: train, predict, embed, export",
        "exit code 1 or 2, a message with the path, no temporary files; run again, the result is bit-identical",
        one_by_one(disk.check),
        disk.count,
        range(5, 10**6, 211),
    ),
    "signals": Fault(
        "SIGINT or SIGTERM at a random moment, for every third run a second one during the save",
        "exit code 130 or 143; resumed: bit-identical",
        one_by_one(signals.check),
        100,
        (0, 1),
    ),
    "not_finite": Fault(
        "NaN or infinity in loss, gradient, update, weights; lr × 1e6 and more",
        "stops before the update; nothing that is not finite is saved or answered",
        one_by_one(not_finite.check),
        len(not_finite.CASES),
        range(5),
    ),
    "data_files": Fault(
        "data files with up to 4 random changes: csv, tsv, json, jsonl, gz, parquet, xlsx",
        "a named error or counted skips, in 1 s and 300 MB; no row gets the label of another",
        in_batches(data_files.check),
        10_000,
        range(60),
    ),
    "recipes": Fault(
        "recipes with up to 4 random changes",
        "every mistake with its place, in 1 s and 300 MB, no traceback",
        in_batches(recipe_files.check),
        5_000,
        range(30),
    ),
    "model_directories": Fault(
        "model directories with hostile files and a correct manifest",
        "a named error or an answer, in 1 s and 300 MB, no traceback",
        in_batches(model_directories.check),
        1_000,
        range(40),
    ),
    "locks": Fault(
        "two runs in one directory, a directory that is removed or replaced, stale and missing locks",
        "the second refuses; the first ends as ever, or stops",
        one_by_one(locks.check),
        len(locks.CASES),
        range(3),
    ),
    "memory": Fault(
        "a step that needs too much memory, an address space of 1 to 320 MB more, killed workers of predict",
        "one message; run again, the result is bit-identical",
        one_by_one(memory.check),
        len(memory.CASES),
        (0, 2),
    ),
    "outputs": Fault(
        "predict or embed killed once or twice: csv, jsonl, parquet, npy",
        "the output is absent or whole; with --resume it has the same bytes",
        one_by_one(outputs.check),
        50,
        (0, 3),
    ),
    "threads": Fault(
        "8 threads with mixed tasks and limits, 10,000 calls; after fork; by pickle",
        "equal answers, memory grows by less than 20 MB",
        in_batches(threads.check, limited=False),
        len(threads.CASES),
        range(3),
    ),
    "server": Fault(
        "the server: killed workers, a full disk for its log, hostile traffic",
        "every accepted request is answered",
        one_by_one(server.check),
        len(server.CASES),
        (1,),
    ),
}
