"""Command-line flags of Loch's Python commands."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line with exit status 2; help texts keep their line breaks."""

    hint = ""  # text appended to every error message, such as where to find help

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**settings)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses the arguments; the error for an unknown flag suggests the most similar known flag."""
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}{self._meant(rest, found)}")
        return found

    def _meant(self, rest: list[str], found: Any) -> str:
        from loch.runner.errors import did_you_mean

        flag = next((word.partition("=")[0] for word in rest if word.startswith("--")), "")
        known = list(self._option_string_actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                chosen = action.choices.get(getattr(found, action.dest, ""))
                known += list(chosen._option_string_actions) if chosen is not None else []
        return did_you_mean(flag, [each for each in known if each.startswith("--")]) if flag else ""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}{self.hint}", file=sys.stderr)
        sys.exit(2)
