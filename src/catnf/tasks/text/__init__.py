"""Text: characters or words in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from catnf.errors import InputError
from catnf.tasks.text.data import Text
from catnf.tasks.text.models import TextModelConfig
from catnf.tasks.text.sources import level_of
from catnf.tasks.text.vocabulary import Level, Vocabulary

__all__ = ["Text", "TextModelConfig", "TextTaskConfig", "Vocabulary"]


@dataclass(frozen=True)
class TextTaskConfig:
    """Which text to learn from; the defaults are the paper's for text8."""

    kind: Literal["text"] = "text"
    source: str = "text8"  # ptb, text8, text8-words, wikitext2, wikitext103, or the path of a file
    level: Level = "characters"  # or words
    window: int = 256  # symbols of an example; of the Penn Treebank the most of a sentence
    words: int = 10_000  # of a vocabulary of words, the unknown one among them
    alphabet: str = ""  # of a user's text, besides what is unknown: characters, or words between blanks
    groups: tuple[
        int, ...
    ] = ()  # largest lengths of groups of sentences that are padded together in training

    def __post_init__(self) -> None:
        if not 2 <= self.window <= 1 << 16:
            raise InputError(f"task.window is {self.window}; give a number from 2 to {1 << 16}.")
        if not 2 <= self.words <= 32_767:
            raise InputError(f"task.words is {self.words}; give a number from 2 to 32,767.")
        level_of(self.source, self.level)
        if self.groups and self.source != "ptb":
            raise InputError(f"task.groups is {list(self.groups)}, but only ptb has sentences; leave it out.")
        if list(self.groups) != sorted({length for length in self.groups if 0 < length < self.window}):
            raise InputError(
                f"task.groups is {list(self.groups)}; give rising lengths between 0 and task.window."
            )

    def make(self) -> Text:
        """The task itself."""
        return Text(self.source, self.level, self.window, self.words, self.alphabet, self.groups)
