"""The page's addresses."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from catnf.coloring import DEFAULT_MODEL as COLORING
from catnf.errors import CatnfError, InputError, MissingDependencyError
from catnf.fitted import FittedModel, bundled_names, load
from catnf.studio import parts
from catnf.studio.desk import BusyError, Desk, Progress
from catnf.studio.guard import UPLOAD, Guard
from catnf.studio.limits import Limits
from catnf.studio.tables import prepare_anomalies
from catnf.text import DEFAULT_MODEL as TEXT
from catnf.text import text_task

PAGE = Path(__file__).parent / "page"


class Studio:
    """Models, loaded when they are first asked for, and the desk that they share.

    Args:
        text: a run's folder, file or name of a model of texts; by default the bundled one.
        device: where to compute.
        limits: of what can be asked.
    """

    def __init__(
        self,
        text: str | Path | None = None,
        device: torch.device | str = "cpu",
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.device = device
        self.desk = Desk()
        self.molecules = [name for name in bundled_names() if name.startswith("molecules/")]
        self.text = text or TEXT
        self._loaded: dict[str, FittedModel] = {}
        if text is not None:  # refuses now rather than on the page
            model = self.model(text)
            text_task(model)
            if not getattr(model.model, "causal", True):
                raise InputError(
                    f"{text} writes many symbols at once and cannot continue a text; "
                    "give a model that writes them in turn, such as one of text/text8/mixture."
                )

    def model(self, name: str | Path) -> FittedModel:
        """A model by its name or path."""
        key = str(name)
        if key not in self._loaded:
            self._loaded[key] = load(name, self.device)
        return self._loaded[key]

    def molecule_model(self, name: str) -> FittedModel:
        """One of the bundled models of molecules: names of other files are not taken from the page."""
        if name not in self.molecules:
            raise InputError(f"{name[:60]!r} is no bundled model; choose one of {', '.join(self.molecules)}.")
        return self.model(name)

    def about(self) -> dict[str, Any]:
        """What the page offers."""
        from catnf.tasks.coloring.drawing import CONFLICT, PALETTE

        return {
            "molecules": self.molecules,
            "palette": PALETTE,
            "conflict": CONFLICT,
            "text": str(self.text),
            "limits": asdict(self.limits),
        }


def make_app(studio: Studio) -> Guard:
    """The page with all it can do, behind its guard."""
    app = FastAPI(title="catnf studio", docs_url=None, redoc_url=None, openapi_url=None)
    _add_refusals(app)
    limits, desk = studio.limits, studio.desk

    @app.get("/api/about")
    def about() -> dict[str, Any]:
        return studio.about()

    @app.post("/api/molecules")
    def molecules(asked: parts.MoleculesRequest) -> dict[str, Any]:
        with desk.alone("drawing molecules"):
            return parts.draw_molecules(studio.molecule_model(asked.model), asked, limits)

    @app.post("/api/path")
    def path(asked: parts.PathRequest) -> dict[str, Any]:
        with desk.alone("walking between molecules"):
            return parts.walk(studio.molecule_model(asked.model), asked, limits)

    @app.post("/api/color")
    def color(asked: parts.GraphRequest) -> dict[str, Any]:
        with desk.alone("coloring a graph"):
            return parts.color(studio.model(COLORING), asked, limits)

    @app.post("/api/text")
    def text(asked: parts.TextRequest) -> dict[str, Any]:
        with desk.alone("writing a text"):
            return parts.continue_text(studio.model(studio.text), asked, limits)

    @app.post(UPLOAD, status_code=202)
    async def table(request: Request, name: str) -> dict[str, Any]:
        content = await request.body()
        begun = await run_in_threadpool(
            desk.start, "learning a table", lambda: prepare_anomalies(content, name, limits)
        )
        return begun.told()

    @app.get(UPLOAD + "/{job}")
    def progress(job: str) -> dict[str, Any]:
        return _known(desk.progress(job)).told()

    @app.delete(UPLOAD + "/{job}")
    def stop(job: str) -> dict[str, Any]:
        desk.stop(job)
        return _known(desk.progress(job)).told()

    @app.get("/")
    def index() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    app.mount("/page", StaticFiles(directory=PAGE))
    return Guard(app, limits)


class _UnknownError(CatnfError):
    """Something that is not there."""


def _known(progress: Progress | None) -> Progress:
    if progress is None:
        raise _UnknownError("This table was not uploaded, or another one came after it; upload it again.")
    return progress


def _add_refusals(app: FastAPI) -> None:
    """Every refusal is one sentence."""
    statuses = ((BusyError, 409), (MissingDependencyError, 501), (_UnknownError, 404), (CatnfError, 422))

    @app.exception_handler(CatnfError)
    async def refused(request: Request, error: Exception) -> JSONResponse:
        status = next(status for kind, status in statuses if isinstance(error, kind))
        return _problem(status, str(error))

    @app.exception_handler(RequestValidationError)
    async def misread(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return _problem(422, _sentence(error))

    @app.exception_handler(HTTPException)
    async def missing(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return _problem(error.status_code, f"{request.url.path[:60]} cannot be asked for: {error.detail}.")

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        return _problem(500, f"This failed: {type(error).__name__}; see where catnf studio was started.")


def _sentence(error: RequestValidationError) -> str:
    """What is wrong with a request, in one sentence."""
    first = error.errors()[0]
    where = [str(part) for part in first["loc"] if part not in ("body", "query")]
    if first["type"] == "json_invalid" or not where:
        return "The request cannot be read; send a JSON object with the fields that are asked for."
    name = ".".join(where)
    if first["type"] == "missing":
        return f"{name} is missing; give it."
    reason = str(first["msg"])
    return f"{name} is {str(first['input'])[:60]!r}; {reason[0].lower()}{reason[1:]}."


def _problem(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"problem": sentence}, status)
