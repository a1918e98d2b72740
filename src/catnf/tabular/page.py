"""The report as a page: one HTML file with its pictures inside."""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from catnf.tabular.report import Report

_MOST_COLUMNS = 40  # that are drawn
_MOST_BARS = 12
_STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #ccc;padding:.3rem .7rem;text-align:left}
img{max-width:100%}small{color:#555}"""


def report_page(report: Report, real: Any, synthetic: Any, kinds: Mapping[str, str], title: str) -> str:
    """A page about `report` with pictures of columns and pairs."""
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td><td>{html.escape(best)}</td></tr>"
        for name, value, best in _figures(report)
    )
    modelled = [name for name, kind in kinds.items() if kind != "constant"][:_MOST_COLUMNS]
    worst = "".join(
        f"<tr><td>{html.escape(one)}</td><td>{html.escape(two)}</td><td>{value:.3f}</td></tr>"
        for (one, two), value in sorted(report.pairs.items(), key=lambda item: item[1])[:10]
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1>"
        f"<p>{report.rows['synthetic']:,} synthetic rows beside {report.rows['real']:,} real ones.</p>"
        f"<table><tr><th>figure</th><th>value</th><th>how to read it</th></tr>{rows}</table>"
        f"<h2>Columns</h2><img alt='columns' src='{_columns(real, synthetic, kinds, modelled)}'>"
        f"<h2>Pairs</h2><img alt='similarity of pairs' src='{_pairs(report, modelled)}'>"
        f"<p>The pairs that differ most:</p><table><tr><th>column</th><th>column</th><th>similarity</th></tr>"
        f"{worst}</table></html>\n"
    )


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


def _columns(real: Any, synthetic: Any, kinds: Mapping[str, str], names: list[str]) -> str:
    wide = min(3, len(names))
    high = math.ceil(len(names) / wide)
    figure = Figure(figsize=(4 * wide, 2.6 * high), layout="constrained")
    axes = figure.subplots(high, wide, squeeze=False).ravel()
    for axis, name in zip(axes, names, strict=False):
        if kinds[name] == "categorical":
            shares = [frame[name].astype(object).fillna("?").astype(str) for frame in (real, synthetic)]
            counts = [series.value_counts(normalize=True) for series in shares]
            labels = list(counts[0].index[:_MOST_BARS])
            places = np.arange(len(labels))
            for shift, own, color in ((-0.2, counts[0], "#4477aa"), (0.2, counts[1], "#ee6677")):
                axis.bar(places + shift, [own.get(label, 0.0) for label in labels], 0.4, color=color)
            axis.set_xticks(places, [label[:14] for label in labels], rotation=30, ha="right", fontsize=7)
        else:
            values = [frame[name].dropna().to_numpy(dtype=np.float64) for frame in (real, synthetic)]
            edges = np.histogram_bin_edges(values[0], bins=30) if len(values[0]) else 10
            for own, color in zip(values, ("#4477aa", "#ee6677"), strict=True):
                axis.hist(own, bins=edges, density=True, histtype="step", color=color)
        axis.set_title(name, fontsize=9)
        axis.tick_params(labelsize=7)
    for axis in axes[len(names) :]:
        axis.set_axis_off()
    figure.suptitle("blue: real, red: synthetic", fontsize=9)
    return _inline(figure)


def _pairs(report: Report, names: list[str]) -> str:
    grid = np.full((len(names), len(names)), np.nan)
    for (one, two), value in report.pairs.items():
        if one in names and two in names:
            i, j = names.index(one), names.index(two)
            grid[i, j] = grid[j, i] = value
    size = max(4.0, 0.35 * len(names) + 2)
    figure = Figure(figsize=(size + 1, size), layout="constrained")
    axis = figure.subplots()
    image = axis.imshow(grid, vmin=min(0.5, np.nanmin(grid, initial=0.5)), vmax=1.0, cmap="viridis")
    axis.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=7)
    axis.set_yticks(range(len(names)), names, fontsize=7)
    figure.colorbar(image, ax=axis, label="similarity, 1 is best")
    return _inline(figure)


def _inline(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
