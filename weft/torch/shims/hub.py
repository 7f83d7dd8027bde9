"""`torch.hub` and `torch.utils.model_zoo`, as far as folders go: nothing is downloaded."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse

from ...errors import MissingFileError, MissingNameError, UnsupportedError
from .saving import load as _load

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "load_url", "set_dir"]

_folder: dict[str, str] = {}


def get_dir() -> str:
    """The folder of what was downloaded before: `set_dir`, TORCH_HOME/hub, or ~/.cache/torch/hub."""
    home = os.environ.get("TORCH_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "torch"
    )
    return _folder.get("dir") or os.path.join(home, "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder that `get_dir` gives."""
    _folder["dir"] = os.path.expanduser(d)


def _hubconf(repo_or_dir: str, source: str) -> ModuleType:
    place = Path(repo_or_dir)
    if source != "local" and not place.is_dir():
        place = Path(get_dir(), repo_or_dir.partition(":")[0].replace("/", "_") + "_main")
    file = place / "hubconf.py"
    if not file.is_file():
        raise MissingFileError(
            f"hub: {file} is not there; nothing is downloaded: clone the repository and name its folder"
        )
    spec: Any = importlib.util.spec_from_file_location("hubconf", file)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(place))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(place))
    return module


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """What the entry `model` of a folder's hubconf.py gives for the arguments."""
    for option in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        kwargs.pop(option, None)
    module = _hubconf(repo_or_dir, source)
    if not callable(getattr(module, model, None)):
        raise MissingNameError(module.__name__, model)
    return getattr(module, model)(*args, **kwargs)


def list(github: str, force_reload: bool = False, source: str = "github", **options: Any) -> Any:
    """The entries of a folder's hubconf.py."""
    found = vars(_hubconf(github, source)).items()
    return [name for name, value in found if callable(value) and not name.startswith("_")]


def help(github: str, model: str, source: str = "github", **options: Any) -> str | None:
    """The docstring of an entry."""
    return getattr(_hubconf(github, source), model).__doc__


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """A file that lies where PyTorch would have downloaded it to, or at file://…; nothing is downloaded."""
    address = urlparse(url)
    name = file_name or os.path.basename(address.path)
    local = (
        Path(address.path) if address.scheme in ("file", "") else Path(model_dir or f"{get_dir()}/checkpoints", name)
    )
    if not local.is_file():
        raise MissingFileError(f"hub: {local} is not there; nothing is downloaded: fetch {url} and put it there")
    return _load(local, map_location=map_location, weights_only=True)


load_url = load_state_dict_from_url


def download_url_to_file(url: str, dst: str, *args: Any, **options: Any) -> None:
    """Refused: programs do not reach the net through Weft."""
    raise UnsupportedError(f"hub: nothing is downloaded; fetch {url} and save it as {dst}")
