"""The baselines: layers that mix positions without logits of a function. Equations: the head of each file in src/attention/."""

import torch
from torch import nn
from torch.nn import functional

from .logits import linear, matrix


def clear(x, padding):
    return x if padding is None else x.masked_fill(padding[..., None], 0.0)


class Convolution(nn.Module):
    """LC and DC: a gated linear unit, then a depthwise convolution whose kernel, one a head, is a softmax."""

    def __init__(self, term, d_model, heads, max_length, causal, dropout):
        super().__init__()
        self.heads, self.taps, self.causal, self.rate = heads, term.get("kernel", 31), causal, dropout
        self.before = self.taps - 1 if causal else self.taps // 2
        self.value, self.output = linear(d_model, d_model), linear(d_model, d_model)
        own = nn.Module()
        own.gate = linear(d_model, d_model)
        self.is_dynamic = term.name == "DC"
        if self.is_dynamic:
            own.kernel = nn.Linear(d_model, heads * self.taps, bias=False)
        else:
            own.kernel = matrix(heads, self.taps)
        self.name = "dynamic_convolution" if self.is_dynamic else "lightweight_convolution"
        self.add_module(self.name, own)

    def forward(self, x, padding=None):
        own = self.get_submodule(self.name)
        gated = clear(functional.glu(torch.cat([self.value(x), own.gate(x)], -1)), padding)
        batch, length, width = gated.shape
        after = self.taps - 1 - self.before
        if self.is_dynamic:
            taps = own.kernel(gated).view(batch, length, self.heads, self.taps).softmax(-1)
            taps = functional.dropout(taps, self.rate, self.training)
            windows = functional.pad(gated, (0, 0, self.before, after)).unfold(1, self.taps, 1)
            windows = windows.view(batch, length, self.heads, width // self.heads, self.taps)
            mixed = (windows @ taps[..., None]).view(batch, length, width)
        else:
            taps = functional.dropout(own.kernel.softmax(-1), self.rate, self.training)
            # One group a channel: each head's kernel serves its channels.
            kernel = taps.repeat_interleave(width // self.heads, 0)[:, None]
            padded = functional.pad(gated.transpose(1, 2), (self.before, after))
            mixed = functional.conv1d(padded, kernel, groups=width).transpose(1, 2)
        return self.output(mixed)


class Linformer(nn.Module):
    """Lin: softmax(Q (E K)ᵀ/√d_h) (F V)."""

    def __init__(self, term, d_model, heads, max_length, causal, dropout):
        super().__init__()
        self.heads, self.rate = heads, dropout
        k = term.get("k", max(max_length // 4, 1))
        self.value, self.output = linear(d_model, d_model), linear(d_model, d_model)
        self.linformer = nn.Module()
        self.linformer.query, self.linformer.key = linear(d_model, d_model), linear(d_model, d_model)
        self.linformer.e, self.linformer.f = matrix(k, max_length), matrix(k, max_length)

    def forward(self, x, padding=None):
        own, (batch, length, width) = self.linformer, x.shape
        heads = lambda y: y.view(batch, -1, self.heads, width // self.heads).transpose(1, 2)
        q = heads(own.query(x))
        k = heads(own.e[:, :length] @ clear(own.key(x), padding))
        v = heads(own.f[:, :length] @ clear(self.value(x), padding))
        context = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.rate if self.training else 0.0)
        return self.output(context.transpose(1, 2).flatten(2))


class Fourier(nn.Module):
    """FFT: the real part of a transform over max_length positions and all channels."""

    def __init__(self, term, d_model, heads, max_length, causal, dropout):
        super().__init__()
        self.max_length = max_length

    def forward(self, x, padding=None):
        sizes = (self.max_length, x.size(2))
        return torch.fft.fft2(clear(x, padding), s=sizes, norm="ortho").real[:, : x.size(1)]


class Mixer(nn.Module):
    """Mixer: one matrix for all channels, no softmax."""

    def __init__(self, term, d_model, heads, max_length, causal, dropout):
        super().__init__()
        self.causal, self.rate = causal, dropout
        self.value, self.output = linear(d_model, d_model), linear(d_model, d_model)
        self.mixer = nn.Module()
        self.mixer.w = matrix(max_length, max_length)

    def forward(self, x, padding=None):
        w = self.mixer.w[: x.size(1), : x.size(1)]
        w = functional.dropout(w.tril() if self.causal else w, self.rate, self.training)
        return self.output(w @ clear(self.value(x), padding))


OPERATORS = {"LC": Convolution, "DC": Convolution, "Lin": Linformer, "FFT": Fourier, "Mixer": Mixer}
