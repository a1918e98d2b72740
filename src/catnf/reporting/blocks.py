"""What the paper's tables compare: data sets, the figures measured on them, and models in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catnf.reference import Paper
from catnf.reporting.tables import COLORINGS, MODELS, MOLECULES, TABLES, TEXTS


@dataclass(frozen=True)
class Figure:
    """What is compared: a metric, its name for people, and how it is written."""

    metric: str
    words: str
    digits: int = 0  # behind the point; 0 for a share, which is written in percent

    def written(self, value: float, spread: float | None = None, digits: int | None = None) -> str:
        """A value with what is behind ±, where there is something."""
        form = ".2%" if not self.digits else f".{self.digits if digits is None else digits}f"
        return f"{value:{form}}" + ("" if spread is None else f" ± {spread:{form}}")


@dataclass(frozen=True)
class Block:
    """One data set of a table: what was measured on it, and the models in their order."""

    data: str  # as experiments are named, for instance sets/shuffling
    title: str
    figures: tuple[Figure, ...]
    models: Mapping[str, str]  # names for people, by the last part of an experiment's name


_BITS = Figure("bits_per_variable", "bits per variable", 4)
_VALID = Figure("validity", "valid samples")
_NODE = Figure("bits_per_node", "bits per node", 3)
_MOLECULE = (
    Figure("validity", "valid"),
    Figure("validity_largest", "largest part valid"),
    Figure("uniqueness", "unique"),
    Figure("novelty", "novel"),
    Figure("reconstruction", "reconstructed"),
    _NODE,
    Figure("fcd", "FCD", 2),
)
_COLORED = (Figure("validity", "valid colorings"), _NODE)
_CHARACTERS = (
    Figure("bits_per_char", "bits per character", 3),
    Figure("bits_reconstruction", "of these, decoding", 3),
)
# The paper's code averages over sentences, so that this is what its figures are nearest to.
_SENTENCES = (_CHARACTERS[0], Figure("bits_per_char_by_example", "mean over sentences", 3), _CHARACTERS[1])
_WORDS = (Figure("bits_per_word", "bits per word", 3), Figure("bits_reconstruction", "of these, decoding", 3))


_CREDIT = {**TABLES, "independent": "independent columns"}


def _of(data: str) -> dict[str, str]:
    start = f"{data}/"
    return {name.removeprefix(start): words for name, words in MOLECULES.items() if name.startswith(start)}


BLOCKS: Mapping[str, tuple[Block, ...]] = {
    "sets": (
        Block("sets/shuffling", "Set shuffling", (_BITS, _VALID), MODELS),
        Block("sets/summation", "Set summation", (_BITS, _VALID), MODELS),
    ),
    "coloring": (
        Block("coloring/small", "Graph coloring, 10 to 20 nodes", _COLORED, COLORINGS),
        Block("coloring/large", "Graph coloring, 25 to 50 nodes", _COLORED, COLORINGS),
    ),
    "molecules": (
        Block("molecules/zinc250k", "Molecules, Zinc250k", _MOLECULE, _of("zinc250k")),
        Block("molecules/moses", "Molecules, MOSES", _MOLECULE, _of("moses")),
    ),
    "text": (
        Block("text/ptb", "Text, Penn Treebank", _SENTENCES, TEXTS),
        Block("text/text8", "Text, text8", _CHARACTERS, TEXTS),
        Block("text/text8-words", "Text, words of text8", _WORDS, TEXTS),
        Block("text/wikitext2", "Text, WikiText-2", _WORDS, TEXTS),
        Block("text/wikitext103", "Text, WikiText-103", _WORDS, TEXTS),
    ),
    "credit": (Block("table/credit", "Tables, credit risk", (_BITS,), _CREDIT),),
}
"""The paper's tables by the names that are typed."""


def experiments(block: Block, known: Sequence[str], paper: Paper) -> list[str]:
    """The experiments of a block: those with a name for people first, then what else is `known` of it."""
    named = [f"{block.data}/{model}" for model in block.models]
    there = {name for name in (*known, *paper.rows) if name.rsplit("/", 1)[0] == block.data}
    return [name for name in named if name in there] + sorted(there.difference(named))
