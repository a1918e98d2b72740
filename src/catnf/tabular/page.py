"""The report as a page: one HTML file with its pictures inside."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from catnf.reporting.grid import Grid
from catnf.reporting.page import Section, document, inline, paragraphs, picture, table
from catnf.tabular.comparison import as_text
from catnf.tabular.report import Report

_MOST_COLUMNS = 40  # that are drawn
_MOST_BARS = 12
_LONGEST = 18  # characters of a label below a bar
_REAL, _SYNTHETIC = "#4477aa", "#ee6677"  # told apart by people who do not see all colors
_STYLE = f"""
.grid {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(min(17rem, 100%), 1fr)); gap: 1rem }}
.grid img {{ display: block; width: 100%; height: auto }}
#figures tbody > * > * {{ white-space: normal; min-width: 5.5rem }}
.key {{ display: inline-block; width: .9em; height: .9em; margin: 0 .3em 0 .8em; vertical-align: -.1em }}
.real {{ margin-left: 0; background: {_REAL} }}
.synthetic {{ background: {_SYNTHETIC} }}
"""


def report_page(report: Report, real: Any, synthetic: Any, kinds: Mapping[str, str], title: str) -> str:
    """A page about `report` with pictures of columns and pairs, for wide screens and narrow ones."""
    modelled = [name for name, kind in kinds.items() if kind != "constant"]
    drawn = modelled[:_MOST_COLUMNS]
    left_out = paragraphs(f"The first {len(drawn)} of {len(modelled)}.") if len(drawn) < len(modelled) else ""
    figures = table(Grid(("figure", "value", "how to read it"), _figures(report)))
    pictures = "".join(
        inline(_column(real[name], synthetic[name], kinds[name], name), f"{name}: real and synthetic rows")
        for name in drawn
    )
    key = '<p><span class="key real"></span>real<span class="key synthetic"></span>synthetic</p>'
    sections = [
        Section("figures", "Figures", figures),
        Section("columns", "Columns", f'{key}{left_out}<div class="grid">{pictures}</div>'),
    ]
    if report.pairs:
        worst = sorted(report.pairs.items(), key=lambda item: item[1])[:10]
        rows = [(one, two, f"{value:.3f}") for (one, two), value in worst]
        differing = Grid(("column", "column", "similarity"), rows, "The pairs that differ most")
        image = picture(_pairs(report, drawn), "similarity of pairs of columns", wide=True)
        sections.append(Section("pairs", "Pairs", f"{left_out}{image}{table(differing)}"))
    counted = f"{report.rows['synthetic']:,} synthetic rows beside {report.rows['real']:,} real ones."
    return document(title, [counted], sections, _STYLE)


def _figures(report: Report) -> list[tuple[str, str, str]]:
    summary = report.summary()
    out = [("column shapes", f"{summary['column_shapes']:.3f}", "1 is best: mean over columns")]
    if summary["pair_trends"] is not None:
        out.append(("pair trends", f"{summary['pair_trends']:.3f}", "1 is best: mean over pairs of columns"))
    out.append(("detection", f"{report.detection:.3f}", "0.5 is best: area under the curve of a classifier"))
    for source, value in report.prediction.items():
        told = f"macro F1 of {report.target} on real rows, trained on {source} ones"
        out.append((f"trained on {source}", f"{value:.3f}", told))
    near = report.distances
    text = f"{near['synthetic_to_real']:.3f} / {near['real_to_real']:.3f}"
    out.append(
        ("nearest record", text, "median distance, synthetic to real / real to real: much less is copying")
    )
    copies = f"{report.copies['synthetic']:.1%} / {report.copies['real']:.1%}"
    out.append(("copies", copies, "rows that equal a real one, synthetic / real"))
    out.append(("likelihood", f"{report.bits:.3f} bits", "a column, of the real rows: less is better"))
    if report.bits_independent is not None:
        told = "a column, if columns were independent"
        out.append(("independent columns", f"{report.bits_independent:.3f} bits", told))
    if report.held_out_nats is not None:
        told = "nats a row, of rows held out while fitting: more is better"
        out.append(("held-out likelihood", f"{report.held_out_nats:.3f}", told))
    return out


def _column(real: Any, synthetic: Any, kind: str, name: str) -> bytes:
    figure = Figure(figsize=(4.0, 2.7), layout="constrained")
    axis = figure.subplots()
    if kind == "categorical":
        shares = [as_text(series) for series in (real, synthetic)]
        counts = [series.value_counts(normalize=True) for series in shares]
        labels = list(counts[0].index[:_MOST_BARS])
        places = np.arange(len(labels))
        for shift, own, color in ((-0.2, counts[0], _REAL), (0.2, counts[1], _SYNTHETIC)):
            axis.bar(places + shift, [own.get(label, 0.0) for label in labels], 0.4, color=color)
        short = [label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…" for label in labels]
        axis.set_xticks(places, short, rotation=30, ha="right", fontsize=8, parse_math=False)
        axis.set_ylabel("share of rows", fontsize=8)
    else:
        values = [series.dropna().to_numpy(dtype=np.float64) for series in (real, synthetic)]
        edges = np.histogram_bin_edges(values[0], bins=30).tolist() if len(values[0]) else 10
        for own, color in zip(values, (_REAL, _SYNTHETIC), strict=True):
            axis.hist(own, bins=edges, density=True, histtype="step", linewidth=1.5, color=color)
        axis.set_ylabel("density", fontsize=8)
    axis.set_title(name, fontsize=10, parse_math=False)
    axis.tick_params(labelsize=8)
    return _png(figure)


def _pairs(report: Report, names: list[str]) -> bytes:
    grid = np.full((len(names), len(names)), np.nan)
    for (one, two), value in report.pairs.items():
        if one in names and two in names:
            i, j = names.index(one), names.index(two)
            grid[i, j] = grid[j, i] = value
    size = max(4.0, 0.35 * len(names) + 2)
    figure = Figure(figsize=(size + 1, size), layout="constrained")
    axis = figure.subplots()
    image = axis.imshow(grid, vmin=min(0.5, np.nanmin(grid, initial=0.5)), vmax=1.0, cmap="viridis")
    axis.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=8, parse_math=False)
    axis.set_yticks(range(len(names)), names, fontsize=8, parse_math=False)
    figure.colorbar(image, ax=axis, label="similarity, 1 is best")
    return _png(figure)


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=96)
    return buffer.getvalue()
