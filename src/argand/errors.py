"""The one exception that argand raises for a mistake its user can mend, and its warning."""


class ArgandError(ValueError):
    """Says what was given, what was expected, and what to do about it."""


class ArgandWarning(UserWarning):
    """Says what was left undone, and why; the result is right all the same."""
