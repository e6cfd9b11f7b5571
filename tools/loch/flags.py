"""Flags of the commands that are written in Python."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """Errors in one line, exit status 2; text in --help keeps its lines."""

    hint = ""  # after every error

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**settings)

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}{self.hint}", file=sys.stderr)
        sys.exit(2)
