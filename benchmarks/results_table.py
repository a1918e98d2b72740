"""Writes the tables of results into README.md, from `results/` and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
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
    "zinc250k/growth-small": "Zinc250k, atom by atom, trained on a CPU (ours)",
    "zinc250k/graphcnf-charged": "Zinc250k with charges, GraphCNF",
    "zinc250k/growth-charged": "Zinc250k with charges, atom by atom (ours)",
    "moses/graphcnf": "MOSES, GraphCNF",
    "moses/growth": "MOSES, atom by atom (ours)",
    "moses/growth-small": "MOSES, atom by atom, trained on a CPU (ours)",
}
TABLES = {
    "mixture": "CNF, mixture encoding",
    "latent": "Latent NF",
    "dequantization": "variational dequantization",
}
COMPARED = {
    "catnf": "catnf",
    "ctgan": "CTGAN",
    "tvae": "TVAE",
    "bayesian-network": "Bayesian network (pgmpy)",
    "forest": "adversarial forest (arfpy)",
    "independent": "independent columns",
    "real": "the fitted rows themselves",
}
SPEEDS = {
    "sets-h200": "sets, one NVIDIA H200",
    "sets-cpu": "sets, 2 CPU cores",
    "coloring-small-h200": "small colorings, one NVIDIA H200",
    "coloring-large-h200": "large colorings, one NVIDIA H200",
}


def quality(root: Path) -> str:
    """Set modelling, our numbers beside the paper's."""
    paper = {row["experiment"]: row for row in _read(root / "results/paper.json")["rows"]}
    lines = [
        _row(["bits per variable (valid samples)", "shuffling", "paper", "summation", "paper"]),
        _row(["---"] * 5),
    ]
    for model, name in MODELS.items():
        cells = [name]
        for data in ("shuffling", "summation"):
            experiment = f"sets/{data}/{model}"
            cells += [_ours(root, experiment), f"{paper[experiment]['metrics']['bits_per_variable']:.2f}"]
        lines.append(_row(cells))
    return "\n".join(lines)


def colorings(root: Path) -> str:
    """Graph coloring, our numbers beside the paper's."""
    paper = {row["experiment"]: row for row in _read(root / "results/paper.json")["rows"]}
    lines = [
        _row(["valid colorings / bits per node", "small", "paper", "large", "paper"]),
        _row(["---"] * 5),
    ]
    for model, name in COLORINGS.items():
        cells = [name]
        for size in ("small", "large"):
            experiment = f"coloring/{size}/{model}"
            cells.append(_our_coloring(root, experiment))
            theirs = paper[experiment]["metrics"] if experiment in paper else None
            cells.append(f"{theirs['validity']:.1%} / {theirs['bits_per_node']:.2f}" if theirs else "–")
        lines.append(_row(cells))
    return "\n".join(lines)


def molecules(root: Path) -> str:
    """Molecules, our numbers and below them the paper's."""
    shares = ("validity", "validity_largest", "uniqueness", "novelty", "reconstruction")
    heads = ["valid", "largest part valid", "unique", "novel", "reconstructed", "bits per node", "FCD"]
    lines = [_row(["molecules", *heads]), _row(["---"] * 8)]
    paper = {row["experiment"]: row for row in _read(root / "results/paper.json")["rows"]}
    for model, name in MOLECULES.items():
        experiment = f"molecules/{model}"
        path = root / "results" / f"{experiment}.json"
        found = {name: _read(path)["metrics"]} if path.exists() else {}
        if experiment in paper:
            found[f"{name}, the paper"] = paper[experiment]["metrics"]
        for title, metrics in found.items():
            cells = [f"{metrics[key]:.1%}" if key in metrics else "–" for key in shares]
            distance = f"{metrics['fcd']:.1f}" if "fcd" in metrics else "–"
            lines.append(_row([title, *cells, f"{metrics['bits_per_node']:.2f}", distance]))
    return "\n".join(lines)


def tables(root: Path) -> str:
    """The credit data, our numbers beside the paper's and those of independent columns."""
    paper = {row["experiment"]: row for row in _read(root / "results/paper.json")["rows"]}
    lines = [
        _row(["credit risk, bits per variable", "mean of the seeds", "every seed", "paper"]),
        _row(["---"] * 4),
    ]
    for model, name in TABLES.items():
        experiment = f"table/credit/{model}"
        theirs = f"{paper[experiment]['metrics']['bits_per_variable']:.2f}"
        path = root / "results" / f"{experiment}.json"
        if not path.exists():
            lines.append(_row([name, "not yet measured", "", theirs]))
            continue
        result = _read(path)
        each = ", ".join(f"{run['metrics']['bits_per_variable']:.3f}" for run in result["runs"])
        low, high = result["intervals"]["bits_per_variable"]
        mean = f"{result['metrics']['bits_per_variable']:.3f} ± {(high - low) / 2:.3f}"
        lines.append(_row([name, mean, each, theirs]))
    alone = _read(root / "results/table/credit/independent.json")["metrics"]["bits_per_variable"]
    lines.append(_row(["independent columns", f"{alone:.3f}", "", "not given"]))
    return "\n".join(lines)


def comparison(root: Path) -> str:
    """Tools that make synthetic rows, side by side."""
    heads = ["pair error", "shape error", "F1", "detection", "bits per row", "fit", "sampling"]
    lines = [_row(["", *heads]), _row(["---"] * 8)]
    figures = ("pair_error", "shape_error", "f1", "detection_auc")
    for data in ("car", "credit", "adult"):
        for tool, name in COMPARED.items():
            path = root / f"results/table/comparison/{data}/{tool}.json"
            if not path.exists():
                lines.append(_row([f"{data}: {name}", "not measured", *[""] * 6]))
                continue
            result = _read(path)
            metrics, seeds = result["metrics"], len(result["seeds"])
            title = f"{data}: {name}" + (f", {seeds} seeds" if seeds > 1 else "")
            cells = [f"{metrics[figure]:.3f}" for figure in figures]
            cells.append(f"{metrics['bits_per_row']:.2f}" if "bits_per_row" in metrics else "–")
            for figure in ("fit_processor_seconds", "sample_processor_seconds"):
                cells.append(f"{metrics[figure]:.1f} s" if figure in metrics else "–")
            lines.append(_row([title, *cells]))
    return "\n".join(lines)


def anomalies(root: Path) -> str:
    """Shuffled rows, found by likelihood and by an isolation forest."""
    result = _read(root / "results/table/anomalies.json")
    metrics, seeds = result["metrics"], len(result["seeds"])
    title = f"area under the curve, {seeds} seed{'s' if seeds > 1 else ''}"
    lines = [_row([title, "likelihood", "isolation forest"]), _row(["---"] * 3)]
    for name in ("made", "car"):
        found = (metrics[f"{name}_roc_auc"], metrics[f"{name}_roc_auc_isolation_forest"])
        lines.append(_row([f"{name}, {result['n'][name]:,} rows", *(f"{value:.3f}" for value in found)]))
    return "\n".join(lines)


def scale(root: Path) -> str:
    """What fitting costs as rows get more."""
    heads = ["rows", "columns", "reading, per million rows", "steps made", "a training step", "most memory"]
    lines = [_row(heads), _row(["---"] * 6)]
    paths = [root / f"results/table/{name}.json" for name in ("scale", "scale-wide", "scale-long")]
    for run in [run for path in paths if path.exists() for run in _read(path)["runs"]]:
        columns = f"{run.get('columns', 20)}"
        if run.get("most_categories", 0) > 1000:
            columns += f", one of {run['most_categories']:,} categories"
        cells = [f"{run['rows']:,}", columns, f"{run['reading_seconds_per_million_rows']:.0f} s"]
        cells.append(f"{run['steps']:,}")
        # Processor time is known of the whole; training has as much of it as of the wall time.
        share = run["training_seconds"] / run["fit_seconds"]
        cells.append(f"{share * run['processor_milliseconds_per_step']:.0f} ms")
        lines.append(_row([*cells, f"{run['peak_gigabytes']:.1f} GB"]))
    return "\n".join(lines)


def speed(root: Path) -> str:
    """Milliseconds of a training step and of sampling, ours and those of the authors' code."""
    lines = [
        _row(["", "batch", "training step", "authors' code", "sampling", "authors' code"]),
        _row(["---"] * 6),
    ]
    authors = [
        row
        for name in ("authors", "authors-coloring")
        for row in _read(root / f"results/bench/{name}.json")["rows"]
    ]
    for (name, title), theirs in zip(SPEEDS.items(), authors, strict=True):
        ours = _read(root / f"results/bench/{name}.json")
        assert ours["n"] == theirs["n"], f"{name}: batches differ"
        cells = [title, str(ours["n"])]
        for metric in ("train_step_ms", "sample_ms"):
            cells += [f"{ours['metrics'][metric]:.3g} ms", f"{theirs['metrics'][metric]} ms"]
        lines.append(_row(cells))
    return "\n".join(lines)


def fill(text: str, name: str, content: str) -> str:
    """`text` with everything between the two marks of `name` replaced."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = text.split(begin)
    return f"{before}{begin}\n{content}\n{end}{rest.split(end)[1]}"


def filled(root: Path) -> str:
    """README.md as it should be."""
    text = (root / "README.md").read_text()
    for name, table in (
        ("results", quality),
        ("colorings", colorings),
        ("molecules", molecules),
        ("tables", tables),
        ("comparison", comparison),
        ("anomalies", anomalies),
        ("scale", scale),
        ("speed", speed),
    ):
        text = fill(text, name, table(root))
    return text


def _ours(root: Path, experiment: str) -> str:
    path = root / "results" / f"{experiment}.json"
    if not path.exists():
        return "not yet measured"
    result = _read(path)
    low, high = result["intervals"]["bits_per_variable"]
    metrics, seeds = result["metrics"], len(result["seeds"])
    value = f"{metrics['bits_per_variable']:.4f} ± {(high - low) / 2:.4f}"
    return f"{value} ({metrics['validity']:.1%}), {seeds} seed{'s' if seeds > 1 else ''}"


def _our_coloring(root: Path, experiment: str) -> str:
    path = root / "results" / f"{experiment}.json"
    if not path.exists():
        return "–"
    result = _read(path)
    metrics, (low, high) = result["metrics"], result["intervals"]["validity"]
    return f"{metrics['validity']:.1%} ± {(high - low) / 2:.1%} / {metrics['bits_per_node']:.3f}"


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    (ROOT / "README.md").write_text(filled(ROOT))
