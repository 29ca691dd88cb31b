"""The command `remnant doctor`."""

import typer


def doctor() -> None:
    """Show versions and devices, and compute a known result.

    It also shows what `auto` chooses. The exit status is 1 if a result is wrong.
    """
    from remnant import __version__
    from remnant.engine.backend import Backend, find_device, has_bf16
    from remnant.engine.diagnosis import facts, is_as_known, self_test

    for name, value in {"remnant": __version__, **facts()}.items():
        typer.echo(f"{name:19s}{value}")
    typer.echo(
        f"{'reproducibility':19s}runs are bitwise identical on machines with the same instruction set,\n"
        f"{'':19s}torch version, device, precision, memory layout and number of threads"
    )
    device = find_device("auto")
    is_sound = True
    for precision in ("float32", "bf16") if has_bf16(device) else ("float32",):
        loss = self_test(Backend(device, precision))
        verdict = "ok" if is_as_known(loss, precision) else "wrong: torch does not compute correctly here"
        is_sound &= is_as_known(loss, precision)
        typer.echo(f"self test          {precision} on {device}: loss {loss:.4f}, {verdict}")
    if not is_sound:
        raise typer.Exit(1)
