import inspect

import pytest
import torch
from torch import nn
from torch.optim import _muon

from tasks.training.muon import Muon, orthogonalise


@pytest.mark.parametrize("shape", [(3, 16, 16), (2, 12, 40), (2, 40, 12)])
def test_orthogonalised_matrices_keep_their_directions(shape) -> None:
    torch.manual_seed(0)
    updates = torch.randn(shape)
    result = orthogonalise(updates)
    u, s, vh = torch.linalg.svd(updates, full_matrices=False)
    inner = u.mT @ result @ vh.mT
    # The singular vectors stay; the large singular values come near 1 (Jordan et al.: between .7 and 1.2).
    assert inner.triu(1).abs().max() < 1e-4 and inner.tril(-1).abs().max() < 1e-4
    values = inner.diagonal(dim1=1, dim2=2)[s > 0.2 * s.max()]
    assert values.min() > 0.65 and values.max() < 1.25


def test_one_update_is_torchs_up_to_its_rounding() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 8), nn.Linear(8, 24, bias=False), nn.Linear(24, 8))
    theirs = [nn.Parameter(model[n].weight.detach().clone()) for n in (1, 2)]
    ours = Muon(model, lr=0.01, muon_lr=0.1, weight_decay=0.1)
    reference = torch.optim.Muon(theirs, lr=0.1, weight_decay=0.1, momentum=0.95)
    before = [p.detach().clone() for p in theirs]
    for _ in range(3):
        for copy, n in zip(theirs, (1, 2), strict=True):
            # Of full rank: directions without a gradient are rounding errors, which Muon blows up.
            model[n].weight.grad = torch.randn_like(copy)
            copy.grad = model[n].weight.grad.clone()
        ours.step()
        ours.zero_grad()
        reference.step()
    for start, copy, n in zip(before, theirs, (1, 2), strict=True):
        moved = copy.detach() - start
        assert (model[n].weight.detach() - copy.detach()).norm() < 0.02 * moved.norm()


def test_embeddings_and_vectors_go_to_adamw() -> None:
    torch.manual_seed(0)
    embedding, linear = nn.Embedding(5, 8), nn.Linear(8, 8)
    model = nn.Sequential(embedding, linear)
    twins = [nn.Parameter(p.detach().clone()) for p in (embedding.weight, linear.bias)]
    ours = Muon(model, lr=0.01, muon_lr=0.1, weight_decay=0.1)
    reference = torch.optim.AdamW(twins, lr=0.01, betas=(0.9, 0.95), weight_decay=0.1)
    for _ in range(3):
        model(torch.tensor([1, 2, 3])).square().sum().backward()
        for twin, own in zip(twins, (embedding.weight, linear.bias), strict=True):
            twin.grad = own.grad.clone()
        ours.step()
        ours.zero_grad()
        reference.step()
    assert torch.equal(embedding.weight, twins[0]) and torch.equal(linear.bias, twins[1])


def test_torchs_own_still_rounds_to_bfloat16() -> None:
    # When it no longer does, torch.optim.Muon can take this module's place.
    assert ".bfloat16()" in inspect.getsource(_muon._zeropower_via_newtonschulz)
