"""The one exception that argand raises for a mistake its user can mend."""


class ArgandError(ValueError):
    """Says what was given, what was expected, and what to do about it."""
