"""The parts of the report that need stored results only: tables of quality, tools, costs and speed."""

from __future__ import annotations

from catnf.experiments import experiment_names
from catnf.reference import Paper, Results
from catnf.reporting.blocks import BLOCKS, experiments
from catnf.reporting.grid import Grid
from catnf.reporting.page import Section, paragraphs, table
from catnf.reporting.reproduction import Here, compare, grid
from catnf.reporting.tables import AUTHORS, headline_table, speed_table
from catnf.reporting.tool_tables import anomalies_table, comparison_table, scale_table

TITLES = {
    "sets": "Sets",
    "coloring": "Graph coloring",
    "molecules": "Molecules",
    "text": "Text",
    "credit": "Credit risk",
}
_WORDS = {
    "sets": "Sets of 16 categories: permutations, and numbers that sum to 42. The optimum is known exactly.",
    "coloring": "Three colors for random graphs, learned from a solver's colorings; a sample is valid where "
    "no edge joins two nodes of one color.",
    "molecules": "Whole molecular graphs. Valid is strict: RDKit takes the graph as it is, and it is "
    "connected.",
    "text": "Characters and words; bits are those of all symbols together. On the Penn Treebank the authors' "
    "code averages over sentences instead, so that the paper's figures are to be compared with that mean.",
    "credit": "Nine categorical attributes of 1,000 people, 750 of them to learn from.",
}
_DISTANCES = {
    "size": "atoms",
    "atoms": "kinds of atoms",
    "bonds": "kinds of bonds",
    "rings": "rings",
    "ring_sizes": "sizes of rings",
    "logp": "logP",
    "qed": "QED",
}


def headline_section(results: Results, paper: Paper) -> Section:
    """One figure for every kind of data."""
    words = (
        "The paper's figure, its model trained here (smaller, or with less time), and the bundled model, "
        "which is often of another kind; shares are of single samples at temperature 1."
    )
    body = "\n".join([paragraphs(words), table(headline_table(results, paper))])
    return Section("short", "In short", body)


def paper_section(name: str, results: Results, paper: Paper) -> Section:
    """A table of the paper with our figures beside it."""
    parts = [paragraphs(_WORDS[name])]
    known = [*experiment_names(), *results]
    for block in BLOCKS[name]:
        lines = compare(block, experiments(block, known, paper), paper, results, Results())
        parts.append(table(grid(block, lines, paper, results, Here())))
    note = (
        "± is the paper's standard deviation over seeds, and half of our 95 % interval over examples; n is "
        "how many examples or samples are behind a figure."
    )
    return Section(name, TITLES[name], "\n".join([*parts, f'<div class="notes">{paragraphs(note)}</div>']))


def tools_section(results: Results) -> Section:
    """Tables of one's own: other tools, anomalies, costs."""
    quality = (
        "Total variation distance of pairs and of single columns to held-out rows (less is better), macro F1 "
        "of a classifier trained on synthetic rows, area under the curve of one that tells both apart "
        "(0.5 is best), held-out likelihood, and processor seconds of one core."
    )
    parts = [
        "<h3>Synthetic rows, beside other tools</h3>",
        paragraphs(quality),
        comparison_table(results).html(),
        "<h3>Shuffled rows found by their likelihood</h3>",
        anomalies_table(results).html(),
        "<h3>What fitting costs</h3>",
        scale_table(results).html(),
    ]
    return Section("tools", "Tables of one's own", "\n".join(parts))


def speed_section(results: Results) -> Section:
    """Milliseconds beside the authors' code and beside the arithmetic."""
    words = "Medians at the paper's sizes, the authors' published code on the same hardware."
    parts = [paragraphs(words), table(_speeds(results))]
    floors = [name for name in results.below("bench") if "floor_ms_at_790_tflops" in results[name]]
    for name in floors:
        parts.append(table(floor_table(results, name)))
    return Section("speed", "Speed", "\n".join(parts))


def _speeds(results: Results) -> Grid:
    """The table of README.md, with where the authors' figures come from."""
    known = speed_table(results)
    notes = [f"{results[f'bench/{name}']['source'].capitalize()}." for name in AUTHORS]
    return Grid(known.head, known.rows, "", notes)


def floor_table(results: Results, name: str) -> Grid:
    """Where the time of a training step goes, down to what its arithmetic alone would take."""
    told = results[name]
    parts = sorted(told["milliseconds"].items(), key=lambda item: -item[1])
    rows = [[part, f"{value:.2f} ms"] for part, value in parts]
    rows.append([f"all {told['kernels']:,} kernels", f"{sum(value for _, value in parts):.2f} ms"])
    timed = results.get(name.removesuffix("-profile"))
    if timed is not None:
        rows.append(["measured step", f"{timed['metrics']['train_step_ms']:.2f} ms"])
    rows.append(["the arithmetic floor", f"{told['floor_ms_at_790_tflops']:.2f} ms"])
    note = (
        f"The floor: {told['tera_operations']:.2f} TFLOP a step at the 790 TFLOP/s that large bfloat16 "
        f"products reach on this GPU. The profile is of revision {told['revision']}"
        + (f", the measured step of {timed['revision']}." if timed is not None else ".")
    )
    title = f"A training step of {told['experiment']} on {told['hardware']}"
    return Grid(["part", "time"], rows, title, [note])


def distance_table(results: Results, data: str) -> Grid | None:
    """How far distributions of samples are from those of held-out molecules; `None` where none are."""
    models = next(block.models for block in BLOCKS["molecules"] if block.data == data)
    rows = []
    for model, words in models.items():
        metrics = results.get(f"{data}/{model}", {}).get("metrics", {})
        values = [metrics.get(f"distance_{name}") for name in _DISTANCES]
        if any(value is not None for value in values):
            rows.append([words, *("–" if value is None else f"{value:.3f}" for value in values)])
    if not rows:
        return None
    note = "Total variation for what is counted, Wasserstein distance for logP and QED; 0 is best."
    return Grid(["distance from the data", *_DISTANCES.values()], rows, "", [note])
