"""The peer of `synthesizer bench decode`: greedy and beam search in PyTorch, with caches of keys and values.

    python benches/torch_decode.py CASE.json [--beam 1 --beam 4] [--repeats 5]
    python benches/torch_decode.py CASE.json --serve

CASE.json is what `synthesizer bench decode RUN_DIR --dump CASE.json` writes: the sizes of the model, its weights
(safetensors), the sentences as token ids, their batches and their longest outputs. With --serve a line `BEAM` on stdin
runs all sentences once and is answered by a line of JSON, {"seconds": s, "steps": n, "hypotheses": [[id, ...], ...]}.

The search is that of src/decode/beam.rs: 2·beam candidates a step, length penalty ((5 + n)/6)^α, a sentence is done when
no hypothesis of its beam can still beat its best finished one, or at its longest output.
"""

import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

# where a hypothesis has no token
NOTHING = -1


def sinusoids(length, width):
    half = width // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float64) * (-torch.log(torch.tensor(1e4, dtype=torch.float64)) / max(half - 1, 1)))
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1).float()


def split(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).flatten(2)


class Dense(nn.Module):
    """S = relu(x W1ᵀ + b1) w2 + b2."""

    def __init__(self, d, heads, length):
        super().__init__()
        self.heads = heads
        self.w1 = nn.Linear(d, d)
        self.w2 = nn.Parameter(torch.empty(heads, d // heads, length))
        self.b2 = nn.Parameter(torch.empty(heads, length))

    def logits(self, x, first, keys):
        return split(self.w1(x).relu(), self.heads) @ self.w2[:, :, :keys] + self.b2[:, None, :keys]


class Random(nn.Module):
    """S = R."""

    def __init__(self, d, heads, length):
        super().__init__()
        self.r = nn.Parameter(torch.empty(heads, length, length))

    def logits(self, x, first, keys):
        return self.r[None, :, first : first + x.shape[1], :keys]


class FactorizedRandom(nn.Module):
    """S = r1 r2ᵀ, which no input changes: multiplied out once."""

    def __init__(self, d, heads, length, k=8):
        super().__init__()
        self.r1 = nn.Parameter(torch.empty(heads, length, k))
        self.r2 = nn.Parameter(torch.empty(heads, length, k))
        self.product = None

    def logits(self, x, first, keys):
        if self.product is None:
            self.product = self.r1 @ self.r2.transpose(1, 2)
        return self.product[None, :, first : first + x.shape[1], :keys]


class DotProduct(nn.Module):
    """S = q kᵀ/√d_h."""

    def __init__(self, d, heads, length):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(d, d)
        self.key = nn.Linear(d, d)


FUNCTIONS = {
    "V": ("dot_product", DotProduct),
    "D": ("dense", Dense),
    "R": ("random", Random),
    "Rfix": ("random", Random),
    "FR": ("factorized_random", FactorizedRandom),
}


class SelfAttention(nn.Module):
    def __init__(self, sizes, mix):
        super().__init__()
        d, heads = sizes["d_model"], sizes["heads"]
        self.heads = heads
        self.value = nn.Linear(d, d)
        self.output = nn.Linear(d, d)
        self.names = [FUNCTIONS[term][0] for term in mix]
        for term in mix:
            name, function = FUNCTIONS[term]
            self.add_module(name, function(d, heads, sizes["max_length"]))
        if len(mix) > 1:
            self.alpha = nn.Parameter(torch.empty(len(mix), heads))

    def context(self, x, keys, values, first, mask):
        """softmax(S) V for the positions `first`.. of x; keys and values [B, h, all positions so far, d_h]."""
        length = values.shape[2]
        if self.names == ["dot_product"]:
            return F.scaled_dot_product_attention(split(self.dot_product.query(x), self.heads), keys, values, attn_mask=mask)
        weights = self.alpha.softmax(0)[..., None, None] if len(self.names) > 1 else None
        logits = bias = None
        for index, name in enumerate(self.names):
            if name == "dot_product":
                continue
            term = getattr(self, name).logits(x, first, length)
            bias = (term if weights is None else term * weights[index]) + (0 if bias is None else bias)
        if "dot_product" in self.names:
            # the other terms are an additive bias of the fused kernel
            query = split(self.dot_product.query(x), self.heads) * weights[self.names.index("dot_product")]
            bias = bias.expand(query.shape[0], -1, query.shape[2], -1)
            if mask is not None:
                bias = bias.masked_fill(~mask, float("-inf"))
            return F.scaled_dot_product_attention(query, keys, values, attn_mask=bias)
        if mask is not None:
            bias = bias.masked_fill(~mask, float("-inf"))
        return bias.softmax(-1) @ values

    def forward(self, x, mask):
        keys = split(self.dot_product.key(x), self.heads) if "dot_product" in self.names else None
        return self.output(merge(self.context(x, keys, split(self.value(x), self.heads), 0, mask)))

    def step(self, x, cache):
        values = split(self.value(x), self.heads)
        keys = split(self.dot_product.key(x), self.heads) if "dot_product" in self.names else None
        first = 0
        if cache:
            first = cache["values"].shape[2]
            values = torch.cat([cache["values"], values], 2)
            keys = torch.cat([cache["keys"], keys], 2) if keys is not None else None
        cache["values"] = values
        if keys is not None:
            cache["keys"] = keys
        return self.output(merge(self.context(x, keys, values, first, None)))


class CrossAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(d, d) for _ in range(4))

    def memory(self, memory):
        return split(self.key(memory), self.heads), split(self.value(memory), self.heads)

    def forward(self, x, keys, values, mask):
        query = split(self.query(x), self.heads)
        return self.output(merge(F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)))


class FeedForward(nn.Module):
    def __init__(self, d, inner):
        super().__init__()
        self.w1, self.w2 = nn.Linear(d, inner), nn.Linear(inner, d)

    def forward(self, x):
        return self.w2(self.w1(x).relu())


class Layer(nn.Module):
    def __init__(self, sizes, mix, decoder):
        super().__init__()
        d = sizes["d_model"]
        self.attention_norm = nn.LayerNorm(d, eps=1e-6)
        self.attention = SelfAttention(sizes, mix)
        if decoder:
            self.cross_norm = nn.LayerNorm(d, eps=1e-6)
            self.cross = CrossAttention(d, sizes["heads"])
        self.feed_forward_norm = nn.LayerNorm(d, eps=1e-6)
        self.feed_forward = FeedForward(d, sizes["d_ff"])


class Stack(nn.Module):
    def __init__(self, sizes, mix, layers, decoder):
        super().__init__()
        self.layers = nn.ModuleList(Layer(sizes, mix, decoder) for _ in range(layers))
        self.norm = nn.LayerNorm(sizes["d_model"], eps=1e-6)


class Translator(nn.Module):
    def __init__(self, sizes, mix):
        super().__init__()
        self.embedding = nn.Module()
        self.embedding.table = nn.Parameter(torch.empty(sizes["vocabulary"], sizes["d_model"]))
        self.encoder = Stack(sizes, mix, sizes["encoder_layers"], False)
        self.decoder = Stack(sizes, mix, sizes["decoder_layers"], True)
        self.register_buffer("positions", sinusoids(sizes["max_length"], sizes["d_model"]), persistent=False)
        self.scale = sizes["d_model"] ** 0.5

    def embed(self, tokens, first):
        x = F.embedding(tokens, self.embedding.table) * self.scale
        return x + self.positions[first : first + tokens.shape[1]]

    def encode(self, source, mask):
        x = self.embed(source, 0)
        for layer in self.encoder.layers:
            x = x + layer.attention(layer.attention_norm(x), mask)
            x = x + layer.feed_forward(layer.feed_forward_norm(x))
        return self.encoder.norm(x)

    def start(self, memory, beam):
        """Caches of each layer: nothing of the output yet, keys and values of the memory for every beam."""
        return [({}, [x.repeat_interleave(beam, 0) for x in layer.cross.memory(memory)]) for layer in self.decoder.layers]

    def step(self, tokens, position, caches, mask):
        x = self.embed(tokens[:, None], position)
        for layer, (own, (keys, values)) in zip(self.decoder.layers, caches):
            x = x + layer.attention.step(layer.attention_norm(x), own)
            x = x + layer.cross(layer.cross_norm(x), keys, values, mask)
            x = x + layer.feed_forward(layer.feed_forward_norm(x))
        return F.linear(self.decoder.norm(x[:, 0]), self.embedding.table)


def penalty(length, alpha):
    return ((5 + length) / 6) ** alpha


def greedy(model, source, mask, limits, case):
    rows, begin, end = source.shape[0], case["begin"], case["end"]
    caches = model.start(model.encode(source, mask), 1)
    tokens = torch.full((rows,), begin)
    done = limits == 0
    written = []
    position = 0
    while not done.all():
        tokens = model.step(tokens, position, caches, mask).argmax(-1)
        position += 1
        written.append(tokens.masked_fill(done, NOTHING))
        done = done | (tokens == end) | (limits <= position)
    return torch.stack(written, 1), position


def beam_search(model, source, mask, limits, case, beam):
    rows, begin, end, alpha = source.shape[0], case["begin"], case["end"], case["length_penalty"]
    caches = model.start(model.encode(source, mask), beam)
    beam_mask = mask.repeat_interleave(beam, 0) if mask is not None else None
    longest = int(limits.max())
    first_of = torch.arange(rows)[:, None] * beam
    total = torch.full((rows, beam), float("-inf"))
    total[:, 0] = 0.0
    tokens = torch.full((rows * beam,), begin)
    written = torch.full((rows, beam, longest), NOTHING)
    best = torch.full((rows, longest), NOTHING)
    best_score = torch.full((rows,), float("-inf"))
    final_penalty = penalty(limits.double(), alpha).float()
    done = limits == 0
    position = 0
    while not done.all():
        log_probabilities = model.step(tokens, position, caches, beam_mask).log_softmax(-1)
        vocabulary = log_probabilities.shape[-1]
        position += 1
        scores = (total[..., None] + log_probabilities.view(rows, beam, vocabulary)).view(rows, -1)
        scores, index = scores.topk(2 * beam, -1)
        parent, token = index // vocabulary, index % vocabulary
        written = written.gather(1, parent[..., None].expand(-1, -1, longest))
        written[:, :, position - 1] = token
        ends = token == end
        # the best of those that end now
        score, at = (scores / penalty(position, alpha)).masked_fill(~ends, float("-inf")).max(1)
        better = (score > best_score) & ~done
        best_score = torch.where(better, score, best_score)
        best = torch.where(better[:, None], written[torch.arange(rows), at], best)
        # the best `beam` of the others stay alive
        total, keep = scores.masked_fill(ends, float("-inf")).topk(beam, 1)
        written = written.gather(1, keep[..., None].expand(-1, -1, longest))
        tokens = token.gather(1, keep).flatten()
        order = (first_of + parent.gather(1, keep)).flatten()
        for own, _ in caches:
            for name in own:
                own[name] = own[name].index_select(0, order)
        # at its longest output a sentence without a finished hypothesis takes its best unfinished one
        cut = (limits == position) & ~done & best_score.isneginf()
        best = torch.where(cut[:, None], written[:, 0], best)
        bound = total[:, 0] / final_penalty.clamp(min=penalty(position + 1, alpha))
        done = done | (bound <= best_score) | (limits <= position)
    return best, position


@torch.inference_mode()
def translate(model, case, beam):
    """Hypotheses in the order of the sentences, and steps of the decoder."""
    hypotheses, steps = [None] * len(case["sources"]), 0
    for rows in case["batches"]:
        sources = [case["sources"][row] + [case["end"]] for row in rows]
        longest = max(map(len, sources))
        source = torch.tensor([row + [case["pad"]] * (longest - len(row)) for row in sources])
        padded = any(len(row) < longest for row in sources)
        mask = (source != case["pad"])[:, None, None, :] if padded else None
        limits = torch.tensor([case["max_lengths"][row] for row in rows])
        if beam == 1:
            found, taken = greedy(model, source, mask, limits, case)
        else:
            found, taken = beam_search(model, source, mask, limits, case, beam)
        steps += taken
        for row, tokens in zip(rows, found.tolist()):
            ends = next((i for i, token in enumerate(tokens) if token in (case["end"], NOTHING)), len(tokens))
            hypotheses[row] = tokens[:ends]
    return hypotheses, steps


def load(case):
    model = Translator(case["model"], case["mix"])
    tensors = load_file(case["weights"])
    # Checkpoints hold more than weights, and name these "weight.…"; fresh weights come alone.
    named = {name.removeprefix("weight."): tensor for name, tensor in tensors.items() if name.startswith("weight.")}
    weights = named or tensors
    model.load_state_dict(weights)
    return model.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case")
    parser.add_argument("--beam", type=int, action="append")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--serve", action="store_true")
    args = parser.parse_args()
    with open(args.case, encoding="utf-8") as file:
        case = json.load(file)
    torch.set_num_threads(case["threads"])
    model = load(case)

    def run(beam):
        started = time.perf_counter()
        hypotheses, steps = translate(model, case, beam)
        return {"seconds": time.perf_counter() - started, "steps": steps, "hypotheses": hypotheses}

    if args.serve:
        print(json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads()}), flush=True)
        for line in sys.stdin:
            print(json.dumps(run(int(line))), flush=True)
        return
    for beam in args.beam or [1, 4]:
        run(beam)
        runs = [run(beam) for _ in range(args.repeats)]
        seconds = statistics.median(one["seconds"] for one in runs)
        sentences = len(case["sources"])
        tokens = sum(len(hypothesis) + 1 for hypothesis in runs[0]["hypotheses"])
        print(f"beam {beam}: {seconds:.3f} s, {sentences / seconds:.1f} sentences/s, {tokens / seconds:.0f} tokens/s, {runs[0]['steps']} steps")


if __name__ == "__main__":
    main()
