"""A board as the real pynq library sees it, with the compiled top behind it.

Needs pynq (``pip install "bitstep[pynq-sim]"``); what it replaces is the board's hardware and
Linux, and for that it is a pynq device like those that pynq's own tests use. Nothing here is part
of the driver.
"""
