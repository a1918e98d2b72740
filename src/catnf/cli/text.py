"""Commands for texts: prepare one, write texts, score them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from catnf.cli.base import (
    AsJson,
    as_csv,
    check_archive_name,
    check_source,
    data,
    messages,
    stopping,
)
from catnf.cli.numbers import within
from catnf.cli.progress import counting_bar, download_bars
from catnf.configuration import as_override
from catnf.errors import InputError

if TYPE_CHECKING:
    from catnf.fitted import FittedModel
    from catnf.tasks.text.preparation import Summary
    from catnf.tasks.text.vocabulary import Level
    from catnf.text import TextOptions

_DEFAULT = "text/text8/mixture"  # whose settings a text of one's own is learned with
_WORDS = "text/text8-words/mixture"  # and by words


@data.command("text")
def make_text(
    source: Annotated[
        str, typer.Argument(help="ptb, text8, text8-words, wikitext2, wikitext103, or a UTF-8 file.")
    ],
    level: Annotated[
        Literal["characters", "words"] | None, typer.Option(help="Of a file; default: characters.")
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            help="Symbols to keep; default: 256 characters, 10,000 words.", callback=within(2, 32_767)
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File; default: the data folder, or beside a file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read a text into a compact file; tells which characters or words are unknown."""
    from catnf.tasks.text.sources import FINGERPRINTS, NAMES

    check_source(source, NAMES)
    path = output if output is not None else _default_path(source, level)
    check_archive_name(path)
    started = time.monotonic()
    summary = _prepare(source, path, level, size)
    if size is None and summary.fingerprint != FINGERPRINTS.get(source, summary.fingerprint):
        messages.print("This is not the text of published figures; upgrade catnf, or report it.")
    if as_json:
        told = {
            "path": str(path),
            "bytes": path.stat().st_size,
            "fingerprint": summary.fingerprint,
            "categories": summary.categories,
            "symbols": dict(summary.symbols),
            "sentences": dict(summary.sentences),
            "unknown": {split: dict(counts.most_common(100)) for split, counts in summary.unknown.items()},
            "lowered": {split: dict(counts) for split, counts in summary.lowered.items()},
            "vectors": summary.vectors or 0,
        }
        print(json.dumps(told))
        return
    _tell(summary, path, time.monotonic() - started)
    print(path)


def own_text(
    name: str, file: Path | None, level: Level | None, size: int | None, quiet: bool
) -> tuple[str, list[str]]:
    """Prepare a user's text beside its file.

    Args:
        name: an experiment with text, or `text` for the one of text8.
        file: the user's.
        level: of what a symbol is; default: as in the experiment.
        size: symbols to keep.
        quiet: say nothing.

    Returns:
        The experiment's name, and what to change in it to learn from this text.
    """
    from catnf.experiments import load_experiment
    from catnf.tasks.text import TextTaskConfig
    from catnf.tasks.text.archive import TextData

    if file is None:
        raise InputError("No text is named; give a UTF-8 file with --text mine.txt.")
    check_source(str(file))
    named = (_WORDS if level == "words" else _DEFAULT) if name == "text" else name
    usual = load_experiment(named).task
    if not isinstance(usual, TextTaskConfig):
        raise InputError(f"--text is for models of text, which {name} is not; train text instead.")
    level = level or usual.level
    started = time.monotonic()
    path = _default_path(str(file), level)
    summary = _prepare(str(file), path, level, size)
    if not quiet:
        _tell(summary, path, time.monotonic() - started)
    vocabulary = TextData.load(path, names=()).vocabulary
    values = {
        "name": f"text/{file.stem}-{level}",
        "task.source": str(path.resolve()),  # so that the run goes on from any folder
        "task.level": level,
        "task.words": len(vocabulary),
        "task.alphabet": vocabulary.alphabet,  # so that the model writes without the file
        "task.groups": [],  # which are for sentences
    }
    return named, [as_override(field, value) for field, value in values.items()]


def _prepare(source: str, path: Path, level: Level | None, size: int | None) -> Summary:
    from catnf.tasks.text.preparation import prepare

    with download_bars() as show:
        return prepare(source, path, level, size, show)


def _default_path(source: str, level: Level | None) -> Path:
    from catnf.tasks.files import data_folders
    from catnf.tasks.text.sources import NAMES, level_of, prepared_beside, relative_path

    if source in NAMES:
        return data_folders()[0] / relative_path(source)
    return prepared_beside(Path(source), level_of(source, level))


def print_texts(fitted: FittedModel, options: TextOptions, output: Path | None, as_json: bool) -> None:
    """Write texts on the screen or, one in a line, into a file."""
    from catnf.storage import write_text
    from catnf.tasks.text.vocabulary import told_counts
    from catnf.text import text_task, write_texts

    started = time.monotonic()
    written = write_texts(fitted, options)
    seconds = time.monotonic() - started
    if written.lowered:
        messages.print(f"Taken in lower case: {told_counts(written.lowered)}.")
    if written.unknown:
        vocabulary = text_task(fitted).vocabulary
        shown = vocabulary.symbols[vocabulary.unknown]
        messages.print(f"Unknown, and taken as {shown!r}: {told_counts(written.unknown)}.")
    texts = written.texts
    if output is not None:
        lines = [text.replace("\\", "\\\\").replace("\n", "\\n") for text in texts]
        write_text(output, "\n".join(lines) + "\n")
    if as_json:
        told: dict[str, object] = {"n": len(texts), "seconds": round(seconds, 3)}
        print(json.dumps(told | ({"output": str(output)} if output else {"samples": texts})))
        return
    if output is None:
        print("\n\n".join(texts) if any("\n" in text for text in texts) else "\n".join(texts))
    messages.print(f"{_texts(len(texts))} in {seconds:.1f} s")


def _texts(count: int) -> str:
    return f"{count:,} text{'s' if count != 1 else ''}"


def score_lines(
    fitted: FittedModel, file: Path, output: Path | None, samples: int, seed: int, as_json: bool
) -> None:
    """Score the lines of a file, each a text, and show or write them, the most unusual first."""
    from catnf.storage import write_text
    from catnf.text import score_texts, text_task

    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text; save it as such or give another file.") from error
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}; give a file of texts.") from error
    numbers = [number for number, line in enumerate(lines, 1) if line.strip()]
    if not numbers:
        raise InputError(f"{file} has no texts; give one in a line.")
    with stopping("Stopped; nothing is written."), counting_bar() as progress:
        bar = progress.add_task("Scoring texts", total=len(numbers))
        texts = [lines[number - 1] for number in numbers]
        scored = score_texts(texts, fitted, samples, seed, lambda count: progress.update(bar, advance=count))
    unit = f"bits_per_{text_task(fitted).unit}"
    order = sorted(zip(numbers, scored, strict=True), key=lambda line: -line[1].bits_per_symbol)
    header = ["line", "text", "symbols", "unknown", "bits", unit]
    rows: list[list[object]] = [
        [number, one.text, one.symbols, one.unknown, round(one.bits, 4), round(one.bits_per_symbol, 4)]
        for number, one in order
    ]
    mean = sum(one.bits for one in scored) / sum(one.symbols for one in scored)
    told: dict[str, object] = {"scored": len(scored), unit: mean}
    if output is not None:
        write_text(output, as_csv(header, rows))
        told |= {"output": str(output)}
    else:
        told |= {"texts": [dict(zip(header, row, strict=True)) for row in rows]}
    if as_json:
        print(json.dumps(told))
        return
    if output is None:
        print(as_csv(header, rows), end="")
    messages.print(f"{_texts(len(scored))} scored, {mean:.3f} {unit.replace('_', ' ')} of all together.")


def _tell(summary: Summary, path: Path, seconds: float) -> None:
    from catnf.tasks.text.preparation import VECTORS_ADDRESS, VECTORS_TEXT
    from catnf.tasks.text.vocabulary import told_counts

    for split, count in summary.symbols.items():
        sentences = summary.sentences.get(split)
        messages.print(f"{split}: {count:,} symbols" + (f", {sentences:,} sentences" if sentences else ""))
        lowered, unknown = summary.lowered[split], summary.unknown[split]
        if lowered:
            messages.print(f"  taken in lower case: {told_counts(lowered)}")
        if unknown:
            share = sum(unknown.values()) / max(1, count)
            taken = f", taken as {summary.unknown_symbol!r}"
            messages.print(f"  unknown, {share:.2%} of all{taken}: {told_counts(unknown)}")
    vectors = f", {summary.vectors:,} of them with word vectors" if summary.vectors else ""
    messages.print(f"{summary.categories:,} different symbols{vectors}.")
    if summary.vectors == 0:
        messages.print(
            f"Words start at random vectors, since there is no {VECTORS_TEXT} ({VECTORS_ADDRESS})."
        )
    messages.print(f"{path.stat().st_size:,} bytes in {seconds:.0f} s.")
