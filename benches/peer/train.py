"""The training step, on batches and from weights that `synthesizer bench` dumped."""

import json
import time

import torch
from safetensors import safe_open
from torch import nn

from .model import LanguageModel, Translator
from .subject import core_of


class Training:
    """A model, its optimizer and its batches.

    The dump holds `weight.NAME`, and `batch.N.NAME` with token ids filled up with `pad`: `input` and `target` of a language
    model; `source`, `input` and `target` of an encoder-decoder. Its metadata `config` is JSON: the sizes, and what Adam needs.
    """

    def __init__(self, dump: str, form: str):
        with safe_open(dump, framework="pt") as file:
            self.config = json.loads(file.metadata()["config"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        config = self.config
        model = {"language-model": LanguageModel, "encoder-decoder": Translator}[config["model"]]
        self.model = model(config["sizes"], core_of(form, config["sizes"]["mix"]))
        weights = {name.removeprefix("weight."): value for name, value in tensors.items() if name.startswith("weight.")}
        self.model.load_state_dict(weights)
        self.run = torch.compile(self.model, dynamic=True) if form == "compile" else self.model
        count = 1 + max(int(name.split(".")[1]) for name in tensors if name.startswith("batch."))
        self.batches = [self.batch(tensors, f"batch.{number}.") for number in range(count)]
        self.criterion = nn.CrossEntropyLoss(ignore_index=config["pad"], label_smoothing=config["label_smoothing"])
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=config["learning_rates"][0], betas=config["betas"], eps=config["epsilon"], fused=True
        )
        self.done = 0

    def batch(self, tensors, prefix):
        """What the model takes, and what it is to predict."""
        given = [tensors[prefix + "input"]]
        if prefix + "source" in tensors:
            source = tensors[prefix + "source"]
            padding = source == self.config["pad"]
            given = [source, padding if padding.any() else None] + given
        return given, tensors[prefix + "target"].flatten()

    def parameters(self) -> int:
        return sum(weight.numel() for weight in self.model.parameters())

    def loss(self, number: int) -> float:
        """Of a batch, without dropout."""
        self.model.eval()
        with torch.no_grad():
            given, target = self.batches[number]
            loss = self.criterion(self.model(*given).flatten(0, 1), target).item()
        self.model.train()
        return loss

    def step(self):
        """One step; seconds of forward, backward and optimizer, and the loss."""
        given, target = self.batches[self.done % len(self.batches)]
        self.optimizer.param_groups[0]["lr"] = self.config["learning_rates"][self.done]
        self.done += 1
        begun = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.criterion(self.run(*given).flatten(0, 1), target)
        forward = time.perf_counter()
        loss.backward()
        backward = time.perf_counter()
        if self.config["clip_norm"] > 0:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config["clip_norm"])
        self.optimizer.step()
        ended = time.perf_counter()
        return [forward - begun, backward - forward, ended - backward, ended - begun], loss.item()
