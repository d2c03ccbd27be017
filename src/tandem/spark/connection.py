"""The connection string that a data source is given: in an option, in a file, or in a variable of the environment.

Options are kept in query plans and shown by Spark's pages. A file or a variable keeps the key out of them: it is read
where the query is planned, and travels to the executors inside the pickled reader only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from tandem.connection_string import ConnectionString
from tandem.errors import ConfigurationError
from tandem.location import Location, LocationError
from tandem.spark.given_options import GivenOptions, Option, OptionError

__all__ = ["CONNECTION_OPTIONS", "DEFAULT_VARIABLE", "given_connection_string", "parse"]

# What the command line reads as well.
DEFAULT_VARIABLE: Final = "TANDEM_CONNECTION_STRING"

CONNECTION_OPTIONS: Final = (
    Option("connectionString", "Where the namespace is and the key to it.", is_secret=True),
    Option("connectionStringFile", "A file that holds the connection string, on the driver."),
    Option(
        "connectionStringVariable",
        f"The variable of the driver's environment that holds it; `{DEFAULT_VARIABLE}` if nothing is given.",
    ),
)


def given_connection_string(options: GivenOptions, environment: Mapping[str, str] | None = None) -> str:
    """The connection string, from wherever it was said to be."""
    environment = os.environ if environment is None else environment
    way = options.at_most_one("connectionString", "connectionStringFile", "connectionStringVariable")
    if way == "connectionString":
        found = options.text(way)
        assert found is not None
        return found
    if way == "connectionStringFile":
        path = options.text(way)
        assert path is not None
        try:
            return Location(path).read_text().strip()
        except LocationError as error:
            raise options.wrong(way, str(error)) from None
    variable = options.text("connectionStringVariable") or DEFAULT_VARIABLE
    value = environment.get(variable, "").strip()
    if not value:
        raise OptionError(
            f"connectionString is missing: give it, or connectionStringFile, or set {variable} in the environment"
        )
    return value


def parse(connection_string: str) -> ConnectionString:
    try:
        return ConnectionString.parse(connection_string)
    except ConfigurationError as error:
        raise OptionError(str(error)) from None
