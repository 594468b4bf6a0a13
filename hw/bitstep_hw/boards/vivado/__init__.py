"""Vivado's part of the boards that PYNQ runs on: the IP, the block design, the flow."""

IP_VLNV = "bitstep:user:bitstep_ip:1.0"     # vendor, library, name, version
IP_INSTANCE = "bitstep_0"                   # in the block design, and so in pynq's ip_dict


class ToolError(RuntimeError):
    """Vivado is missing or failed; the message says what to do.

    Attributes
    ----------
    code : int
        Exit code of the command: 2 if Vivado is missing, else 1.
    """

    def __init__(self, message: str, code: int = 1):
        super().__init__(message)
        self.code = code
