"""
`python -m rxchat`.
"""

import sys

from rxchat.cli import main

sys.exit(main())
