"""Settings of the processing system for Vivado: ports, interrupt, and the source of the clock."""


from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.boards.zynq import PynqBoard

REFERENCE_MHZ = 100 / 3         # crystal of every board with Zynq UltraScale+
LOWEST_VCO_MHZ = 1500           # of its PLLs; a slower output is divided by two
ETHERNET_MHZ = 125


def ps_settings(board: PynqBoard, config: PipelineConfig) -> list[object]:
    """List of names and values; everything else is the boot loader's business."""
    chosen = _zynq(board) if board.family.name == "zynq" else _ultrascale(board)
    family, ports = board.family, {port for port, _ in board.ports(config).values()}
    for port in family.ports:
        chosen[family.named(family.used, port)] = int(port in ports)
        if port in ports:
            chosen[family.named(family.data_width, port)] = family.memory_width
    return [text for name, value in chosen.items() for text in (f"CONFIG.{name}", value)]


def _zynq(board) -> dict[str, object]:
    chosen: dict[str, object] = {
        "PCW_CRYSTAL_PERIPHERAL_FREQMHZ": 50, "PCW_USE_M_AXI_GP0": 1,
        "PCW_FPGA0_PERIPHERAL_FREQMHZ": board.clock_mhz, "PCW_EN_CLK0_PORT": 1,
        "PCW_EN_RST0_PORT": 1, "PCW_USE_FABRIC_INTERRUPT": 1, "PCW_IRQ_F2P_INTR": 1,
        board.family.source[0]: board.family.source[1]}
    if board.pll_mhz % ETHERNET_MHZ:
        raise ValueError(f"The IO PLL of {board.name} must be a multiple of {ETHERNET_MHZ} MHz, "
                         f"for its Ethernet, not {board.pll_mhz} MHz")
    # Vivado chooses the IO PLL by the peripherals that divide it. The boot loader's has Ethernet:
    # with that, Vivado's is the same; its pins are set by the boot loader all the same.
    return chosen | {
        "PCW_PRESET_BANK1_VOLTAGE": "LVCMOS 1.8V", "PCW_ENET0_PERIPHERAL_ENABLE": 1,
        "PCW_ENET0_ENET0_IO": "MIO 16 .. 27", "PCW_ENET0_PERIPHERAL_CLKSRC": "IO PLL",
        "PCW_ENET0_PERIPHERAL_FREQMHZ": "1000 Mbps"}


def _ultrascale(board) -> dict[str, object]:
    halved = board.pll_mhz < LOWEST_VCO_MHZ
    clock = "PSU__CRL_APB__PL0_REF_CTRL__"
    return {
        # 128 bits is what the ports have after a reset: even where nobody sets their width.
        "PSU__USE__M_AXI_GP0": 1, "PSU__USE__M_AXI_GP1": 0, "PSU__USE__M_AXI_GP2": 0,
        "PSU__MAXIGP0__DATA_WIDTH": 128, "PSU__FPGA_PL0_ENABLE": 1, "PSU__USE__IRQ0": 1,
        "PSU__HIGH_ADDRESS__ENABLE": 1,
        # The boot loader's PLL and what divides it, instead of Vivado's own choice: the default
        # source is another PLL, whose dividers pynq would put on this one.
        "PSU__OVERRIDE__BASIC_CLOCK": 1,
        "PSU__CRL_APB__IOPLL_CTRL__FBDIV": round(board.pll_mhz * (1 + halved) / REFERENCE_MHZ),
        "PSU__CRL_APB__IOPLL_CTRL__DIV2": int(halved),
        f"{clock}FREQMHZ": board.clock_mhz, board.family.source[0]: board.family.source[1],
        board.family.dividers[0]: round(board.pll_mhz / board.clock_mhz),
        board.family.dividers[1]: 1}
