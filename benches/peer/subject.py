"""A core or a layer with its inputs, ready to run."""

import torch

from .attention import Core, FusedCore, layer_of, split
from .logits import FUNCTIONS
from .mix import parse
from .operators import OPERATORS

FORMS = ("eager", "compile", "fused")


class Unfit(Exception):
    """A form that this mix does not have."""


def core_of(form: str, mix: str) -> type:
    if form != "fused":
        return Core
    if not FusedCore.fits(parse(mix)):
        raise Unfit(f"PyTorch has nothing fused for {mix}")
    return FusedCore


class Subject:
    """Float32, no dropout, no padding, N = L; gradients of all inputs and weights."""

    def __init__(self, part, mix, form, length, batch, d_model, heads, causal=True):
        torch.manual_seed(0)
        build = {"core": self.core, "layer": self.layer}[part]
        module, inputs, trained = build(mix, core_of(form, mix), length, batch, d_model, heads, causal)
        self.leaves = trained + [weight for weight in module.parameters() if weight.requires_grad]
        self.module, self.inputs = module, inputs
        if form == "compile":
            torch._dynamo.reset()
            self.module = torch.compile(module, dynamic=False)
        self.gradient = torch.randn(batch, length, d_model)

    @staticmethod
    def layer(mix, core, length, batch, d_model, heads, causal):
        x = torch.randn(batch, length, d_model, requires_grad=True)
        return layer_of(mix, d_model, heads, length, causal, core=core), (x,), [x]

    @staticmethod
    def core(mix, core, length, batch, d_model, heads, causal):
        terms = parse(mix)
        if terms[0].name in OPERATORS:
            raise Unfit(f"{mix} has no core apart from its layer")
        functions = [FUNCTIONS[term.name](term, d_model, heads, length) for term in terms]
        x = torch.randn(batch, length, d_model)
        leaves = []

        def leaf(tensor):
            made = tensor.detach().contiguous().requires_grad_()
            leaves.append(made)
            return made

        inputs = []
        for function in functions:
            projected = {name: leaf(tensor) for name, tensor in function.project(x).items()}
            weights = function.weights()
            leaves += [weight for weight in weights.values() if weight.requires_grad]
            inputs.append({**projected, **weights})
        values = leaf(split(torch.randn(batch, length, d_model), heads))
        alpha = leaf(torch.zeros(len(terms), heads)) if len(terms) > 1 else None
        return core(terms, length, causal, 0.0), (inputs, values, alpha), leaves

    def forward(self):
        # no_grad and not inference_mode: the same tensors take part in both passes.
        with torch.no_grad():
            self.module(*self.inputs)

    def both(self):
        output = self.module(*self.inputs)
        # Gradients are returned, not added up: each run does the same work.
        torch.autograd.grad(output, self.leaves, self.gradient)

    def work(self, name: str):
        return {"forward": self.forward, "forward+backward": self.both}[name]
