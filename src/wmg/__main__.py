"""`python -m wmg` is the `wmg` command."""

import sys

from wmg.cli import main

sys.exit(main())
