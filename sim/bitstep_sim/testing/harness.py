"""Amaranth simulation: stream endpoints that stall, protocol checks, and a cycle limit.

Only single-edge waits are used: in Amaranth 0.5.10 a testbench that is still inside ``until()``
or ``repeat()`` when the simulation stops raises from its finalizer and breaks pytest.
"""

import functools

from amaranth.sim import Simulator


async def put_all(ctx, stream, payloads, *, rng, stall=0.0):
    """Send every payload, idling before each with probability ``stall`` per cycle.

    Parameters
    ----------
    ctx : SimulatorContext
    stream : stream.Interface
        Input of the component.
    payloads : iterable
    rng : random.Random
    stall : float
    """
    for payload in payloads:
        while rng.random() < stall:
            await ctx.tick()
        ctx.set(stream.payload, payload)
        ctx.set(stream.valid, 1)
        ready = False
        while not ready:
            *_, ready = await ctx.tick().sample(stream.ready)
        ctx.set(stream.valid, 0)


async def get_all(ctx, stream, count, *, rng, stall=0.0):
    """Receive ``count`` payloads, refusing before each with probability ``stall`` per cycle.

    Parameters
    ----------
    ctx, stream, rng, stall
        As for :func:`put_all`, of an output.
    count : int
    """
    payloads = []
    while len(payloads) < count:
        while rng.random() < stall:
            await ctx.tick()
        ctx.set(stream.ready, 1)
        valid = False
        while not valid:
            *_, valid, payload = await ctx.tick().sample(stream.valid, stream.payload)
        ctx.set(stream.ready, 0)
        payloads.append(payload)
    return payloads


def held(stream):
    """Process that fails if a payload is withdrawn or changed before it is accepted."""
    return held_channel(stream.valid, stream.ready, stream.payload)


def held_channel(valid, ready, *payload):
    """As :func:`held`, for a channel whose payload is several signals."""
    async def process(ctx):
        offered = None
        while True:
            _, _, is_valid, is_ready, *values = await ctx.tick().sample(valid, ready, *payload)
            assert offered is None or (is_valid and values == offered), \
                f"{offered!r} was offered but not held until ready"
            offered = values if is_valid and not is_ready else None
    return process


class Elaborated:
    """A component that is elaborated once and simulated many times, each time from its reset.

    :func:`simulate` takes it in place of the component. Its other attributes are the component's,
    such as ports.

    Parameters
    ----------
    component : Elaboratable
    """

    def __init__(self, component):
        self.component = component
        self._simulator = None
        self._slots, self._running = {}, {}

    def __getattr__(self, name):
        return getattr(self.component, name)

    def _simulate(self, functions, limit):
        """Simulate from reset until every testbench has returned.

        Parameters
        ----------
        functions : dict of str to sequence of callables
            By ``testbench``, ``background`` and ``process``.
        limit : int
            Cycles.
        """
        if self._simulator is None:
            self._simulator = Simulator(self.component)
            self._simulator.add_clock(1e-8)
            self._slots = dict.fromkeys(functions, 0)
        else:
            self._simulator.reset()
        simulator, self._running = self._simulator, functions
        for kind, each in functions.items():
            while self._slots[kind] < len(each):
                self._add_slot(simulator, kind, self._slots[kind])
                self._slots[kind] += 1
        self._simulator = None          # not to be used again after an exception
        for _ in range(2 * limit):
            if not simulator.advance():
                self._simulator = simulator
                return
        raise TimeoutError(f"{type(self.component).__name__} is still busy after {limit} cycles")

    def _add_slot(self, simulator, kind, number):
        """Add what runs the function of this kind and number, if a run has one."""
        async def run(ctx):
            if number < len(self._running[kind]):
                await self._running[kind][number](ctx)

        if kind == "process":
            simulator.add_process(run)
        else:
            simulator.add_testbench(run, background=kind == "background")


def simulate(dut, *testbenches, processes=(), background=(), limit=10_000):
    """Run until every testbench returns.

    Parameters
    ----------
    dut : Elaboratable or Elaborated
    testbenches, background : callables
        Testbenches; those in ``background`` need not return.
    processes : iterable of callables
        Processes, such as :func:`held`.
    limit : int
        Cycles.

    Raises
    ------
    TimeoutError
        If a testbench is still busy after ``limit`` cycles.
    """
    elaborated = dut if isinstance(dut, Elaborated) else Elaborated(dut)
    elaborated._simulate({"testbench": testbenches, "background": tuple(background),
                          "process": tuple(processes)}, limit)


@functools.lru_cache(maxsize=16)
def once(component, **parameters):
    """A component, elaborated once for all simulations with the same parameters."""
    return Elaborated(component(**parameters))
