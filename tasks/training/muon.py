"""Muon for the matrices of a model, AdamW for the rest, as one optimizer.

Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024); update and scaling as
`torch.optim.Muon` (torch 2.13). That one rounds to bfloat16 before it orthogonalises
(torch/optim/_muon.py:55), which takes 0.6 s a step on a CPU without bfloat16 units, three times the forward
and backward pass of the tiny policy; in float32 it takes 0.02 s.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# Coefficients of the quintic iteration and their number: torch.optim.Muon's defaults.
_A, _B, _C = 3.4445, -4.7750, 2.0315
_ITERATIONS = 5
_MOMENTUM = 0.95


def orthogonalise(updates: Tensor) -> Tensor:
    """The nearest semi-orthogonal matrices, roughly: singular values end between 0.7 and 1.2.

    Args:
        updates: a stack of matrices, shape (n, rows, columns).

    Returns:
        a stack of the same shape, by five steps of a quintic Newton-Schulz iteration.
    """
    tall = updates.shape[1] > updates.shape[2]
    x = updates.mT if tall else updates
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = _A * x + (_B * gram + _C * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.AdamW):
    """AdamW over all parameters but the hidden matrices, which Muon updates.

    Args:
        model: whose parameters are trained; its embeddings count as no hidden matrix.
        lr: AdamW's learning rate.
        muon_lr: Muon's; an update has a spectral norm of about `muon_lr` x sqrt(max(1, rows / columns)).
        weight_decay: of both, decoupled.
    """

    def __init__(self, model: torch.nn.Module, *, lr: float, muon_lr: float, weight_decay: float) -> None:
        embeddings = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        hidden = [parameter for parameter in trained if parameter.ndim == 2 and id(parameter) not in embeddings]
        chosen = {id(parameter) for parameter in hidden}
        rest = [parameter for parameter in trained if id(parameter) not in chosen]
        groups = [{"params": rest, "muon": False}, {"params": hidden, "lr": muon_lr, "muon": True}]
        super().__init__(groups, lr=lr, betas=(0.9, 0.95), weight_decay=weight_decay)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update; the hidden matrices' gradients are gone afterwards, so that AdamW leaves them alone.

        Raises:
            ValueError: there is a closure; neither update evaluates one.
        """
        if closure is not None:
            raise ValueError("Muon takes no closure")
        for group in self.param_groups:
            if group["muon"]:
                self._update(group)
        return super().step()

    def _update(self, group: dict[str, Any]) -> None:
        by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            buffer = self.state[parameter].setdefault("momentum_buffer", torch.zeros_like(parameter))
            buffer.lerp_(parameter.grad, 1 - _MOMENTUM)
            nesterov = parameter.grad.lerp(buffer, _MOMENTUM)
            by_shape[parameter.shape].append((parameter, nesterov))
            parameter.grad = None
        for shape, pairs in by_shape.items():
            rate = group["lr"] * max(1, shape[0] / shape[1]) ** 0.5
            for (parameter, _), update in zip(pairs, orthogonalise(torch.stack([u for _, u in pairs])), strict=True):
                parameter.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-rate)
