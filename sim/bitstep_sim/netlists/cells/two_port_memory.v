// A memory block with two ports and one clock, the common part of DP16KD, RAMB18E1 and RAMB36E1.
//
// A row is what the widest port takes, in bytes of 9 bits: 8 of DATA, and the highest of PARITY. A
// port hands in the row's number, and, to write, a mask of bits and data in their places; what it
// reads is shifted down by `shift`.
//
// MODE of a port says what it reads while it writes: "OLD", "NEW" or "NO_CHANGE", its output stays.
// OTHER says what the other port reads of bits that this one writes in the same cycle: "OLD", or
// "UNDEFINED" where the vendor promises nothing. Verilator has no x, so an undefined bit is the
// inverse of the bit that was written. Bits that both ports write are the inverse of port B's.
//
// A parameter that is not modelled ends the compilation. The board's option -Wno-fatal makes a
// warning of $fatal, so a module that does not exist, `unsupported_parameter`, comes after it.
module bitstep_two_port_memory #(
    parameter integer ROW = 36,
    parameter [512 * ROW / 9 * 8 - 1:0] DATA = 0,
    parameter [512 * ROW / 9 - 1:0] PARITY = 0,
    parameter MODE_A = "OLD",
    parameter MODE_B = "OLD",
    parameter OTHER_A = "UNDEFINED",
    parameter OTHER_B = "UNDEFINED",
    parameter START_A = 1'b0,   // every bit of the output before the first read
    parameter START_B = 1'b0
) (
    input clk_a, en_a, write_a,
    input [8:0] row_a,
    input [6:0] shift_a,
    input [ROW - 1:0] mask_a, data_a,
    output [ROW - 1:0] read_a,
    input clk_b, en_b, write_b,
    input [8:0] row_b,
    input [6:0] shift_b,
    input [ROW - 1:0] mask_b, data_b,
    output [ROW - 1:0] read_b
);
    if (MODE_A != "OLD" && MODE_A != "NEW" && MODE_A != "NO_CHANGE"
            || MODE_B != "OLD" && MODE_B != "NEW" && MODE_B != "NO_CHANGE") begin
        $fatal(1, "two_port_memory: unsupported MODE %s, %s", MODE_A, MODE_B);
        unsupported_parameter ends();
    end
    if (OTHER_A != "OLD" && OTHER_A != "UNDEFINED"
            || OTHER_B != "OLD" && OTHER_B != "UNDEFINED") begin
        $fatal(1, "two_port_memory: unsupported OTHER %s, %s", OTHER_A, OTHER_B);
        unsupported_parameter ends();
    end

    reg [ROW - 1:0] rows [0:511];
    reg [ROW - 1:0] latch_a, latch_b;
    integer number, place;
    initial begin
        for (number = 0; number < 512; number = number + 1)
            for (place = 0; place < ROW / 9; place = place + 1)
                rows[number][9 * place +: 9] = {PARITY[number * (ROW / 9) + place],
                                                DATA[8 * (number * (ROW / 9) + place) +: 8]};
        latch_a = {ROW{START_A}};
        latch_b = {ROW{START_B}};
    end
    assign read_a = latch_a;
    assign read_b = latch_b;

    // A port that is not used has a constant for its clock.
    wire clk = clk_a | clk_b;
    wire writes_a = en_a & write_a, writes_b = en_b & write_b;
    wire same = row_a == row_b;
    reg [ROW - 1:0] found_a, found_b;

    always @(posedge clk) begin
        if (en_a & ~clk_a | en_b & ~clk_b)
            $fatal(1, "two_port_memory: both ports must have one clock");
        found_a = rows[row_a];
        found_b = rows[row_b];
        if (writes_a && MODE_A == "NEW")
            found_a = found_a & ~mask_a | data_a & mask_a;
        if (writes_b && MODE_B == "NEW")
            found_b = found_b & ~mask_b | data_b & mask_b;
        if (same && writes_b && OTHER_B == "UNDEFINED")
            found_a = found_a & ~mask_b | ~data_b & mask_b;
        if (same && writes_a && OTHER_A == "UNDEFINED")
            found_b = found_b & ~mask_a | ~data_a & mask_a;
        if (en_a && !(writes_a && MODE_A == "NO_CHANGE"))
            latch_a <= found_a >> shift_a;
        if (en_b && !(writes_b && MODE_B == "NO_CHANGE"))
            latch_b <= found_b >> shift_b;
        if (writes_a)
            rows[row_a] = rows[row_a] & ~mask_a | data_a & mask_a;
        if (writes_b)
            rows[row_b] = rows[row_b] & ~mask_b | data_b & mask_b;
        if (same && writes_a && writes_b)
            rows[row_b] = rows[row_b] ^ (mask_a & mask_b);
    end
endmodule

// Where a port of some width stands in a row of 9-bit bytes: the narrower ones address the bytes
// (`place`, in units of the narrowest), and in them 8 of the 9 bits.
module bitstep_port_place #(
    parameter integer WIDTH = 36,
    parameter integer ROW = 36
) (
    input [5:0] place,      // low bits of the address, bits within a row
    output [6:0] shift,
    input [7:0] bytes,      // enables, of the first bytes of the port
    output [ROW - 1:0] mask
);
    if (WIDTH != 0 && WIDTH != 1 && WIDTH != 2 && WIDTH != 4 && WIDTH != 9 && WIDTH != 18
            && WIDTH != 36 && WIDTH != 72 || WIDTH > ROW) begin
        $fatal(1, "port_place: unsupported width %0d of rows of %0d bits", WIDTH, ROW);
        unsupported_parameter ends();
    end
    localparam [5:0] KEPT = WIDTH >= ROW ? 6'd0 : WIDTH == 36 ? 6'd32 : WIDTH == 18 ? 6'd48
        : WIDTH == 9 ? 6'd56 : WIDTH == 4 ? 6'd60 : WIDTH == 2 ? 6'd62 : 6'd63;
    wire [5:0] kept = place & KEPT;
    assign shift = 7'd9 * {4'd0, kept[5:3]} + {4'd0, kept[2:0]};
    wire [71:0] enabled = {{9{bytes[7]}}, {9{bytes[6]}}, {9{bytes[5]}}, {9{bytes[4]}},
                           {9{bytes[3]}}, {9{bytes[2]}}, {9{bytes[1]}}, {9{bytes[0]}}};
    wire [71:0] whole = (72'd1 << WIDTH) - 72'd1;
    wire [71:0] placed = (enabled & whole) << shift;
    assign mask = placed[ROW - 1:0];
endmodule
