// MULT18X18D, the multiplier of ECP5: 18 x 18 bits, each signed or not, with registers at the
// inputs and the output.
//
// Sources: Lattice FPGA-TN-02205 (ECP5 and ECP5-5G sysDSP Usage Guide), primitive MULT18X18D: signs
// of either factor by SIGNEDA and SIGNEDB, registers that CLK "NONE" bypasses, with the enable and
// the reset that their parameters name. A sign goes through the register of its factor; it makes no
// difference to constant signs, and Yosys uses no others.
//
// Not modelled, and an error: registers in the middle and at the third input, shifted and cascaded
// inputs, asynchronous resets, other clocks than CLK0.
module MULT18X18D(
    input A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0,
    input B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0,
    input C17, C16, C15, C14, C13, C12, C11, C10, C9, C8, C7, C6, C5, C4, C3, C2, C1, C0,
    input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
    input CLK3, CLK2, CLK1, CLK0, CE3, CE2, CE1, CE0, RST3, RST2, RST1, RST0,
    output P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18,
    P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0
);
    parameter REG_INPUTA_CLK = "NONE";
    parameter REG_INPUTA_CE = "CE0";
    parameter REG_INPUTA_RST = "RST0";
    parameter REG_INPUTB_CLK = "NONE";
    parameter REG_INPUTB_CE = "CE0";
    parameter REG_INPUTB_RST = "RST0";
    parameter REG_INPUTC_CLK = "NONE";
    parameter REG_PIPELINE_CLK = "NONE";
    parameter REG_PIPELINE_CE = "CE0";
    parameter REG_PIPELINE_RST = "RST0";
    parameter REG_OUTPUT_CLK = "NONE";
    parameter REG_OUTPUT_CE = "CE0";
    parameter REG_OUTPUT_RST = "RST0";
    parameter SOURCEB_MODE = "B_SHIFT";
    parameter MULT_BYPASS = "DISABLED";
    parameter RESETMODE = "SYNC";

    if (REG_INPUTC_CLK != "NONE" || REG_PIPELINE_CLK != "NONE") begin
        $fatal(1, "MULT18X18D: unsupported register at the third input or in the middle");
        unsupported_parameter ends();
    end
    if (REG_INPUTA_CLK != "NONE" && REG_INPUTA_CLK != "CLK0" || REG_INPUTA_CE != "CE0"
            || REG_INPUTA_RST != "RST0" || REG_INPUTB_CLK != "NONE" && REG_INPUTB_CLK != "CLK0"
            || REG_INPUTB_CE != "CE0" || REG_INPUTB_RST != "RST0") begin
        $fatal(1, "MULT18X18D: unsupported input register %s, %s, %s, %s, %s, %s", REG_INPUTA_CLK,
               REG_INPUTA_CE, REG_INPUTA_RST, REG_INPUTB_CLK, REG_INPUTB_CE, REG_INPUTB_RST);
        unsupported_parameter ends();
    end
    if (REG_OUTPUT_CLK != "NONE" && REG_OUTPUT_CLK != "CLK0" || REG_OUTPUT_CE != "CE0"
            || REG_OUTPUT_RST != "RST0" || RESETMODE != "SYNC") begin
        $fatal(1, "MULT18X18D: unsupported output register %s, %s, %s, %s", REG_OUTPUT_CLK,
               REG_OUTPUT_CE, REG_OUTPUT_RST, RESETMODE);
        unsupported_parameter ends();
    end
    if (MULT_BYPASS != "DISABLED") begin
        $fatal(1, "MULT18X18D: unsupported MULT_BYPASS %s", MULT_BYPASS);
        unsupported_parameter ends();
    end
    if (SOURCEB_MODE != "B_SHIFT") begin
        $fatal(1, "MULT18X18D: unsupported SOURCEB_MODE %s", SOURCEB_MODE);
        unsupported_parameter ends();
    end
    always @* if (SOURCEA | SOURCEB)
        $fatal(1, "MULT18X18D: inputs of another multiplier are not modelled");

    wire [17:0] a =
        {A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0};
    wire [17:0] b =
        {B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0};
    wire signed [18:0] wide_a = {SIGNEDA & A17, a}, wide_b = {SIGNEDB & B17, b};
    reg signed [18:0] taken_a = 19'd0, taken_b = 19'd0;
    wire signed [18:0] factor_a = REG_INPUTA_CLK == "CLK0" ? taken_a : wide_a;
    wire signed [18:0] factor_b = REG_INPUTB_CLK == "CLK0" ? taken_b : wide_b;
    wire signed [37:0] product = factor_a * factor_b;
    reg [35:0] taken = 36'd0;
    always @(posedge CLK0)
        if (RST0) {taken_a, taken_b, taken} <= 74'd0;
        else if (CE0) {taken_a, taken_b, taken} <= {wide_a, wide_b, product[35:0]};
    wire [35:0] out = REG_OUTPUT_CLK == "CLK0" ? taken : product[35:0];
    assign {P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19,
            P18, P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2,
            P1, P0} = out;
endmodule
