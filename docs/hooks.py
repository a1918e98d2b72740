"""What MkDocs does with these pages beyond Markdown, so that nothing in them is typed in twice.

In a line of its own:

    @source catnf.flows.linear InvertibleLinear.forward    the lines of a symbol, as they are in `src/`
    @table results                                         the table of that name in README.md

In a text, a figure of `results/sets/summation/linear.json` and how it is written:

    {{ sets/summation/linear metrics.validity .1% }}

Notebooks become pages, with the outputs they hold, and equations become MathML, which browsers draw by
themselves. What does not exist is an error.
"""

from __future__ import annotations

import ast
import html
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

_FUNCTIONS = (ast.FunctionDef, ast.ClassDef)
_SOURCE = re.compile(r"^@source (\S+)((?: \S+)+)$", re.MULTILINE)
_TABLE = re.compile(r"^@table (\w+)$", re.MULTILINE)
_FIGURE = re.compile(r"\{\{ (\S+) (\S+) (\S+) \}\}")
_BLOCK_MATH = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)
_INLINE_MATH = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """Give every notebook a page."""
    from mkdocs.structure.files import File

    for path in sorted((ROOT / "docs/notebooks").glob("*.ipynb")):
        page = File.generated(config, f"notebooks/{path.stem}.md", content=notebook_page(path))
        files.append(page)
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in what pages refer to."""
    return filled(markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Draw equations."""
    from latex2mathml.converter import convert

    def block(found: re.Match[str]) -> str:
        return f'<div class="math">{convert(html.unescape(found[1]).strip(), display="block")}</div>'

    def inline(found: re.Match[str]) -> str:
        return str(convert(html.unescape(found[1])))

    return _INLINE_MATH.sub(inline, _BLOCK_MATH.sub(block, content))


def filled(markdown: str) -> str:
    """A page with its sources, tables and figures."""
    markdown = _SOURCE.sub(lambda found: source(found[1], found[2].split()), markdown)
    markdown = _TABLE.sub(lambda found: table(found[1]), markdown)
    return _FIGURE.sub(lambda found: figure(*found.groups()), markdown)


def source(module: str, symbols: list[str]) -> str:
    """The lines of functions or classes of a module, without docstrings, as a fenced block."""
    path = Path("src", *module.split(".")).with_suffix(".py")
    text = (ROOT / path).read_text()
    blocks = [_lines(text, symbol, f"{path}, which is quoted,") for symbol in symbols]
    return f'```{{.python title="{path}"}}\n' + "\n\n".join(blocks) + "\n```"


def table(name: str) -> str:
    """A table of README.md, which `benchmarks/results_table.py` writes from `results/`."""
    found = re.search(f"<!-- {name}: begin -->\n(.*?)<!-- {name}: end -->", readme(), re.DOTALL)
    if found is None:
        raise KeyError(f"README.md has no table {name!r}")
    return found[1]


def readme() -> str:
    """The text of README.md."""
    return (ROOT / "README.md").read_text()


def figure(name: str, field: str, spec: str) -> str:
    """A number of a result, written by a format such as `.1%`."""
    value: Any = json.loads((ROOT / f"results/{name}.json").read_text())
    for key in field.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return format(value, spec)


def notebook_page(path: Path) -> str:
    """A notebook as Markdown: texts, code, and outputs that are text or pictures."""
    parts = []
    for cell in json.loads(path.read_text())["cells"]:
        text = "".join(cell["source"]).strip()
        if cell["cell_type"] == "markdown":
            parts.append(text)
        elif text:
            parts.append(f"```python\n{text}\n```")
            parts += [_output(output) for output in cell["outputs"]]
    title, _, rest = "\n\n".join(parts).partition("\n")
    note = f"This page is a notebook: [{path.name}]({path.name}), to run and change."
    return f"{title}\n\n{note}\n{rest}\n"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return f'<img alt="output" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    text = "".join(output.get("text", data.get("text/plain", ""))).rstrip()
    return f'```{{.text .output title="output"}}\n{text}\n```'


def _lines(text: str, symbol: str, where: str) -> str:
    """A symbol's source, moved to the left, decorators included and docstrings left out."""
    node: Any = ast.parse(text)
    for name in symbol.split("."):
        inner = [child for child in node.body if isinstance(child, _FUNCTIONS) and child.name == name]
        if not inner:
            raise KeyError(f"{where} has no {symbol}")
        node = inner[-1]  # after those for type checkers
    lines = text.splitlines()
    kept = lines[min([node.lineno, *(item.lineno for item in node.decorator_list)]) - 1 : node.end_lineno]
    first = node.body[0]
    if len(node.body) > 1 and ast.get_docstring(node) is not None:
        start = node.end_lineno - len(kept)
        kept = [line for at, line in enumerate(kept, start + 1) if not first.lineno <= at <= first.end_lineno]
    return "\n".join(line[node.col_offset :] for line in kept)
