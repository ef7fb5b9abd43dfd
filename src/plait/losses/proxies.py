"""Losses that learn proxies for the classes: the states of many tokens and their labels in, one number out.

N tokens, n tokens of one chunk, C classes, K proxies per class, P proxies in all, D width, X vectors of any kind.
"""

from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from annotated_types import Ge, Gt
from torch import Tensor, nn

__all__ = ["ProxyNca", "SoftTriple"]

_CHUNK = 2_000_000  # similarities in memory at once, in two float32 buffers of 8 MB: fewer cost time, more gain little


class SoftTriple(nn.Module):
    """Each token must be closer to the proxies of its class than to those of the others, by a margin (Qian 2019).

    With S'_c = Σₖ softmaxₖ(x·w_ck / gamma) x·w_ck on unit vectors, the loss of a token of class y is
    −log exp(lam(S'_y − delta)) / (exp(lam(S'_y − delta)) + Σ_{j≠y} exp(lam S'_j)), mean over N; triple-entropy eq. 4–5.
    `tau` is the weight of the distances between the proxies of a class; it merges those that are not needed. `lr` is
    the proxies' own learning rate (from Qian 2019); without `special_tokens`, [CLS] and [SEP] are left out.
    """

    def __init__(
        self,
        classes: int,
        width: int,
        generator: torch.Generator,
        *,
        proxies: Annotated[int, Gt(0)] = 2000,
        gamma: Annotated[float, Gt(0)] = 0.1,
        lam: Annotated[float, Gt(0)] = 3.3,
        delta: Annotated[float, Ge(0)] = 0.3,
        tau: Annotated[float, Ge(0)] = 0.0,
        lr: Annotated[float, Gt(0)] = 0.01,
        special_tokens: bool = True,
    ) -> None:
        super().__init__()
        self.lr, self.special_tokens = lr, special_tokens
        self.proxies_CKD = nn.Parameter(_draw_directions(classes, proxies, width, generator=generator))
        self.gamma, self.lam, self.delta, self.tau = gamma, lam, delta, tau

    def forward(self, states_ND: Tensor, label_N: Tensor) -> Tensor:
        """States (N, D) and the class of each (N,) → one number; the mean over no states is 0."""
        classes, per_class, width = self.proxies_CKD.shape
        _require_states("soft_triple", states_ND, label_N, width)
        states_ND = states_ND.to(self.proxies_CKD.dtype)
        loss: Tensor = _ChunkedSoftTriple.apply(  # type: ignore[no-untyped-call]
            states_ND, label_N, self.proxies_CKD, self.gamma, self.lam, self.delta, torch.is_grad_enabled()
        )
        if self.tau and per_class > 1:
            spreads = [torch.pdist(F.normalize(proxies_KD, dim=-1)).sum() for proxies_KD in self.proxies_CKD]
            loss = loss + self.tau * torch.stack(spreads).sum() / (classes * per_class * (per_class - 1))
        return loss


class ProxyNca(nn.Module):
    """Each token must be closer to the proxy of its class than to those of the others (Movshovitz-Attias 2017).

    −log exp(−d(x, w_y)) / Σ_z exp(−d(x, w_z)), where d is scale × the squared distance of unit vectors; mean over N.
    The sum is over the `others` (triple-entropy eq. 3; may be below 0, and is 0 for one class) or over `all` proxies.
    `lr` and `special_tokens` are those of SoftTriple.
    """

    def __init__(
        self,
        classes: int,
        width: int,
        generator: torch.Generator,
        *,
        scale: Annotated[float, Gt(0)] = 1.0,
        denominator: Literal["others", "all"] = "others",
        lr: Annotated[float, Gt(0)] = 0.01,
        special_tokens: bool = True,
    ) -> None:
        super().__init__()
        self.lr, self.special_tokens = lr, special_tokens
        self.proxies_CD = nn.Parameter(_draw_directions(classes, width, generator=generator))
        self.scale, self.denominator = scale, denominator

    def forward(self, states_ND: Tensor, label_N: Tensor) -> Tensor:
        """States (N, D) and the class of each (N,) → one number; the mean over no states is 0."""
        classes, width = self.proxies_CD.shape
        _require_states("proxy_nca", states_ND, label_N, width)
        units_ND = F.normalize(states_ND.to(self.proxies_CD.dtype), dim=-1)
        # −d is 2·cos − 2; the −2 cancels out of the fraction.
        scores_NC = 2 * self.scale * units_ND @ F.normalize(self.proxies_CD, dim=-1).T
        own_NC = F.one_hot(label_N, classes).bool()
        if self.denominator == "all":
            below_NC = scores_NC
        elif classes > 1:
            below_NC = scores_NC.masked_fill(own_NC, float("-inf"))
        else:
            return scores_NC[:0].sum()
        return (below_NC.logsumexp(dim=-1) - scores_NC[own_NC]).sum() / max(len(label_N), 1)


class _ChunkedSoftTriple(torch.autograd.Function):
    """The SoftTriple loss; forward computes the gradients as well, while it has the similarities of a chunk.

    Otherwise backward would need all N × P similarities, or a third more time to compute them again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states_ND: Tensor,
        label_N: Tensor,
        proxies_CKD: Tensor,
        gamma: float,
        lam: float,
        delta: float,
        learns: bool,
    ) -> Tensor:
        classes, per_class, width = proxies_CKD.shape
        units_ND, length_N1 = _normalize(states_ND)
        units_PD, length_P1 = _normalize(proxies_CKD.reshape(-1, width))
        grad_states_ND = torch.empty_like(units_ND) if learns and ctx.needs_input_grad[0] else None
        grad_proxies_PD = torch.zeros_like(units_PD) if learns and ctx.needs_input_grad[2] else None
        count, rows = max(len(units_ND), 1), max(_CHUNK // len(units_PD), 1)
        buffers = units_ND.new_empty(2, min(rows, len(units_ND)), classes, per_class)  # reused by every chunk
        loss = units_ND.new_zeros(())
        for start in range(0, len(units_ND), rows):
            chunk = slice(start, start + rows)
            own_nC = F.one_hot(label_N[chunk], classes).to(units_ND.dtype)
            a_nCK, p_nCK = buffers[:, : len(own_nC)]
            a_nP = a_nCK.view(len(own_nC), -1)
            torch.mm(units_ND[chunk] / gamma, units_PD.T, out=a_nP)  # similarities / gamma
            torch.softmax(a_nCK, dim=-1, out=p_nCK)
            mean_nC = a_nCK.mul_(p_nCK).sum(dim=-1)  # S' / gamma
            log_nC = torch.log_softmax(lam * (gamma * mean_nC - delta * own_nC), dim=-1)
            loss -= (log_nC * own_nC).sum() / count
            if grad_states_ND is None and grad_proxies_PD is None:
                continue
            # dS'/d(x·w) is p(1 + a − mean); the buffer of a, by now p·a, becomes the gradient of the similarities.
            slope_nC = (log_nC.exp() - own_nC) * (lam / count)
            a_nCK.addcmul_(p_nCK, (1 - mean_nC).unsqueeze(-1)).mul_(slope_nC.unsqueeze(-1))
            if grad_states_ND is not None:
                torch.mm(a_nP, units_PD, out=grad_states_ND[chunk])
            if grad_proxies_PD is not None:
                grad_proxies_PD.addmm_(a_nP.T, units_ND[chunk])
        if grad_states_ND is not None:
            _backward_normalize_(grad_states_ND, units_ND, length_N1)
        if grad_proxies_PD is not None:
            _backward_normalize_(grad_proxies_PD, units_PD, length_P1)
        ctx.shape_CKD = proxies_CKD.shape
        ctx.save_for_backward(grad_states_ND, grad_proxies_PD)
        return loss

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients that forward computed, times that of the loss."""
        if torch.is_grad_enabled():  # create_graph=True would get only part of the graph
            raise NotImplementedError("soft_triple has no second derivatives")
        grad_states_ND, grad_proxies_PD = ctx.saved_tensors
        grad_states_ND = None if grad_states_ND is None else grad_loss * grad_states_ND
        grad_proxies_CKD = None if grad_proxies_PD is None else (grad_loss * grad_proxies_PD).view(ctx.shape_CKD)
        return grad_states_ND, None, grad_proxies_CKD, None, None, None, None


def _normalize(vectors_XD: Tensor) -> tuple[Tensor, Tensor]:
    """Unit vectors, equal to those of `F.normalize`, and the original lengths (X, 1)."""
    length_X1 = torch.linalg.vector_norm(vectors_XD, dim=-1, keepdim=True).clamp_min(1e-12)
    return vectors_XD / length_X1, length_X1


def _backward_normalize_(gradient_XD: Tensor, units_XD: Tensor, length_X1: Tensor) -> None:
    """Turn the gradient of unit vectors, in place, into that of the vectors they were normalized from."""
    along_X1 = torch.linalg.vecdot(gradient_XD, units_XD).unsqueeze(-1)
    gradient_XD.addcmul_(units_XD, along_X1, value=-1).div_(length_X1)  # only the part across the vector remains


def _draw_directions(*sizes: int, generator: torch.Generator) -> Tensor:
    """Unit vectors, uniform over all directions."""
    return F.normalize(torch.randn(*sizes, generator=generator), dim=-1)


def _require_states(name: str, states_ND: Tensor, label_N: Tensor, width: int) -> None:
    if label_N.ndim != 1 or states_ND.shape != (len(label_N), width):
        shapes = f"states {tuple(states_ND.shape)} and labels {tuple(label_N.shape)}"
        raise ValueError(f"{name} needs states (N, {width}) and labels (N,), got {shapes}")
