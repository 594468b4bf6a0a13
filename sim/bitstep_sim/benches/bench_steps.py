"""A table of steps: inputs before a clock edge, and what outputs must be after it.

STEPS in the environment is a list of pairs of dictionaries, of inputs and of outputs, by name and
as integers. Inputs keep their values; ``clk`` is the clock. Before the first step all are 0.
"""

import json
import os

import cocotb
from cocotb.triggers import Timer


@cocotb.test
async def steps(dut):
    """Every output of every step, as the table says."""
    table = json.loads(os.environ["STEPS"])
    assert table
    dut.clk.value = 0
    for name in {name for inputs, _ in table for name in inputs}:
        getattr(dut, name).value = 0
    await Timer(5, "ns")
    for number, (inputs, outputs) in enumerate(table):
        for name, value in inputs.items():
            getattr(dut, name).value = value
        await Timer(5, "ns")
        dut.clk.value = 1
        await Timer(5, "ns")
        found = {name: int(getattr(dut, name).value) for name in outputs}
        assert found == outputs, f"step {number}, {inputs}: {found}, not {outputs}"
        dut.clk.value = 0
