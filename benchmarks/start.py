"""From nothing to the first prediction: whole processes, each started anew.

python benchmarks/start.py [--json] [--rounds N] [--threads N]
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable

import numpy as np
from compare import Benchmark, Disagreement, Setting, Table, Target, Way, Work, at_least, run
from store import kept

TEXT = "The storm kept us inside for two days, and we did not mind at all."
SHOW = "import json; print(json.dumps([float(number) for number in vectors[0]]))"
OF_PLAIT = f"import plait; vectors = plait.load({{folder!r}}).embed([{TEXT!r}]); {SHOW}"
OF_PEER = (
    "from sentence_transformers import SentenceTransformer; "
    f"vectors = SentenceTransformer({{folder!r}}, device='cpu').encode([{TEXT!r}]); {SHOW}"
)
HELP, PREDICT, EMBED, PEER = "plait --help", "plait predict", "plait, embed one text", "sentence-transformers"


def process(*words: str) -> str:
    """What a new process of this Python says."""
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def train_model(setting: Setting) -> str:
    """A model of the starter recipe, trained for one step: its speed does not depend on what it learned."""
    folder = kept("models") / "start"
    if not (folder / "best").is_dir():
        shutil.rmtree(folder, ignore_errors=True)  # of a training that broke off
        words = ("--out", str(folder), "--no-baselines", "--set", "epochs=null", "--set", "steps=1")
        process("-m", "plait", "train", "starter", *words)
    return str(folder / "best")


def predict(setting: Setting) -> Work:
    words = ("predict", setting.prepared, "sentiment", TEXT, "--json")

    def work() -> None:
        assert "label" in json.loads(process("-m", "plait", *words))

    return work


def show_help(setting: Setting) -> Work:
    def work() -> None:
        assert "predict" in process("-m", "plait", "--help")

    return work


def embed_one(code: str) -> Callable[[Setting], Work]:
    return lambda setting: lambda: json.loads(process("-c", code.format(folder=setting.minilm)))


def check(outputs) -> dict[str, dict[str, object]]:
    """The embeddings are the same; a prediction is a label, and there is nothing to compare it with."""
    if PEER not in outputs:
        return {}
    cosine = float(np.dot(outputs[EMBED], outputs[PEER]))
    if cosine < 0.9999:
        raise Disagreement(f"the embeddings have a cosine of {cosine:.6f}")
    return {EMBED: {"cosine with the peer": f"{cosine:.6f}"}}


def targets(table: Table) -> list[Target]:
    return [at_least(3, f"× faster to the first prediction than {PEER}", table.ratio(PEER, PREDICT))]


BENCHMARK = Benchmark(
    "From a cold start to the first prediction",
    {
        PREDICT: Way(predict, prepare=train_model, how="`plait predict MODEL sentiment TEXT`"),
        HELP: Way(show_help, how="`plait --help`"),
        EMBED: Way(embed_one(OF_PLAIT), how="`plait.load(FOLDER).embed([TEXT])`"),
        PEER: Way(
            embed_one(OF_PEER),
            peer="sentence-transformers",
            imports=("sentence_transformers", "transformers", "torch"),
            how="`SentenceTransformer(FOLDER).encode([TEXT])`, in the environment of its own package alone",
        ),
    },
    check=check,
    targets=targets,
    facts=lambda table: {"encoder": "minilm", "MB": "the peak of the whole process"},
)

if __name__ == "__main__":
    run(BENCHMARK)
