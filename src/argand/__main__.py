"""`python -m argand` is the command line."""

import sys

from argand.cli import main

sys.exit(main())
