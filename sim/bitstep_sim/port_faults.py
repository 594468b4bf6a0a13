"""Faults in what reads rows over several ports, and the tests that must find them."""

from bitstep_sim.fault_runs import fault_of as _fault

_READER = "axi/split_reader.py"

PORT_FAULTS = [
    _fault("condition dropped", _READER, "part.i_job.valid.eq(job.valid & every_job)",
           "part.i_job.valid.eq(job.valid)"),
    _fault("condition dropped", _READER, "part.o.ready.eq(self.o.ready & every_part)",
           "part.o.ready.eq(self.o.ready)"),
    _fault("condition dropped", _READER,
           "job.ready.eq(every_job)", "job.ready.eq(self.parts[0].i_job.ready)"),
    _fault("flag lost", _READER, "Cat(part.o.valid for part in self.parts).all()",
           "self.parts[0].o.valid"),
    _fault("flag lost", _READER, "Cat(part.idle for part in self.parts).all()",
           "self.parts[0].idle"),
    _fault("flag lost", _READER, "Cat(part.error for part in self.parts).any()",
           "self.parts[0].error"),
    _fault("wrong address", _READER, "(stride << (number > 1))", "stride"),
    _fault("wrong address", _READER, "self.base if number < 3 else starts[1]", "self.base"),
    _fault("wrong address", _READER, "(job.payload.address >> shift)", "job.payload.address"),
    _fault("term lost", _READER, "sum(part.accepted for part in self.parts)",
           "self.parts[0].accepted"),
    _fault("operands swapped", _READER, "Cat(part.o.payload for part in self.parts)",
           "Cat(part.o.payload for part in reversed(self.parts))"),
    _fault("wrong address", "top.py", "buses, first_row = rows.buses, 0",
           "buses, first_row = rows.buses, bank.rows_address",
           board="board/test_row_ports.py::either_port"),
    _fault("wrong signal", "top.py", "rows.stride.eq(bank.port_stride)", "rows.stride.eq(1)",
           board="board/test_row_ports.py::its_slice"),
]
