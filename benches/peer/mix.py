"""The mix grammar: `R+V`, `FD(hidden=0)`, `LC(kernel=7) + V`."""

import re
from typing import NamedTuple

TERM = re.compile(r"\s*([A-Za-z]+)\s*(?:\(([^()]*)\))?\s*")


class Term(NamedTuple):
    """A function's name and its parameters."""

    name: str
    parameters: dict

    def get(self, parameter: str, default: int) -> int:
        return self.parameters.get(parameter, default)


def parse(text: str) -> list:
    """The terms of a mix. The Rust program checks what users type; here a mix is known to be good."""
    terms = []
    for part in text.split("+"):
        match = TERM.fullmatch(part)
        if not match:
            raise ValueError(f"{text!r}: {part!r} is no term of a mix")
        pairs = (pair.split("=") for pair in (match.group(2) or "").split(",") if pair.strip())
        terms.append(Term(match.group(1), {key.strip(): int(value) for key, value in pairs}))
    return terms
