"""The commands that start or query Prefect; `precis.commands.main` lists them."""

import asyncio
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precis.commands.terminal import CONTINUES, StoreOption, fail, plain_console, sentences
from precis.errors import ConfigError, without_passwords
from precis.processes.signals import as_interrupts
from precis.record import SEED_MAX, SEED_MIN

# The shell's completion imports this module at every Tab, so a command does its own imports.
if TYPE_CHECKING:
    from cli.prefect_server import PrefectServer
    from precis.config import TrainConfig

console = plain_console()

_AGENT = (
    "A Python file with `scenarios` and `rollout`, or settings such as `{kind: textarena, game: "
    "ConnectFour-v0}`"
)
Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param", "-p", help="A setting that overrides those: steps=50. Repeat it for more."
    ),
]
Limit = Annotated[int, typer.Option(min=1, help="Runs at the same time.")]


def rehearse(
    steps: Annotated[int, typer.Option(min=1, help="Steps to train.")] = 30,
    documents: Annotated[
        str,
        typer.Option(
            help="`bundled`; a parquet, JSONL or CSV file or folder; or a folder of texts, for "
            "which rules make crude questions."
        ),
    ] = "bundled",
    environment: Annotated[str, typer.Option(help=f"{_AGENT}, in place of summaries.")] = "",
    seed: Annotated[
        int, typer.Option(min=SEED_MIN, max=SEED_MAX, help="Seed of everything that is drawn.")
    ] = 1,
    model: Annotated[
        str, typer.Option(help="Name of the model; by default made of documents and seed.")
    ] = "",
    store: StoreOption = "",
    take_over: Annotated[
        bool, typer.Option(help="Stop another rehearsal of this name, and continue in its place.")
    ] = False,
    fresh: Annotated[bool, typer.Option(help="Forget an earlier rehearsal of this name.")] = False,
) -> None:
    """Run the whole pipeline on this machine: no account, no key, no GPU, about a minute."""
    if environment:
        if documents != "bundled":
            fail("--environment takes the place of --documents: give one of the two.")
        given: dict[str, Any] = {"steps": steps, "seed": seed, "take_over": take_over}
        if model:
            given["model"] = model
        if store:
            given["store"] = store
        _train(environment, given, fresh)
        return
    _quiet()
    with console.status("Starting …"), sentences(), _explain_interrupt():
        from cli import prefect_server

        # It starts while we import, unless documents may be refused first.
        server = prefect_server.find_or_start() if documents == "bundled" else None
        from cli.rehearsal import corpus_of, rehearsal_config
        from precis.environment import Variables

        corpus = corpus_of(documents)
        folder = store or Variables().store
        config = rehearsal_config(steps, corpus, seed, folder, take_over, model)
        server = server or prefect_server.find_or_start()
    _run(config, server, fresh)


def train(
    file: Annotated[str, typer.Argument(help=f"{_AGENT}.")],
    deployment: Annotated[
        str,
        typer.Option(
            help="The deployment of prefect.yaml whose settings to take: train/h100. By default "
            "those of a rehearsal: the embedded policy, on this machine."
        ),
    ] = "",
    params: Params = None,
    name: Annotated[
        str, typer.Option(help="Name of the model; by default made of the file's.")
    ] = "",
    fresh: Annotated[bool, typer.Option(help="Forget an earlier run of this name.")] = False,
) -> None:
    """Train an agent of your own, and show what it achieves before and after."""
    with sentences():
        from cli.deployments import read_params

        given = read_params(params or [])
    _train(file, given | ({"model": name} if name else {}), fresh, deployment)


def _train(file: str, given: Mapping[str, Any], fresh: bool, deployment: str = "") -> None:
    """Train an agent; refuse a bad file or bad settings before anything is started."""
    _quiet()
    with console.status("Starting …"), sentences(), _explain_interrupt():
        from cli import prefect_server
        from cli.agent import agent_config

        config = agent_config(file, given, deployment)
        server = prefect_server.find_or_start()
    _run(config, server, fresh)


def _run(config: "TrainConfig", server: "PrefectServer", fresh: bool) -> None:
    """Run the training flow in this process, and print its address."""
    with sentences(), _explain_interrupt():
        from cli.rehearsal import next_steps, rehearse

        rehearse(config, server, console, fresh)
    console.print(f"Prefect  {server.ui}", soft_wrap=True)
    if server.show_password:
        console.print(f"Password {server.show_password}  shows it", soft_wrap=True)
    steps = next_steps(config, server)
    width = max(map(len, steps))
    heading = "Next"
    for command, purpose in steps.items():
        line = f"{heading:<9}{command:<{width}}  {purpose}"
        console.print(line, soft_wrap=True)
        heading = ""


def up(
    share: Annotated[
        bool, typer.Option(help="Let others reach the server; needs a password for it.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="The server's port, if it is to be started."),
    ] = None,
    automations: Annotated[
        bool | None,
        typer.Option(
            help="Apply the automations, or remove them; by default, apply them if PostgreSQL is "
            "configured, and else leave them as they are."
        ),
    ] = None,
    limit: Limit = 4,
) -> None:
    """Start server and worker, deploy everything, and work until Ctrl-C."""
    from cli.up import up as stand_up

    terminal = plain_console(file=sys.stdout, soft_wrap=True)
    with sentences():
        stand_up(terminal, share=share, port=port, automations=automations, limit=limit)


def worker(limit: Limit = 4) -> None:
    """Work for a running server; when stopped, let the current runs finish."""
    with sentences():
        from cli import prefect_server

        api = prefect_server.attach()
        from cli.worker import work

        typer.echo(
            f"Works for {without_passwords(api)}, at up to {limit} runs at a time, until Ctrl-C."
        )
        asyncio.run(work(limit, typer.echo))


def doctor(
    deployment: Annotated[
        str, typer.Argument(help="The deployment of prefect.yaml whose settings to check.")
    ] = "train/rehearsal",
    params: Params = None,
) -> None:
    """Check what a run needs, and explain how to fix what is missing."""
    with sentences():
        from precis.environment import Variables

        Variables()  # Prefect reads .env when imported, with a traceback if it can't
        with console.status("Starting …"):
            from cli.doctor import examine_deployment

        if not examine_deployment(deployment, params or [], console):
            raise typer.Exit(1)


def secret(
    variable: Annotated[str, typer.Argument(help="The variable of a key: OPENROUTER_API_KEY.")],
) -> None:
    """Keep a key in a Secret block of the Prefect server; asks for it, or reads one line."""
    with sentences():
        from precis.environment import block_name, key_variables

        known = key_variables()
        if variable not in known:
            raise ConfigError(f"No key is called {variable}; there are {', '.join(known)}.")
        asked = sys.stdin.isatty()
        given = typer.prompt(variable, hide_input=True) if asked else sys.stdin.readline()
        value = given.strip()
        if not value:
            raise ConfigError(f"No value was given for {variable}.")
        from cli import prefect_server
        from precis.llm.providers import sendable

        sendable(value, variable)
        prefect_server.attach()
        from prefect.blocks.system import Secret  # only now, to use the server's address

        from cli.server_check import explained

        name = block_name(variable)
        with explained(f"keep {variable}"):
            Secret(value=value).save(name, overwrite=True)
        console.print(f"Kept in the Secret block {name!r}.")


def stop() -> None:
    """Stop the Prefect server that a rehearsal started."""
    with sentences():
        from cli import prefect_server

        stopped = prefect_server.stop()
    console.print("The Prefect server is stopped." if stopped else "No Prefect server is running.")


@contextmanager
def _explain_interrupt() -> Iterator[None]:
    """Say after Ctrl-C, SIGTERM or SIGHUP that nothing is lost."""
    try:
        with as_interrupts():
            yield
    except KeyboardInterrupt:
        fail(f"Interrupted. {CONTINUES}")


def _quiet() -> None:
    """Keep the terminal for the progress bar; the logs are in Prefect's UI."""
    warnings.filterwarnings("ignore")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_ROOT_LEVEL", "CRITICAL")
    # Each event that an unreachable server does not accept would be shown in full.
    os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "CRITICAL")
