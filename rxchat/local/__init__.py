"""
The embedded model: a small real one, served inside the process, without key and without account.

    model_file()     the weights: an installed package's, the cached ones, or fetched once
    serve(path)      llama.cpp's server on loopback, one per process and file, stopped at exit
    local_model()    both, as a ChatModel
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rxchat.client import ChatModel
from rxchat.local.server import LocalServer, close_servers, serve
from rxchat.local.weights import Progress, cache_folder, model_file

__all__ = ["LocalServer", "Progress", "cache_folder", "close_servers", "local_model", "model_file", "serve"]


def local_model(file: str | os.PathLike[str] | None = None, *, progress: Progress | None = None, **settings: Any) -> ChatModel:
    """
    A ChatModel of the embedded model, or of another GGUF file; its server is started if it is not running yet, which blocks for a second or more.

    `settings` as of ChatModel. ConfigurationError says what is missing, and the command that helps.
    """
    server = serve(model_file(progress) if file is None else Path(file))
    return ChatModel(f"local/{server.model}", base_url=server.base_url, api_key=server.api_key, **settings)
