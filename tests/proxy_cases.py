"""Small losses with proxies, in float64, and token states for them.

N tokens, C classes, K proxies per class, D width.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plait.losses.proxies import ProxyNca, SoftTriple

SEEDS = range(10)
EXACT = {"atol": 1e-12, "rtol": 1e-9}  # float64 sums in another order
CLASSES, PER_CLASS, WIDTH, TOKENS = 3, 4, 5, 17


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw_tokens(seed: int, tokens: int = TOKENS, classes: int = CLASSES) -> tuple[Tensor, Tensor]:
    """States (N, D) and the class of each (N,)."""
    source = generator(seed)
    states_ND = torch.randn(tokens, WIDTH, dtype=torch.float64, generator=source)
    return states_ND, torch.randint(classes, (tokens,), generator=source)


def build_soft_triple(seed: int, **options: float) -> SoftTriple:
    """Its proxies are not unit vectors, as after some training."""
    loss = SoftTriple(CLASSES, WIDTH, generator(seed), **{"proxies": PER_CLASS, **options}).double()
    with torch.no_grad():
        loss.proxies_CKD.mul_(torch.rand(CLASSES, loss.proxies_CKD.shape[1], 1, generator=generator(seed)) + 0.5)
    return loss


def build_proxy_nca(seed: int, **options: object) -> ProxyNca:
    return ProxyNca(CLASSES, WIDTH, generator(seed), **options).double()


def proxies_of(module: nn.Module) -> nn.Parameter:
    (proxies,) = module.parameters()
    return proxies


def with_proxies(module: nn.Module, proxies: list) -> nn.Module:
    """The module with these proxies."""
    proxies_of(module).data = torch.tensor(proxies)
    return module


def plain_soft_triple(loss: SoftTriple, states_ND: Tensor, label_N: Tensor) -> Tensor:
    """Equations 4 and 5 of triple-entropy, all similarities at once."""
    x_ND, w_CKD = F.normalize(states_ND, dim=-1), F.normalize(loss.proxies_CKD, dim=-1)
    s_NCK = torch.einsum("nd,ckd->nck", x_ND, w_CKD)
    mean_NC = (torch.softmax(s_NCK / loss.gamma, dim=-1) * s_NCK).sum(dim=-1)
    own_NC = F.one_hot(label_N, len(w_CKD))
    above_N = (loss.lam * (mean_NC - loss.delta) * own_NC).sum(dim=-1)
    below_N = above_N.exp() + ((loss.lam * mean_NC).exp() * (1 - own_NC)).sum(dim=-1)
    return (below_N.log() - above_N).mean()


def value_and_gradients(
    function: Callable[[Tensor, Tensor], Tensor], module: nn.Module, states_ND: Tensor, label_N: Tensor
) -> list[Tensor]:
    """The loss, and its gradients with respect to states and proxies."""
    states_ND = states_ND.clone().requires_grad_()
    module.zero_grad()
    value = function(states_ND, label_N)
    value.backward()
    return [value.detach(), states_ND.grad, proxies_of(module).grad.clone()]


def assert_all_close(ours: list[Tensor], theirs: list[Tensor], **tolerance: float) -> None:
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, other, **tolerance)
