"""a script that completes the command line in a shell: verbs, flags, stages, passes, files by their ends

For bash, in ~/.bashrc: source <(legato completion bash). For zsh, in ~/.zshrc, after compinit: source <(legato
completion zsh). For fish: legato completion fish > ~/.config/fish/completions/legato.fish"""

from __future__ import annotations

import argparse

from legato.cli._answer import Answer, Tell

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The shell."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell that reads the script")


def run(args: argparse.Namespace, tell: Tell) -> Answer:
    """The script."""
    from legato.cli._completion import verbs
    from legato.cli._shells import SHELLS

    text = SHELLS[args.shell](verbs(args.root))
    return Answer({"shell": args.shell, "text": text}, text.rstrip("\n"))
