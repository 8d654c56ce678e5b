"""Checks of a client program, one line each: its name, then what came out.

The lines of AnKerDB and PostgreSQL are compared, so what may differ between two servers (process numbers, ports) must not
be in them. An error is what a program would see of it: SQLSTATE, message, and the fields that name what was violated.
"""

import datetime
import os


def host():
    return os.environ["PGHOST"], int(os.environ["PGPORT"]), os.environ["PGUSER"], os.environ["PGDATABASE"]


def line(name, text):
    print(f"{name}\t" + " ".join(str(text).split()), flush=True)


def describe(error):
    """The first error of a chain that a server has sent, or the last there is."""
    cause = error
    while cause is not None:
        state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
        if state:
            return server_error(state, cause)
        cause = getattr(cause, "orig", None) or cause.__cause__ or cause.__context__
    return f"{type(error).__name__}: {error}"


def server_error(state, error):
    fields = getattr(error, "diag", None) or error
    message = getattr(fields, "message_primary", None) or getattr(error, "message", None) or error
    named = [
        (short, getattr(fields, name, None))
        for short, name in [
            ("schema", "schema_name"),
            ("table", "table_name"),
            ("column", "column_name"),
            ("type", "datatype_name"),
            ("constraint", "constraint_name"),
            ("position", "statement_position"),
            ("position", "position"),
            ("detail", "message_detail"),
            ("detail", "detail"),
            ("hint", "message_hint"),
            ("hint", "hint"),
        ]
    ]
    told = " ".join(f"{short}={value}" for short, value in named if isinstance(value, (str, int)))
    return f"error {state} {str(message).splitlines()[0]} {told}"


def shown(value):
    """A value with its type, so that 1 and Decimal(1) are not the same."""
    if isinstance(value, (list, tuple)) and not isinstance(value, str):
        return "[" + ", ".join(shown(part) for part in value) + "]"
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.timezone.utc)
    return f"{type(value).__name__}:{value!r}" if not isinstance(value, (int, str, bool, type(None))) else repr(value)


def check(name, work, *arguments):
    """Runs the work and reports what it returns, or its error. Returns whether there was none."""
    try:
        line(name, shown(work(*arguments)))
        return True
    except Exception as error:  # noqa: BLE001: whatever comes is what is reported
        line(name, describe(error))
        return False
