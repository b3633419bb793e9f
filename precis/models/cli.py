import typer

app = typer.Typer(no_args_is_help=True, help="Trained models.")


@app.command()
def x() -> None:
    """x"""


@app.command()
def y() -> None:
    """x"""
