"""From a cold start to the first prediction: a new process each time.

python benchmarks/start.py [--json] [--rounds N] [--threads N]
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable

import numpy as np
from compare import Benchmark, Contender, Disagreement, Setting, Table, Target, Work, at_least, run
from store import store_folder

TEXT = "The storm kept us inside for two days, and we did not mind at all."
SHOW = "import json; print(json.dumps([float(number) for number in vectors[0]]))"
WITH_PLAIT = f"import plait; vectors = plait.load({{folder!r}}).embed([{TEXT!r}]); {SHOW}"
WITH_PEER = (
    "from sentence_transformers import SentenceTransformer; "
    f"vectors = SentenceTransformer({{folder!r}}, device='cpu').encode([{TEXT!r}]); {SHOW}"
)
HELP, PREDICT, EMBED, PEER = "plait --help", "plait predict", "plait, embed one text", "sentence-transformers"


def run_python(*words: str) -> str:
    """The output of a new Python process."""
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def train_model(setting: Setting) -> str:
    """The starter recipe trained for one step: the speed of a model does not depend on what it learned."""
    folder = store_folder("models") / "start"
    if not (folder / "best").is_dir():
        shutil.rmtree(folder, ignore_errors=True)  # left by an interrupted training
        words = ("--out", str(folder), "--no-baselines", "--no-report", "--set", "epochs=null", "--set", "steps=1")
        run_python("-m", "plait", "train", "starter", *words)
    return str(folder / "best")


def predict(setting: Setting) -> Work:
    words = ("predict", setting.prepared, "sentiment", TEXT, "--json")

    def work() -> None:
        assert "label" in json.loads(run_python("-m", "plait", *words))

    return work


def show_help(setting: Setting) -> Work:
    def work() -> None:
        assert "predict" in run_python("-m", "plait", "--help")

    return work


def embed_one(code: str) -> Callable[[Setting], Work]:
    return lambda setting: lambda: json.loads(run_python("-c", code.format(folder=setting.minilm)))


def check(outputs) -> dict[str, dict[str, object]]:
    """The embeddings agree; a predicted label has nothing to be compared with."""
    if PEER not in outputs:
        return {}
    cosine = float(np.dot(outputs[EMBED], outputs[PEER]))
    if cosine < 0.9999:
        raise Disagreement(f"the embeddings have a cosine of {cosine:.6f}")
    return {EMBED: {"cosine with peer": f"{cosine:.6f}"}}


def targets(table: Table) -> list[Target]:
    return [at_least(3, f"× faster to the first prediction than {PEER}", table.ratio(PEER, PREDICT))]


BENCHMARK = Benchmark(
    "From a cold start to the first prediction",
    {
        PREDICT: Contender(predict, prepare=train_model, how="`plait predict MODEL sentiment TEXT`"),
        HELP: Contender(show_help, how="`plait --help`"),
        EMBED: Contender(embed_one(WITH_PLAIT), how="`plait.load(FOLDER).embed([TEXT])`"),
        PEER: Contender(
            embed_one(WITH_PEER),
            peer="sentence-transformers",
            imports=("sentence_transformers", "transformers", "torch"),
            how="`SentenceTransformer(FOLDER).encode([TEXT])`, in an environment with nothing but its own package",
        ),
    },
    check=check,
    targets=targets,
    facts=lambda table: {"encoder": "minilm", "MB": "the peak of the whole process"},
)

if __name__ == "__main__":
    run(BENCHMARK)
