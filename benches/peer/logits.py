"""Every attention function's logits, in two parts: the projections of x, and the core that makes logits of them.

The core's inputs are what a layer's projections give, [B, L, h, w], so that it can be measured alone. All logits are
[B, h, L, L], or [1, h, L, L] where they do not depend on the input. The equations are those of DESIGN.md, "The layer, exactly".
"""

import math

import torch
from torch import nn


def linear(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def matrix(*size: int) -> nn.Parameter:
    """One Xavier matrix [.., inputs, outputs] a head."""
    bound = math.sqrt(6 / (size[-2] + size[-1]))
    return nn.Parameter(torch.empty(size).uniform_(-bound, bound))


def split(x: torch.Tensor, heads: int) -> torch.Tensor:
    """[B, L, h·w] to [B, L, h, w]."""
    return x.view(x.size(0), x.size(1), heads, -1)


class DotProduct(nn.Module):
    """V: S = Q Kᵀ / √r."""

    name = "dot_product"
    depends_on_input = True

    def __init__(self, term, d_model, heads, max_length):
        super().__init__()
        self.heads = heads
        rank = term.get("rank", d_model // heads)
        self.query = linear(d_model, heads * rank)
        self.key = linear(d_model, heads * rank)

    def project(self, x):
        return {"q": split(self.query(x), self.heads), "k": split(self.key(x), self.heads)}

    def weights(self):
        return {}

    @staticmethod
    def logits(length, q, k):
        q = q.transpose(1, 2) * q.size(-1) ** -0.5
        return q @ k.permute(0, 2, 3, 1)


class Dense(nn.Module):
    """D: S = relu(x W₁ᵀ + b₁) w₂ + b₂."""

    name = "dense"
    depends_on_input = True

    def __init__(self, term, d_model, heads, max_length):
        super().__init__()
        self.heads = heads
        hidden = term.get("hidden", d_model // heads)
        self.w1 = linear(d_model, heads * hidden)
        self.w2 = matrix(heads, hidden, max_length)
        self.b2 = nn.Parameter(torch.zeros(heads, max_length))

    def project(self, x):
        return {"hidden": split(torch.relu(self.w1(x)), self.heads)}

    def weights(self):
        return {"w2": self.w2, "b2": self.b2}

    @staticmethod
    def logits(length, hidden, w2, b2):
        return hidden.transpose(1, 2) @ w2[:, :, :length] + b2[:, None, :length]


class Random(nn.Module):
    """R: S is learned."""

    name = "random"
    depends_on_input = False

    def __init__(self, term, d_model, heads, max_length):
        super().__init__()
        self.r = nn.Parameter(torch.randn(heads, max_length, max_length), requires_grad=term.name == "R")

    def project(self, x):
        return {}

    def weights(self):
        return {"r": self.r}

    @staticmethod
    def logits(length, r):
        return r[None, :, :length, :length]


class FactorizedRandom(nn.Module):
    """FR: S = r₁ r₂ᵀ."""

    name = "factorized_random"
    depends_on_input = False

    def __init__(self, term, d_model, heads, max_length):
        super().__init__()
        k = term.get("k", 8)
        self.r1 = nn.Parameter(torch.randn(heads, max_length, k) * k**-0.25)
        self.r2 = nn.Parameter(torch.randn(heads, max_length, k) * k**-0.25)

    def project(self, x):
        return {}

    def weights(self):
        return {"r1": self.r1, "r2": self.r2}

    @staticmethod
    def logits(length, r1, r2):
        return (r1[:, :length] @ r2[:, :length].transpose(1, 2))[None]


class FactorizedDense(nn.Module):
    """FD: S_ij = A_i[j mod a] · B_i[j div a]."""

    name = "factorized_dense"
    depends_on_input = True

    def __init__(self, term, d_model, heads, max_length):
        super().__init__()
        self.heads = heads
        a = term.parameters.get("a")
        b = term.parameters.get("b")
        if a is None:
            a = max_length // b if b else max(n for n in range(1, math.isqrt(max_length) + 1) if max_length % n == 0)
        b = b or max_length // a
        hidden = term.get("hidden", d_model // heads)
        self.w0 = linear(d_model, heads * hidden) if hidden else None
        inputs = hidden or d_model
        self.wa, self.ba = matrix(heads, inputs, a), nn.Parameter(torch.zeros(heads, a))
        self.wb, self.bb = matrix(heads, inputs, b), nn.Parameter(torch.zeros(heads, b))

    def project(self, x):
        if self.w0 is not None:
            hidden = split(torch.relu(self.w0(x)), self.heads).transpose(1, 2)
        else:
            hidden = x[:, None]
        first = hidden @ self.wa + self.ba[:, None]
        second = hidden @ self.wb + self.bb[:, None]
        return {"first": first.transpose(1, 2), "second": second.transpose(1, 2)}

    def weights(self):
        return {}

    @staticmethod
    def logits(length, first, second):
        first, second = first.transpose(1, 2), second.transpose(1, 2)
        return (second[..., None] * first[..., None, :]).flatten(-2)[..., :length]


FUNCTIONS = {
    "V": DotProduct,
    "D": Dense,
    "R": Random,
    "Rfix": Random,
    "FR": FactorizedRandom,
    "FD": FactorizedDense,
}
