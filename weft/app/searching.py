"""`weft search`: many runs of a recipe under other settings, the best of them found, with a table and a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..runtime.places import runs_folder
from .machine import AsJson, Threads
from .naming import changed, complete_recipe, complete_setting, typed
from .output import DONE, FAILED, Interrupted, Misuse, deliver, hint, plain, table
from .search_work import SearchRequest, Work, find_search, parsed, read_request
from .training import Changes, Data, NoCompile, Runs, TrustData, data_folder

if TYPE_CHECKING:
    from rich.console import Console


Method = Literal["grid", "random", "halving", "asha"]
Resume = Annotated[str | None, typer.Option(metavar="[NAME]", help="Go on with a search; without a name, the latest.")]
Lanes = Annotated[
    int, typer.Option(min=1, help="Trials of asha under way at once; its table depends on this, not on who is quick.")
]
Where = Annotated[Literal["here", "ray"], typer.Option(help="Where trials run: one by one here, or as tasks of Ray.")]


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command(rich_help_panel="Models")(search)


def search(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe: see weft list.", autocompletion=complete_recipe)
    ] = None,
    space: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUES", help="Values of a setting: a,b,c or low..high.", autocompletion=complete_setting
        ),
    ] = None,
    method: Annotated[
        Method | None,
        typer.Option(
            help="Every combination, random draws, or successive halving: rung by rung, or asynchronous (asha).",
            show_default="grid for lists, random for ranges",
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Draws for random, halving and asha.")] = 12,
    folds: Annotated[int, typer.Option(help="Score each trial by k-fold cross validation.", min=0)] = 0,
    metric: Annotated[
        str | None, typer.Option(help="The figure to go by.", show_default="that of the goal, on validation data")
    ] = None,
    maximize: Annotated[
        bool | None,
        typer.Option("--maximize/--minimize", help="Which way is better.", show_default="by the figure's name"),
    ] = None,
    min_epochs: Annotated[int, typer.Option(min=1, help="Epochs of the first round of halving and asha.")] = 1,
    eta: Annotated[float, typer.Option(min=1.1, help="Halving keeps one in so many.")] = 3.0,
    lanes: Lanes = 8,
    changes: Changes = None,
    data: Data = None,
    trust_data: TrustData = False,
    resume: Resume = None,
    runs: Runs = None,
    name: Annotated[str | None, typer.Option(help="Name of the search's folder.", show_default="RECIPE-search")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    threads: Threads = None,
    no_compile: NoCompile = False,
    on: Where = "here",
    as_json: AsJson = False,
) -> None:
    """Search for the best settings of a recipe; killed at any moment, the same command goes on.

    Ranges are drawn in log space when they span two decades or more; uniform(a,b), log(a,b) and int(a,b) say it outright.

    Examples:

      weft search digits-mlp --space lr=1e-4..1e-1 --space dropout=0,0.2 --trials 12

      weft search digits-mlp --space lr=0.001,0.01,0.1 --space hidden=32,128 --folds 5

      weft search digits-mlp --space lr=1e-4..1e-1 --method halving --trials 27 --set epochs=27

      weft search digits-mlp --space lr=1e-4..1e-1 --method asha --trials 24 --on ray

      weft search --resume
    """
    import weft

    if threads:
        weft.set_num_threads(threads)
    if resume:
        folder = find_search(resume, runs)
        request = read_request(folder)
    else:
        request = _told(recipe, space, method, trials, folds, metric, maximize, min_epochs, eta, changes, data, seed)
        request.trust, request.lanes = trust_data, lanes
        folder = runs_folder(runs) / (name or f"{request.recipe}-search")
    work = Work(request, folder, {"compile": False} if no_compile else {})
    try:
        _go(work, on, threads or 1, as_json)
    except KeyboardInterrupt as interrupt:
        way = hint(f"search --resume {typed(folder)}")
        raise Interrupted(interrupt, f"{len(work.finished)} trials are kept; to go on: {way}") from None
    _report(work, as_json)
    raise typer.Exit(DONE if work.best() else FAILED)


def _go(work: Work, on: str, threads: int, quiet: bool) -> None:
    """Run the trials that are missing."""
    if on == "here":
        work.go(quiet)
        return
    from .on_ray import RayTrials

    with RayTrials(work.request, work.folder, work.options, threads) as trials:
        work.go(quiet, trials)


def _told(recipe: str | None, space: list[str] | None, method: Method | None, *rest: Any) -> SearchRequest:
    from ..recipes import get

    trials, folds, metric, maximize, min_epochs, eta, changes, data, seed = rest
    if recipe is None or not space:
        example = hint("search digits-mlp --space lr=1e-4..1e-1")
        raise Misuse(f"search needs a recipe and a --space, for example: {example}")
    texts = changed(space, "--space")
    ranges = any(hasattr(parsed(text), "low") for text in texts.values())
    if folds == 1:
        raise Misuse("--folds takes 2 or more (0 uses the recipe's validation data)")
    chosen = method or ("random" if ranges else "grid")
    place = str(data_folder(data)) if data else None
    told = changed(changes or ())
    return SearchRequest(
        get(recipe).name, texts, chosen, trials, folds, metric, maximize, seed, min_epochs, eta, told, place
    )


# ---------------------------------------------------------------- what came out


def _report(work: Work, as_json: bool) -> None:
    from ..train.runs import RunFolder
    from .plots import search_picture

    records, best = work.records, work.best()
    sign = -1 if work.search.maximize else 1
    ranked = sorted(records, key=lambda r: (-r["rung"], r["score"] is None, sign * (r["score"] or 0), r["number"]))
    picture = search_picture(records, best.number if best else None, work.metric, work.folder / "search.png")
    document = {
        "recipe": work.request.recipe,
        "metric": work.metric,
        "changes": work.request.changes,
        "best": best.settings if best else None,
        "score": ranked[0]["score"] if ranked else None,
        "trials": ranked,
        "folder": str(work.folder),
        "plot": str(picture) if picture else None,
    }
    RunFolder(work.folder).write_result(plain(document))
    deliver(document, as_json, lambda console: _show(console, document, list(work.request.space)))


def _show(console: Console, document: dict[str, Any], names: list[str]) -> None:
    rows = [
        (
            record["number"] + 1,
            *(record["settings"][name] for name in names),
            record["budget"],
            record["score"],
            record["seconds"],
            record["error"] or "",
        )
        for record in document["trials"]
    ]
    heads = (">trial", *(f">{name}" for name in names), ">epochs", f">{document['metric']}", ">seconds", "failed")
    empty = {i for i in (len(names) + 1, len(heads) - 1) if all(row[i] in (None, "") for row in rows)}
    kept = [i for i in range(len(heads)) if i not in empty]
    console.print(table([heads[i] for i in kept], [[row[i] for i in kept] for row in rows]))
    if document["best"] is None:
        console.print("no trial has a score")
    else:
        words = " ".join(f"--set {k}={v}" for k, v in {**document["changes"], **document["best"]}.items())
        console.print(f"Best: {hint('train')} {document['recipe']} {words}", markup=False)
    if document["plot"]:
        console.print(f"Picture {document['plot']}", markup=False)
