"""The tables of README.md and of the report, from results and nothing else."""

from __future__ import annotations

from catnf.reference import Paper, Result, Results
from catnf.reporting.grid import NOT_MEASURED, Grid
from catnf.reporting.tool_tables import anomalies_table, comparison_table, scale_table

MODELS = {
    "mixture": "CNF, mixture encoding",
    "linear": "CNF, linear flows",
    "variational": "CNF, variational encoding",
    "latent": "Latent NF",
    "dequantization": "variational dequantization",
    "discrete": "Discrete NF",
}
COLORINGS = {
    "graphcnf-rounds": "GraphCNF, nodes in rounds (ours)",
    "graphcnf-rounds-slim": "the same, a seventh of its weights (ours)",
    "graphcnf": "GraphCNF, mixture couplings",
    "graphcnf-affine": "GraphCNF, affine couplings",
    "rnn-largest-first": "autoregressive, largest first",
    "rnn-random": "autoregressive, random order",
    "rnn-smallest-first": "autoregressive, smallest first",
    "vae": "variational auto-encoder",
}
MOLECULES = {
    "zinc250k/graphcnf": "Zinc250k, GraphCNF",
    "zinc250k/growth": "Zinc250k, atom by atom (ours)",
    "zinc250k/growth-small": "Zinc250k, atom by atom, bundled (ours)",
    "zinc250k/graphcnf-charged": "Zinc250k with charges, GraphCNF",
    "zinc250k/growth-charged": "Zinc250k with charges, atom by atom (ours)",
    "moses/graphcnf": "MOSES, GraphCNF",
    "moses/growth": "MOSES, atom by atom (ours)",
    "moses/growth-small": "MOSES, atom by atom, bundled (ours)",
}
TABLES = {
    "mixture": "CNF, mixture encoding",
    "latent": "Latent NF",
    "dequantization": "variational dequantization",
}
TEXTS = {
    "mixture": "CNF, mixture encoding",
    "mixture-free": "CNF, mixture encoding, places found by itself",
    "lstm": "LSTM language model",
    "latent": "Latent NF",
    "latent-free": "Latent NF, places found by itself",
    "lexicon": "CNF, LSTM over whole words (ours)",
    "lexicon-small": "CNF, small LSTM over whole words, on a CPU (ours)",
    "lexicon-lstm": "language model, LSTM over whole words (ours)",
    "lexicon-small-lstm": "language model, small LSTM over whole words, on a CPU (ours)",
    "linear-recurrence": "CNF, gated linear recurrences (ours)",
    "transformer": "CNF, transformer (ours)",
    "parallel": "CNF, whole texts in four couplings (ours)",
}
_TEXT_UNITS = {"ptb": "char", "text8": "char", "text8-words": "word", "wikitext2": "word"}
_SAME = "the same"
# Of the first table: what is shown, its metric, the paper's model, and the bundled one.
HEADLINES = {
    "permutations of 16 (sets), bits per variable": (
        "bits_per_variable",
        "sets/shuffling/mixture",
        "sets/shuffling/mixture",
    ),
    "16 numbers of a given sum, bits per variable": (
        "bits_per_variable",
        "sets/summation/mixture",
        "sets/summation/mixture",
    ),
    "valid colorings of 10 to 20 nodes": (
        "validity",
        "coloring/small/graphcnf",
        "coloring/small/graphcnf-rounds",
    ),
    "valid colorings of 25 to 50 nodes": (
        "validity",
        "coloring/large/graphcnf",
        "coloring/large/graphcnf-rounds-slim",
    ),
    "valid molecules, Zinc250k": (
        "validity",
        "molecules/zinc250k/graphcnf",
        "molecules/zinc250k/growth-small",
    ),
    "valid molecules, MOSES": ("validity", "molecules/moses/graphcnf", "molecules/moses/growth-small"),
    "credit risk (a table), bits per variable": ("bits_per_variable", "table/credit/mixture", None),
    "Penn Treebank (text), bits per character, mean of sentences": (
        "bits_per_char_by_example",
        "text/ptb/mixture",
        "text/ptb/lexicon-small",
    ),
    "text8 (text), bits per character": (
        "bits_per_char",
        "text/text8/mixture",
        "text/text8/mixture",
    ),
}
SPEEDS = {
    "sets-h200": "sets, one NVIDIA H200",
    "sets-cpu": "sets, 2 CPU cores",
    "coloring-small-h200": "small colorings, one NVIDIA H200",
    "coloring-large-h200": "large colorings, one NVIDIA H200",
    "molecules-zinc250k-h200": "molecules, one NVIDIA H200",
    "text8-h200": "text, one NVIDIA H200",
}
AUTHORS = ("authors", "authors-coloring", "authors-molecules", "authors-text")


def headline_table(results: Results, paper: Paper) -> Grid:
    """One line for every kind of data: the paper's figure, its model trained here, and the bundled one."""

    def cell(experiment: str | None, metric: str) -> str:
        if experiment is None:
            return "–"
        if experiment not in results:
            return NOT_MEASURED
        value = results[experiment]["metrics"][metric]
        return _share(value) if metric == "validity" else f"{value:.3f}"

    rows = []
    for name, (metric, theirs, ours) in HEADLINES.items():
        told = paper.rows[theirs].metrics[metric.removesuffix("_by_example")]  # which is what the paper means
        shown = _share(told) if metric == "validity" else f"{told:.2f}"
        rows.append([name, shown, cell(theirs, metric), _SAME if ours == theirs else cell(ours, metric)])
    return Grid(["", "paper", "its model, trained here", "bundled"], rows)


def sets_table(results: Results, paper: Paper) -> Grid:
    """Set modelling, our numbers beside the paper's."""
    rows = []
    for model, name in MODELS.items():
        cells = [name]
        for data in ("shuffling", "summation"):
            experiment = f"sets/{data}/{model}"
            theirs = paper.rows[experiment].metrics["bits_per_variable"]
            cells += [_our_bits(results.get(experiment)), f"{theirs:.2f}"]
        rows.append(cells)
    return Grid(["bits per variable (valid samples)", "shuffling", "paper", "summation", "paper"], rows)


def colorings_table(results: Results, paper: Paper) -> Grid:
    """Graph coloring, our numbers beside the paper's."""
    rows = []
    for model, name in COLORINGS.items():
        cells = [name]
        for size in ("small", "large"):
            experiment = f"coloring/{size}/{model}"
            cells.append(_our_coloring(results.get(experiment)))
            theirs = paper.rows[experiment].metrics if experiment in paper.rows else None
            cells.append(f"{theirs['validity']:.1%} / {theirs['bits_per_node']:.2f}" if theirs else "–")
        rows.append(cells)
    return Grid(["valid colorings / bits per node", "small", "paper", "large", "paper"], rows)


def molecules_table(results: Results, paper: Paper) -> Grid:
    """Molecules, our numbers and below them the paper's."""
    shares = ("validity", "validity_largest", "uniqueness", "novelty", "reconstruction")
    heads = ["valid", "largest part valid", "unique", "novel", "reconstructed", "bits per node", "FCD"]
    rows = []
    for model, name in MOLECULES.items():
        experiment = f"molecules/{model}"
        found = {name: results[experiment]["metrics"]} if experiment in results else {}
        if experiment in paper.rows:
            found[f"{name}, the paper"] = paper.rows[experiment].metrics
        for title, metrics in found.items():
            cells = [_share(metrics[key]) if key in metrics else "–" for key in shares]
            distance = f"{metrics['fcd']:.1f}" if "fcd" in metrics else "–"
            rows.append([title, *cells, f"{metrics['bits_per_node']:.2f}", distance])
    return Grid(["molecules", *heads], rows)


def texts_table(results: Results, paper: Paper) -> Grid:
    """Texts, our numbers beside the paper's: data sets and models of which something is measured."""
    shown, models = _measured_texts(results)
    in_paper = {data for data in shown if any(f"text/{data}/{model}" in paper.rows for model in TEXTS)}
    rows = []
    for model in models:
        cells = [TEXTS[model]]
        for data in shown:
            experiment, metric = f"text/{data}/{model}", f"bits_per_{_TEXT_UNITS[data]}"
            cells.append(_our_text(results.get(experiment), metric))
            row = paper.rows.get(experiment)
            if data in in_paper:
                cells.append("–" if row is None else f"{row.metrics[metric]:.2f}")
        rows.append(cells)
    heads = [head for data in shown for head in ((data, "paper") if data in in_paper else (data,))]
    return Grid(["bits per symbol (of which decoding)", *heads], rows)


def text_trainings_table(results: Results) -> Grid:
    """For how long the models of texts made steps, and how many."""

    def cell(result: Result | None) -> str:
        if result is None:
            return "–"
        told = result["runs"][0]["training"]
        return f"{told['budget']:.0f} ({told['steps']:,})"

    shown, models = _measured_texts(results)
    rows = [
        [TEXTS[model], *(cell(results.get(f"text/{data}/{model}")) for data in shown)] for model in models
    ]
    return Grid(["seconds (steps)", *shown], rows)


def _measured_texts(results: Results) -> tuple[list[str], list[str]]:
    """Data sets and models of texts of which something is measured."""
    names = [f"{data}/{model}" for data in _TEXT_UNITS for model in TEXTS]
    measured = [name.split("/") for name in names if f"text/{name}" in results]
    data, models = {data for data, _ in measured}, {model for _, model in measured}
    return [name for name in _TEXT_UNITS if name in data], [name for name in TEXTS if name in models]


def credit_table(results: Results, paper: Paper) -> Grid:
    """The credit data, our numbers beside the paper's and those of independent columns."""
    rows = []
    for model, name in TABLES.items():
        experiment = f"table/credit/{model}"
        theirs = f"{paper.rows[experiment].metrics['bits_per_variable']:.2f}"
        result = results.get(experiment)
        if result is None:
            rows.append([name, NOT_MEASURED, "", theirs])
            continue
        each = ", ".join(f"{run['metrics']['bits_per_variable']:.3f}" for run in result["runs"])
        low, high = result["intervals"]["bits_per_variable"]
        mean = f"{result['metrics']['bits_per_variable']:.3f} ± {(high - low) / 2:.3f}"
        rows.append([name, mean, each, theirs])
    alone = results.get("table/credit/independent")
    if alone is not None:
        bits = alone["metrics"]["bits_per_variable"]
        rows.append(["independent columns", f"{bits:.3f}", "", "not given"])
    return Grid(["credit risk, bits per variable", "mean of the seeds", "every seed", "paper"], rows)


def speed_table(results: Results) -> Grid:
    """Milliseconds of a training step and of sampling, ours and those of the authors' code."""
    authors = [row for name in AUTHORS for row in results[f"bench/{name}"]["rows"]]
    rows = []
    for (name, title), theirs in zip(SPEEDS.items(), authors, strict=True):
        ours = results[f"bench/{name}"]
        assert ours["n"] == theirs["n"], f"{name}: batches differ"
        cells = [title, str(ours["n"])]
        for metric in ("train_step_ms", "sample_ms"):
            known = theirs["metrics"].get(metric)
            cells += [f"{ours['metrics'][metric]:.3g} ms", "–" if known is None else f"{known} ms"]
        rows.append(cells)
    return Grid(["", "batch", "training step", "authors' code", "sampling", "authors' code"], rows)


def readme_tables(results: Results, paper: Paper) -> dict[str, Grid]:
    """All tables of README.md by the names of their places."""
    return {
        "headline": headline_table(results, paper),
        "results": sets_table(results, paper),
        "colorings": colorings_table(results, paper),
        "molecules": molecules_table(results, paper),
        "texts": texts_table(results, paper),
        "trainings": text_trainings_table(results),
        "tables": credit_table(results, paper),
        "comparison": comparison_table(results),
        "anomalies": anomalies_table(results),
        "scale": scale_table(results),
        "speed": speed_table(results),
    }


def _our_bits(result: Result | None) -> str:
    if result is None:
        return NOT_MEASURED
    low, high = result["intervals"]["bits_per_variable"]
    metrics = result["metrics"]
    value = f"{metrics['bits_per_variable']:.4f} ± {(high - low) / 2:.4f}"
    return f"{value} ({metrics['validity']:.1%}), {_seeds(result)}"


def _our_coloring(result: Result | None) -> str:
    if result is None:
        return "–"
    metrics, (low, high) = result["metrics"], result["intervals"]["validity"]
    return f"{metrics['validity']:.1%} ± {(high - low) / 2:.1%} / {metrics['bits_per_node']:.3f}"


def _our_text(result: Result | None, metric: str) -> str:
    if result is None:
        return "–"
    metrics, (low, high) = result["metrics"], result["intervals"][metric]
    return f"{metrics[metric]:.3f} ± {(high - low) / 2:.3f} ({metrics['bits_reconstruction']:.3f})"


def _share(value: float) -> str:
    """In percent; all is said of all alone.

    >>> _share(0.9996), _share(0.974), _share(1.0)
    ('99.96%', '97.4%', '100.0%')
    """
    rounded = f"{value:.1%}"
    return f"{value:.2%}" if value < 1.0 and rounded == "100.0%" else rounded


def _seeds(result: Result) -> str:
    count = len(result["seeds"])
    return f"{count} seed{'s' if count > 1 else ''}"
