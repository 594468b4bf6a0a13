"""Amaranth simulation: stream endpoints that stall, protocol checks, and a cycle limit.

Only single-edge waits are used: in Amaranth 0.5.10 a testbench that is still inside ``until()``
or ``repeat()`` when the simulation stops raises from its finalizer and breaks pytest.
"""

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


def simulate(dut, *testbenches, processes=(), background=(), limit=10_000):
    """Run until every testbench returns.

    Parameters
    ----------
    dut : Elaboratable
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
    sim = Simulator(dut)
    sim.add_clock(1e-8)
    for testbench in testbenches:
        sim.add_testbench(testbench)
    for testbench in background:
        sim.add_testbench(testbench, background=True)
    for process in processes:
        sim.add_process(process)
    for _ in range(2 * limit):
        if not sim.advance():
            return
    raise TimeoutError(f"{type(dut).__name__} is still busy after {limit} cycles")
