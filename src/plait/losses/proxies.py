"""Losses that learn proxies of the classes: the states of many tokens and their labels in, one number out.

N tokens, n those of one chunk, C classes, K proxies of a class, P proxies of all classes, D width.
"""

from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from annotated_types import Ge, Gt
from torch import Tensor, nn

CHUNK = 2_000_000  # similarities held at once, twice 8 MB of float32: fewer cost time, more save little

__all__ = ["ProxyNca", "SoftTriple"]


class SoftTriple(nn.Module):
    """Each token must be nearer to the proxies of its class than to those of the others, by a margin (Qian 2019).

    With S'_c = Σₖ softmaxₖ(x·w_ck / gamma) x·w_ck on unit vectors, the loss of a token of class y is
    −log exp(lam(S'_y − delta)) / (exp(lam(S'_y − delta)) + Σ_{j≠y} exp(lam S'_j)), mean over N; triple-entropy eq. 4–5.
    `tau` weighs the distances between the proxies of a class, so that those not needed become one. `lr` is the
    proxies' own learning rate (Qian 2019's); without `special_tokens`, [CLS] and [SEP] are left out.
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
        self.proxies_CKD = nn.Parameter(draw_directions(classes, proxies, width, generator=generator))
        self.gamma, self.lam, self.delta, self.tau = gamma, lam, delta, tau

    def forward(self, states_ND: Tensor, label_N: Tensor) -> Tensor:
        """States (N, D) and the class of each (N,) → one number; the mean over no states is 0."""
        classes, per_class, width = self.proxies_CKD.shape
        require_states("soft_triple", states_ND, label_N, width)
        states_ND = states_ND.to(self.proxies_CKD.dtype)
        loss: Tensor = ChunkedSoftTriple.apply(  # type: ignore[no-untyped-call]
            states_ND, label_N, self.proxies_CKD, self.gamma, self.lam, self.delta, torch.is_grad_enabled()
        )
        if self.tau and per_class > 1:
            spreads = [torch.pdist(F.normalize(proxies_KD, dim=-1)).sum() for proxies_KD in self.proxies_CKD]
            loss = loss + self.tau * torch.stack(spreads).sum() / (classes * per_class * (per_class - 1))
        return loss


class ProxyNca(nn.Module):
    """Each token must be nearer to the proxy of its class than to those of the others (Movshovitz-Attias 2017).

    −log exp(−d(x, w_y)) / Σ_z exp(−d(x, w_z)), d being scale × the squared distance of unit vectors, mean over N. The
    sum is over the `others` (triple-entropy eq. 3; may be below 0, and is 0 for one class) or over `all` proxies.
    `lr` and `special_tokens` as in SoftTriple.
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
        self.proxies_CD = nn.Parameter(draw_directions(classes, width, generator=generator))
        self.scale, self.denominator = scale, denominator

    def forward(self, states_ND: Tensor, label_N: Tensor) -> Tensor:
        """States (N, D) and the class of each (N,) → one number; the mean over no states is 0."""
        classes, width = self.proxies_CD.shape
        require_states("proxy_nca", states_ND, label_N, width)
        units_ND = F.normalize(states_ND.to(self.proxies_CD.dtype), dim=-1)
        # Of −d = 2cos − 2 the −2 stands above and below the line.
        scores_NC = 2 * self.scale * units_ND @ F.normalize(self.proxies_CD, dim=-1).T
        own_NC = F.one_hot(label_N, classes).bool()
        if self.denominator == "all":
            below_NC = scores_NC
        elif classes > 1:
            below_NC = scores_NC.masked_fill(own_NC, float("-inf"))
        else:
            return scores_NC[:0].sum()
        return (below_NC.logsumexp(dim=-1) - scores_NC[own_NC]).sum() / max(len(label_N), 1)


class ChunkedSoftTriple(torch.autograd.Function):
    """The SoftTriple loss; forward works out the gradients too, while a chunk's similarities are at hand.

    Backward would need all N × P of them otherwise, or a third more time to compute them again.
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
        """One number."""
        classes, per_class, width = proxies_CKD.shape
        units_ND, length_N1 = make_units(states_ND)
        units_PD, length_P1 = make_units(proxies_CKD.reshape(-1, width))
        to_states_ND = torch.empty_like(units_ND) if learns and ctx.needs_input_grad[0] else None
        to_proxies_PD = torch.zeros_like(units_PD) if learns and ctx.needs_input_grad[2] else None
        count, rows = max(len(units_ND), 1), max(CHUNK // len(units_PD), 1)
        buffers = units_ND.new_empty(2, min(rows, len(units_ND)), classes, per_class)  # the same for every chunk
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
            if to_states_ND is None and to_proxies_PD is None:
                continue
            # dS'/d(x·w) is p(1 + a − mean); a, which holds p·a by now, becomes the gradient of the similarities.
            slope_nC = (log_nC.exp() - own_nC) * (lam / count)
            a_nCK.addcmul_(p_nCK, (1 - mean_nC).unsqueeze(-1)).mul_(slope_nC.unsqueeze(-1))
            if to_states_ND is not None:
                torch.mm(a_nP, units_PD, out=to_states_ND[chunk])
            if to_proxies_PD is not None:
                to_proxies_PD.addmm_(a_nP.T, units_ND[chunk])
        if to_states_ND is not None:
            pass_units_(to_states_ND, units_ND, length_N1)
        if to_proxies_PD is not None:
            pass_units_(to_proxies_PD, units_PD, length_P1)
        ctx.shape_CKD = proxies_CKD.shape
        ctx.save_for_backward(to_states_ND, to_proxies_PD)
        return loss

    @staticmethod
    def backward(ctx: Any, to_loss: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients that forward found, times that of the loss."""
        if torch.is_grad_enabled():  # create_graph was asked for, and would get a part of the graph only
            raise NotImplementedError("soft_triple has gradients, but no gradients of its gradients")
        to_states_ND, to_proxies_PD = ctx.saved_tensors
        to_states_ND = None if to_states_ND is None else to_loss * to_states_ND
        to_proxies_CKD = None if to_proxies_PD is None else (to_loss * to_proxies_PD).view(ctx.shape_CKD)
        return to_states_ND, None, to_proxies_CKD, None, None, None, None


def make_units(vectors_XD: Tensor) -> tuple[Tensor, Tensor]:
    """The vectors at length 1, as `F.normalize` gives them, and their lengths (X, 1)."""
    length_X1 = torch.linalg.vector_norm(vectors_XD, dim=-1, keepdim=True).clamp_min(1e-12)
    return vectors_XD / length_X1, length_X1


def pass_units_(gradient_XD: Tensor, units_XD: Tensor, length_X1: Tensor) -> None:
    """Turn the gradient of units, in place, into that of the vectors they come from: what is across, by length."""
    along_X1 = torch.linalg.vecdot(gradient_XD, units_XD).unsqueeze(-1)
    gradient_XD.addcmul_(units_XD, along_X1, value=-1).div_(length_X1)


def draw_directions(*sizes: int, generator: torch.Generator) -> Tensor:
    """Unit vectors, every direction as likely as any other."""
    return F.normalize(torch.randn(*sizes, generator=generator), dim=-1)


def require_states(name: str, states_ND: Tensor, label_N: Tensor, width: int) -> None:
    """Refuse states of another width than the proxies, or without one label each, with both shapes."""
    if label_N.ndim != 1 or states_ND.shape != (len(label_N), width):
        shapes = f"states {tuple(states_ND.shape)} and labels {tuple(label_N.shape)}"
        raise ValueError(f"{name} needs states (N, {width}) and labels (N,), got {shapes}")
