"""Contractions that the tests share, and tensors for them."""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.testing import random_tensor

SIZES = {"a": 2, "b": 3, "c": 4, "i": 4, "j": 3, "k": 5, "l": 2, "m": 3, "n": 4, "p": 5, "x": 1}

# What a planner that knows matrices alone gets wrong: layouts, output orders, lone and repeated
# indices.
TRICKY = (
    "ij,jk->ki",
    "ij,jk->i",
    "ij,jk->k",
    "ij,jk->",
    "bij,bkj->bik",
    "iap,ibp->iab",
    "bji,bjk->bik",
    "ijb,jkb->ikb",
    "bij,bjk->ikb",
    "bij,bjk->bki",
    "ii,ik->k",
    "ij,jj->i",
)
COMMON = (
    "ij,jk->ik",
    "ij,jk",
    "ji,jk->ik",
    "ij,kj->ik",
    "ji,kj->ik",
    "i,i->",
    "i,j->ij",
    "i,j->ji",
    "ij,ij->ij",
    "ij,ji->ij",
    "ij,j->i",
    "i,ij->j",
    "bij,bj->bi",
    "bi,bi->b",
    "ap,bp->ab",
    "mi,mnp->inp",
    "ijk,jkl->il",
    "ijk,kjl->il",
    "ijkl,klmn->ijmn",
    "ijkl,lkab->jaib",
    "ij,ik,il->jkl",
    "ij,jk,kl,lm->im",
    "ijk,il,jm,kn->lmn",
    "ii->",
    "ii->i",
    "ij->ji",
    "ij->i",
    "ijk->ki",
    "iij->j",
    "iji,ik->jk",
    "ii,jj->ij",
    "i,i,i->i",
    "a,b,c,i,j->jcabi",
    "ixj,jk->xik",
    " i j , j k -> i k ",
    "i,->i",
    ",->",
)


def operands(subscripts: str, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Return tensors for subscripts without an ellipsis, with the sizes of ``SIZES``."""
    terms = subscripts.replace(" ", "").partition("->")[0].split(",")
    shapes = [[SIZES.get(label, 3) for label in term] for term in terms]
    return [random_tensor(*shape, dtype=dtype, seed=at) for at, shape in enumerate(shapes)]
