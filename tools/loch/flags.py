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

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does; a flag that is not known is named with the one that was meant."""
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
