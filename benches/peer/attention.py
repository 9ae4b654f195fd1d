"""The multi-head layer around the functions, and its core."""

import torch
from torch import nn
from torch.nn import functional

from .logits import FUNCTIONS, linear, split
from .mix import parse
from .operators import OPERATORS


def causal_mask(length: int) -> torch.Tensor:
    """bool [L, L], true where a key is later than the query."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)


class Core(nn.Module):
    """Logits, mixture, masks, softmax, dropout, weighted values: all of a layer but its projections.

    Takes what the projections give, [B, L, h, w], and the functions' own weights; gives the merged context [B, L, d].
    """

    def __init__(self, terms: list, max_length: int, causal: bool, dropout: float):
        super().__init__()
        self.functions = [FUNCTIONS[term.name] for term in terms]
        self.dropout = dropout
        mask = causal_mask(max_length) if causal else None
        self.register_buffer("mask", mask, persistent=False)

    def mixed(self, length: int, inputs: list, alpha):
        logits = [function.logits(length, **given) for function, given in zip(self.functions, inputs)]
        if alpha is None:
            return logits[0]
        weights = alpha.softmax(0)[:, :, None, None]
        total = logits[0] * weights[0]
        for weight, more in zip(weights[1:], logits[1:]):
            total = total + more * weight
        return total

    def forward(self, inputs: list, values: torch.Tensor, alpha=None, padding=None) -> torch.Tensor:
        length = values.size(1)
        logits = self.mixed(length, inputs, alpha)
        if self.mask is not None:
            logits = logits.masked_fill(self.mask[:length, :length], float("-inf"))
        if padding is not None:
            logits = logits.masked_fill(padding[:, None, None], float("-inf"))
        weights = logits.softmax(-1)
        if self.training and self.dropout > 0:
            # Each row of the batch drops its own.
            weights = functional.dropout(weights.expand(values.size(0), -1, -1, -1), self.dropout)
        return (weights @ values.transpose(1, 2)).transpose(1, 2).flatten(2)


class FusedCore(Core):
    """The same by the best that PyTorch has ready: scaled_dot_product_attention where the logits can be said so, and one
    product a head for the whole batch (einsum) where they do not depend on the input."""

    @staticmethod
    def fits(terms: list) -> bool:
        """V alone, or any mix of R, Rfix and FR."""
        if terms[0].name in OPERATORS:
            return False
        return [term.name for term in terms] == ["V"] or not any(FUNCTIONS[term.name].depends_on_input for term in terms)

    def forward(self, inputs: list, values: torch.Tensor, alpha=None, padding=None) -> torch.Tensor:
        length = values.size(1)
        rate = self.dropout if self.training else 0.0
        if "q" in inputs[0]:
            q, k, v = (x.transpose(1, 2) for x in (inputs[0]["q"], inputs[0]["k"], values))
            mask = None if padding is None else ~padding[:, None, None]
            if mask is not None and self.mask is not None:
                mask = mask & ~self.mask[:length, :length]
            causal = mask is None and self.mask is not None
            context = functional.scaled_dot_product_attention(q, k, v, mask, dropout_p=rate, is_causal=causal)
            return context.transpose(1, 2).flatten(2)
        if padding is not None or rate > 0:
            return super().forward(inputs, values, alpha, padding)
        logits = self.mixed(length, inputs, alpha)[0]
        if self.mask is not None:
            logits = logits.masked_fill(self.mask[:length, :length], float("-inf"))
        return torch.einsum("hqk,bkhw->bqhw", logits.softmax(-1), values).flatten(2)


class Attention(nn.Module):
    """x [B, L, d] to [B, L, d]; weights have the names that our checkpoints and golden files use."""

    def __init__(self, mix, d_model, heads, max_length, causal, dropout=0.0, core=Core):
        super().__init__()
        terms = parse(mix)
        self.heads = heads
        self.value = linear(d_model, d_model)
        self.output = linear(d_model, d_model)
        self.names = [FUNCTIONS[term.name].name for term in terms]
        for name, term in zip(self.names, terms):
            self.add_module(name, FUNCTIONS[term.name](term, d_model, heads, max_length))
        self.alpha = nn.Parameter(torch.zeros(len(terms), heads)) if len(terms) > 1 else None
        self.core = core(terms, max_length, causal, dropout)

    def forward(self, x, padding=None):
        functions = [self.get_submodule(name) for name in self.names]
        inputs = [{**function.project(x), **function.weights()} for function in functions]
        context = self.core(inputs, split(self.value(x), self.heads), self.alpha, padding)
        return self.output(context)


def layer_of(mix, d_model, heads, max_length, causal, dropout=0.0, core=Core) -> nn.Module:
    """The layer of any mix: an operator stands alone."""
    first = parse(mix)[0]
    if first.name in OPERATORS:
        return OPERATORS[first.name](first, d_model, heads, max_length, causal, dropout)
    return Attention(mix, d_model, heads, max_length, causal, dropout, core)
