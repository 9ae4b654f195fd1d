"""Requests and answers, a JSON object a line."""

import json
import traceback

import torch

from . import measure
from .subject import Subject, Unfit
from .train import Training


class Server:
    """Holds one subject at a time."""

    def __init__(self):
        self.subject = None

    def hello(self):
        return {"torch": torch.__version__, "threads": torch.get_num_threads()}

    def attention(self, part, mix, form, length, batch, d_model, heads, causal):
        self.subject = None
        self.subject = Subject(part, mix, form, length, batch, d_model, heads, causal)
        return {}

    def seconds(self, passed, count):
        work = self.subject.work(passed)
        return {"seconds": [measure.seconds(work) for _ in range(count)]}

    def memory(self, passed):
        """After a first run, which also sets up what PyTorch keeps for later."""
        work = self.subject.work(passed)
        work()
        return {"bytes": measure.peak_bytes(work)}

    def training(self, dump, form):
        """Loads weights and batches; the parameters, and the loss of the first batch without dropout."""
        self.subject = None
        self.subject = Training(dump, form)
        return {"parameters": self.subject.parameters(), "loss": self.subject.loss(0)}

    def steps(self, count):
        """Seconds of each step (forward, backward, optimizer, all) and its loss."""
        steps = [self.subject.step() for _ in range(count)]
        return {"seconds": [seconds for seconds, _ in steps], "losses": [loss for _, loss in steps]}

    def step_memory(self):
        return {"bytes": measure.peak_bytes(self.subject.step)}


def serve(requests, answers) -> None:
    server = Server()
    for line in requests:
        request = json.loads(line)
        try:
            answer = getattr(server, request.pop("do"))(**request)
        except Unfit as unfit:
            answer = {"unfit": str(unfit)}
        except Exception as error:  # whatever it is, it is told; the next request may do
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(answer), file=answers, flush=True)
