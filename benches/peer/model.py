"""Pre-norm Transformers: a language model and an encoder-decoder, with the weights' names of our checkpoints."""

import math

import torch
from torch import nn
from torch.nn import functional

from .attention import Core, layer_of
from .logits import linear

EPSILON = 1e-6


class Embedding(nn.Module):
    """√d · E[token] + sinusoids, dropped; E is the softmax's matrix too."""

    def __init__(self, sizes):
        super().__init__()
        width = sizes["d_model"]
        self.table = nn.Parameter(torch.randn(sizes["vocabulary"], width) * width**-0.5)
        half = width // 2
        rates = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(1e4) / max(half - 1, 1)))
        angles = torch.arange(sizes["max_length"], dtype=torch.float64)[:, None] * rates
        positions = torch.cat([angles.sin(), angles.cos()], 1).float()
        self.register_buffer("positions", positions, persistent=False)
        self.scale = math.sqrt(width)
        self.dropout = nn.Dropout(sizes["dropout"])

    def forward(self, tokens):
        x = functional.embedding(tokens, self.table) * self.scale
        return self.dropout(x + self.positions[: tokens.size(1)])

    def logits(self, hidden):
        return functional.linear(hidden, self.table)


class FeedForward(nn.Module):
    """w2(dropout(relu(w1 x)))."""

    def __init__(self, sizes):
        super().__init__()
        self.w1 = linear(sizes["d_model"], sizes["d_ff"])
        self.w2 = linear(sizes["d_ff"], sizes["d_model"])
        self.dropout = nn.Dropout(sizes["relu_dropout"])

    def forward(self, x):
        return self.w2(self.dropout(torch.relu(self.w1(x))))


class Cross(nn.Module):
    """Dot-product attention to a memory."""

    def __init__(self, sizes):
        super().__init__()
        width = sizes["d_model"]
        self.heads, self.rate = sizes["heads"], sizes["attention_dropout"]
        self.query, self.key = linear(width, width), linear(width, width)
        self.value, self.output = linear(width, width), linear(width, width)

    def heads_of(self, x):
        return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

    def forward(self, x, memory, padding):
        q, k, v = self.heads_of(self.query(x)), self.heads_of(self.key(memory)), self.heads_of(self.value(memory))
        logits = (q * q.size(-1) ** -0.5) @ k.transpose(2, 3)
        if padding is not None:
            logits = logits.masked_fill(padding[:, None, None], float("-inf"))
        weights = functional.dropout(logits.softmax(-1), self.rate, self.training)
        return self.output((weights @ v).transpose(1, 2).flatten(2))


class FusedCross(Cross):
    """The same by scaled_dot_product_attention."""

    def forward(self, x, memory, padding):
        q, k, v = self.heads_of(self.query(x)), self.heads_of(self.key(memory)), self.heads_of(self.value(memory))
        mask = None if padding is None else ~padding[:, None, None]
        rate = self.rate if self.training else 0.0
        context = functional.scaled_dot_product_attention(q, k, v, mask, dropout_p=rate)
        return self.output(context.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Self-attention, attention to a memory where there is one, feed-forward: each a pre-norm residual branch."""

    def __init__(self, sizes, causal, cross, core):
        super().__init__()
        width = sizes["d_model"]
        self.attention_norm = nn.LayerNorm(width, eps=EPSILON)
        mix, heads, longest = sizes["mix"], sizes["heads"], sizes["max_length"]
        self.attention = layer_of(mix, width, heads, longest, causal, sizes["attention_dropout"], core)
        self.cross_norm = nn.LayerNorm(width, eps=EPSILON) if cross else None
        self.cross = cross(sizes) if cross else None
        self.feed_forward_norm = nn.LayerNorm(width, eps=EPSILON)
        self.feed_forward = FeedForward(sizes)
        self.dropout = nn.Dropout(sizes["dropout"])

    def forward(self, x, padding=None, memory=None, memory_padding=None):
        x = x + self.dropout(self.attention(self.attention_norm(x), padding))
        if self.cross is not None:
            x = x + self.dropout(self.cross(self.cross_norm(x), memory, memory_padding))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class Stack(nn.Module):
    """Layers and a last norm."""

    def __init__(self, layers, sizes, causal, cross, core):
        super().__init__()
        self.layers = nn.ModuleList(Layer(sizes, causal, cross, core) for _ in range(layers))
        self.norm = nn.LayerNorm(sizes["d_model"], eps=EPSILON)

    def forward(self, x, *given):
        for layer in self.layers:
            x = layer(x, *given)
        return self.norm(x)


class LanguageModel(nn.Module):
    """Tokens [B, L] to logits [B, L, vocabulary]. Padding stands at the end of rows, where the causal mask hides it."""

    def __init__(self, sizes, core=Core):
        super().__init__()
        self.embedding = Embedding(sizes)
        self.decoder = Stack(sizes["decoder_layers"], sizes, True, None, core)

    def forward(self, tokens):
        return self.embedding.logits(self.decoder(self.embedding(tokens)))


class Translator(nn.Module):
    """Source [B, S], its padding (or None) and target input [B, T] to logits [B, T, vocabulary]."""

    def __init__(self, sizes, core=Core):
        super().__init__()
        self.embedding = Embedding(sizes)
        self.encoder = Stack(sizes["encoder_layers"], sizes, False, None, core)
        cross = Cross if core is Core else FusedCross
        self.decoder = Stack(sizes["decoder_layers"], sizes, True, cross, core)

    def forward(self, source, padding, target):
        memory = self.encoder(self.embedding(source), padding)
        return self.embedding.logits(self.decoder(self.embedding(target), None, memory, padding))
