"""SoftTriple in chunks against the plain formula and pytorch-metric-learning, forwards and backwards.

python benchmarks/soft_triple.py [--json] [--threads N]
"""

import torch
import torch.nn.functional as F
from compare import Work, run
from pytorch_metric_learning.losses import SoftTripleLoss
from torch import Tensor

from plait.losses.proxies import SoftTriple

TOKENS, CLASSES, PROXIES, WIDTH = 4096, 6, 2000, 384
GAMMA, LAMBDA, DELTA = 0.1, 3.3, 0.3


def inputs() -> tuple[Tensor, Tensor, SoftTriple]:
    """The same states, labels and proxies for every way."""
    generator = torch.Generator().manual_seed(0)
    states_ND = torch.randn(TOKENS, WIDTH, generator=generator).requires_grad_()
    label_N = torch.randint(CLASSES, (TOKENS,), generator=generator)
    options = {"proxies": PROXIES, "gamma": GAMMA, "lam": LAMBDA, "delta": DELTA}
    return states_ND, label_N, SoftTriple(CLASSES, WIDTH, generator, **options)


def in_chunks() -> Work:
    states_ND, label_N, module = inputs()
    return lambda: trained(module(states_ND, label_N))


def plain() -> Work:
    states_ND, label_N, module = inputs()

    def loss() -> Tensor:
        units_ND = F.normalize(states_ND, dim=-1)
        units_PD = F.normalize(module.proxies_CKD, dim=-1).flatten(0, 1)
        similarity_NCK = (units_ND @ units_PD.T).unflatten(1, (CLASSES, -1))
        mean_NC = (torch.softmax(similarity_NCK / GAMMA, dim=-1) * similarity_NCK).sum(dim=-1)
        return F.cross_entropy(LAMBDA * (mean_NC - DELTA * F.one_hot(label_N, CLASSES)), label_N)

    return lambda: trained(loss())


def peer() -> Work:
    states_ND, label_N, module = inputs()
    theirs = SoftTripleLoss(CLASSES, WIDTH, centers_per_class=PROXIES, la=LAMBDA, gamma=GAMMA, margin=DELTA)
    with torch.no_grad():
        theirs.fc.copy_(module.proxies_CKD.flatten(0, 1).T)
    return lambda: trained(theirs(states_ND, label_N))


def trained(loss: Tensor) -> float:
    loss.backward()
    return loss.item()


def check_equal() -> None:
    values = [make()() for make in WAYS.values()]
    if max(values) - min(values) > 1e-4:
        raise SystemExit(f"the losses differ: {values}")


WAYS = {"plait": in_chunks, "plain formula": plain, "pytorch-metric-learning": peer}

if __name__ == "__main__":
    facts = {"tokens": TOKENS, "classes": CLASSES, "proxies": PROXIES, "width": WIDTH}
    run("SoftTriple", WAYS, rounds=7, facts=facts, check=check_equal)
