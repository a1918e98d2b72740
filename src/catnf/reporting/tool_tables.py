"""Tables of results about tables of one's own: other tools, anomalies, costs."""

from __future__ import annotations

from catnf.reference import Results
from catnf.reporting.grid import NOT_MEASURED, Grid

COMPARED = {
    "catnf": "catnf",
    "ctgan": "CTGAN",
    "tvae": "TVAE",
    "bayesian-network": "Bayesian network (pgmpy)",
    "forest": "adversarial forest (arfpy)",
    "independent": "independent columns",
    "real": "the fitted rows themselves",
}


def comparison_table(results: Results) -> Grid:
    """Tools that make synthetic rows, side by side."""
    heads = ["pair error", "shape error", "F1", "detection", "bits per row", "fit", "sampling"]
    figures = ("pair_error", "shape_error", "f1", "detection_auc")
    rows = []
    for data in ("car", "credit", "adult"):
        for tool, name in COMPARED.items():
            result = results.get(f"table/comparison/{data}/{tool}")
            if result is None:
                rows.append([f"{data}: {name}", NOT_MEASURED, *[""] * 6])
                continue
            metrics, seeds = result["metrics"], len(result["seeds"])
            title = f"{data}: {name}" + (f", {seeds} seeds" if seeds > 1 else "")
            cells = [f"{metrics[figure]:.3f}" for figure in figures]
            cells.append(f"{metrics['bits_per_row']:.2f}" if "bits_per_row" in metrics else "–")
            for figure in ("fit_processor_seconds", "sample_processor_seconds"):
                cells.append(f"{metrics[figure]:.1f} s" if figure in metrics else "–")
            rows.append([title, *cells])
    return Grid(["", *heads], rows)


def anomalies_table(results: Results) -> Grid:
    """Shuffled rows, found by likelihood and by an isolation forest."""
    result = results["table/anomalies"]
    metrics = result["metrics"]
    rows = []
    for name in ("made", "car"):
        found = (metrics[f"{name}_roc_auc"], metrics[f"{name}_roc_auc_isolation_forest"])
        rows.append([f"{name}, {result['n'][name]:,} rows", *(f"{value:.3f}" for value in found)])
    return Grid(
        [f"area under the curve, {len(result['seeds'])} seeds", "likelihood", "isolation forest"], rows
    )


def scale_table(results: Results) -> Grid:
    """What fitting costs as rows, columns and categories get more."""
    rows = []
    names = ("scale", "scale-whole", "scale-wide", "scale-long")
    found = [(name, results.get(f"table/{name}")) for name in names]
    for name, run in ((name, run) for name, result in found if result is not None for run in result["runs"]):
        columns = str(run.get("columns", 20))
        if run.get("most_categories", 0) > 1000:
            columns += f", one of {run['most_categories']:,} categories"
        # Processor time is known of the whole; training has as much of it as of the wall time.
        share = run["training_seconds"] / run["fit_seconds"]
        cells = [f"{run['rows']:,}", columns, f"{run['reading_seconds_per_million_rows']:.0f} s"]
        cells += [f"{run['steps']:,}", f"{share * run['processor_milliseconds_per_step']:.0f} ms"]
        whole = f"{run['fit_processor_seconds'] / 60:.1f} min" if name.endswith("whole") else "–"
        rows.append([*cells, whole, f"{run['peak_gigabytes']:.1f} GB"])
    heads = ["rows", "columns", "reading, per million rows", "steps made", "a training step", "whole fit"]
    return Grid([*heads, "most memory"], rows)
