// The common part of RAMB18E1 and RAMB36E1, memory blocks of 7-series: rows of BYTES 9-bit bytes.
//
// Sources: Xilinx UG473 (7 Series FPGAs Memory Resources, v1.11), pages 12 and 19: write modes of a
// port; with one clock the other port reads the stored word if the port that writes has READ_FIRST,
// else something invalid, whatever its own mode. DS512 (Block Memory Generator, v6.1), pages 30 and
// 31: invalid are the bytes that are written; two ports must not write one byte (UG473 allows equal
// data, the model does not). UG473, "Block RAM Attributes": widths, INIT_xx, INITP_xx. Yosys,
// techlibs/xilinx/brams_xc6v_map.v: in simple dual-port A reads and B writes, at full width with
// the data pins of both; write enables at the pins.
//
// Not modelled, and an error: output registers and their start other than 0, any reset, two clocks.
module bitstep_ramb #(
    parameter integer BYTES = 4,
    parameter RAM_MODE = "TDP",
    parameter integer DOA_REG = 0,
    parameter integer DOB_REG = 0,
    parameter integer READ_WIDTH_A = 0,
    parameter integer READ_WIDTH_B = 0,
    parameter integer WRITE_WIDTH_A = 0,
    parameter integer WRITE_WIDTH_B = 0,
    parameter WRITE_MODE_A = "WRITE_FIRST",
    parameter WRITE_MODE_B = "WRITE_FIRST",
    parameter [71:0] INIT_A = 0,
    parameter [71:0] INIT_B = 0,
    parameter [512 * BYTES * 8 - 1:0] DATA = 0,
    parameter [512 * BYTES - 1:0] PARITY = 0
) (
    input clk_a, clk_b, en_a, en_b, reset,
    input [$clog2(BYTES) + 11:0] address_a, address_b,
    input [BYTES / 2 - 1:0] we_a,
    input [BYTES - 1:0] we_b,
    input [4 * BYTES - 1:0] data_in_a, data_in_b,
    input [BYTES / 2 - 1:0] parity_in_a, parity_in_b,
    output [4 * BYTES - 1:0] data_out_a, data_out_b,
    output [BYTES / 2 - 1:0] parity_out_a, parity_out_b
);
    localparam integer ROW = 9 * BYTES;
    localparam integer LOW = 3 + $clog2(BYTES);     // address bits within a row
    localparam integer HALF = ROW / 2;
    localparam SIMPLE = RAM_MODE == "SDP";
    if (RAM_MODE != "TDP" && RAM_MODE != "SDP") begin
        $fatal(1, "ramb: unsupported RAM_MODE %s", RAM_MODE);
        unsupported_parameter ends();
    end
    if (SIMPLE ? WRITE_WIDTH_A != 0 || READ_WIDTH_B != 0
            : READ_WIDTH_A > HALF || READ_WIDTH_B > HALF || WRITE_WIDTH_A > HALF
            || WRITE_WIDTH_B > HALF) begin
        $fatal(1, "ramb: unsupported widths %0d, %0d, %0d, %0d of RAM_MODE %s", READ_WIDTH_A,
               READ_WIDTH_B, WRITE_WIDTH_A, WRITE_WIDTH_B, RAM_MODE);
        unsupported_parameter ends();
    end
    if (DOA_REG != 0 || DOB_REG != 0) begin
        $fatal(1, "ramb: unsupported output register %0d, %0d", DOA_REG, DOB_REG);
        unsupported_parameter ends();
    end
    if (|INIT_A === 1'b1 || |INIT_B === 1'b1) begin
        $fatal(1, "ramb: unsupported INIT_A, INIT_B %h, %h", INIT_A, INIT_B);
        unsupported_parameter ends();
    end
    if (WRITE_MODE_A != "READ_FIRST" && WRITE_MODE_A != "WRITE_FIRST"
            && WRITE_MODE_A != "NO_CHANGE" || WRITE_MODE_B != "READ_FIRST"
            && WRITE_MODE_B != "WRITE_FIRST" && WRITE_MODE_B != "NO_CHANGE") begin
        $fatal(1, "ramb: unsupported WRITE_MODE %s, %s", WRITE_MODE_A, WRITE_MODE_B);
        unsupported_parameter ends();
    end
    always @(posedge clk_a or posedge clk_b) if (reset)
        $fatal(1, "ramb: a reset is not modelled");

    // Bytes of data with their parity bits, and the other way round.
    wire [ROW - 1:0] in_a, in_b, out_a, out_b;
    wire [ROW - 1:0] pins;
    genvar place;
    for (place = 0; place < BYTES / 2; place = place + 1) begin : pin
        assign in_a[9 * place +: 9] = {parity_in_a[place], data_in_a[8 * place +: 8]};
        assign in_b[9 * place +: 9] = {parity_in_b[place], data_in_b[8 * place +: 8]};
        assign {parity_out_a[place], data_out_a[8 * place +: 8]} = pins[9 * place +: 9];
        assign {parity_out_b[place], data_out_b[8 * place +: 8]} = pins[HALF + 9 * place +: 9];
    end
    assign in_a[ROW - 1:HALF] = 0;
    assign in_b[ROW - 1:HALF] = 0;
    wire [ROW - 1:0] written_b = SIMPLE && WRITE_WIDTH_B == ROW
        ? {in_b[HALF - 1:0], in_a[HALF - 1:0]} : in_b;
    localparam [71:0] WHOLE_A = (72'd1 << READ_WIDTH_A) - 72'd1;
    localparam [71:0] WHOLE_B = (72'd1 << READ_WIDTH_B) - 72'd1;
    assign pins = out_a & WHOLE_A[ROW - 1:0] | (out_b & WHOLE_B[ROW - 1:0]) << HALF;

    wire [6:0] read_shift_a, read_shift_b, shift_a, shift_b;
    wire [ROW - 1:0] mask_a, mask_b;
    wire [5:0] place_a = {{(6 - LOW){1'b0}}, address_a[LOW - 1:0]};
    wire [5:0] place_b = {{(6 - LOW){1'b0}}, address_b[LOW - 1:0]};
    bitstep_port_place #(.WIDTH(READ_WIDTH_A), .ROW(ROW)) reads_a(
        .place(place_a), .shift(read_shift_a), .bytes(8'd0), .mask());
    bitstep_port_place #(.WIDTH(READ_WIDTH_B), .ROW(ROW)) reads_b(
        .place(place_b), .shift(read_shift_b), .bytes(8'd0), .mask());
    bitstep_port_place #(.WIDTH(WRITE_WIDTH_A), .ROW(ROW)) writes_a(
        .place(place_a), .shift(shift_a), .bytes({{(8 - BYTES / 2){1'b0}}, we_a}), .mask(mask_a));
    bitstep_port_place #(.WIDTH(WRITE_WIDTH_B), .ROW(ROW)) writes_b(
        .place(place_b), .shift(shift_b), .bytes({{(8 - BYTES){1'b0}}, we_b}), .mask(mask_b));
    bitstep_two_port_memory #(
        .ROW(ROW), .DATA(DATA), .PARITY(PARITY),
        .MODE_A(WRITE_MODE_A == "READ_FIRST" ? "OLD"
                : WRITE_MODE_A == "WRITE_FIRST" ? "NEW" : "NO_CHANGE"),
        .MODE_B(WRITE_MODE_B == "READ_FIRST" ? "OLD"
                : WRITE_MODE_B == "WRITE_FIRST" ? "NEW" : "NO_CHANGE"),
        .OTHER_A(WRITE_MODE_A == "READ_FIRST" ? "OLD" : "UNDEFINED"),
        .OTHER_B(WRITE_MODE_B == "READ_FIRST" ? "OLD" : "UNDEFINED"),
        // Where Yosys leaves it open, it is not 0.
        .START_A(^INIT_A === 1'bx), .START_B(^INIT_B === 1'bx)
    ) memory(
        .clk_a(clk_a), .en_a(en_a), .write_a(|mask_a), .row_a(address_a[LOW + 8:LOW]),
        .shift_a(read_shift_a), .mask_a(mask_a), .data_a(in_a << shift_a), .read_a(out_a),
        .clk_b(clk_b), .en_b(en_b), .write_b(|mask_b), .row_b(address_b[LOW + 8:LOW]),
        .shift_b(read_shift_b), .mask_b(mask_b), .data_b(written_b << shift_b), .read_b(out_b));
endmodule
