"""SoftTriple in chunks against the plain formula and pytorch-metric-learning, forward and backward.

python benchmarks/soft_triple.py [--json] [--rounds N] [--threads N]
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from compare import Benchmark, Contender, Setting, Table, Target, Work, agree, at_least, at_most, run
from pytorch_metric_learning.losses import SoftTripleLoss
from torch import Tensor, nn

from plait.losses.proxies import SoftTriple

TOKENS, CLASSES, PROXIES, WIDTH = 4096, 6, 2000, 384
GAMMA, LAMBDA, DELTA = 0.1, 3.3, 0.3


def inputs() -> tuple[Tensor, Tensor, SoftTriple]:
    """The same states, labels and proxies for every contender."""
    generator = torch.Generator().manual_seed(0)
    states_ND = torch.randn(TOKENS, WIDTH, generator=generator).requires_grad_()
    label_N = torch.randint(CLASSES, (TOKENS,), generator=generator)
    options = {"proxies": PROXIES, "gamma": GAMMA, "lam": LAMBDA, "delta": DELTA}
    return states_ND, label_N, SoftTriple(CLASSES, WIDTH, generator, **options)


def in_chunks(setting: Setting) -> Work:
    states_ND, label_N, module = inputs()
    return lambda: one_step(lambda: module(states_ND, label_N), states_ND, module)


def plain(setting: Setting) -> Work:
    states_ND, label_N, module = inputs()

    def loss() -> Tensor:
        units_ND = F.normalize(states_ND, dim=-1)
        units_PD = F.normalize(module.proxies_CKD, dim=-1).flatten(0, 1)
        similarity_NCK = (units_ND @ units_PD.T).unflatten(1, (CLASSES, -1))
        mean_NC = (torch.softmax(similarity_NCK / GAMMA, dim=-1) * similarity_NCK).sum(dim=-1)
        return F.cross_entropy(LAMBDA * (mean_NC - DELTA * F.one_hot(label_N, CLASSES)), label_N)

    return lambda: one_step(loss, states_ND, module)


def peer(setting: Setting) -> Work:
    states_ND, label_N, module = inputs()
    theirs = SoftTripleLoss(CLASSES, WIDTH, centers_per_class=PROXIES, la=LAMBDA, gamma=GAMMA, margin=DELTA)
    with torch.no_grad():
        theirs.fc.copy_(module.proxies_CKD.flatten(0, 1).T)
    return lambda: one_step(lambda: theirs(states_ND, label_N), states_ND, theirs)


def one_step(make: Callable[[], Tensor], states_ND: Tensor, module: nn.Module) -> float:
    """One step without the update; gradients start from zero, as they do in training."""
    states_ND.grad = None
    module.zero_grad(set_to_none=True)
    loss = make()
    loss.backward()
    return loss.item()


def targets(table: Table) -> list[Target]:
    return [
        at_most(1 / 6, f"of the memory of {PEER}", table.memory("plait", PEER)),
        at_least(1.3, f"× the speed of {PEER}", table.ratio(PEER, "plait")),
    ]


PEER = "pytorch-metric-learning"
SIZES = {"tokens": TOKENS, "classes": CLASSES, "proxies per class": PROXIES, "width": WIDTH}
BENCHMARK = Benchmark(
    "SoftTriple, forward and backward",
    {
        "plait": Contender(in_chunks, how="similarities in chunks"),
        "plain formula": Contender(plain),
        PEER: Contender(peer, imports=("pytorch_metric_learning",), how="its SoftTripleLoss with the same proxies"),
    },
    check=lambda losses: agree(losses, 1e-4),
    targets=targets,
    facts=lambda table: SIZES,
    rounds=7,
)

if __name__ == "__main__":
    run(BENCHMARK)
