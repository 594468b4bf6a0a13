// DP16KD, the memory block of ECP5: 1,024 words of 18 bits, two ports.
//
// Sources: Lattice FPGA-TN-02204 (ECP5 and ECP5-5G Memory Usage Guide, formerly TN1264): write
// modes, pseudo dual-port with 36 bits, output registers. Yosys, techlibs/lattice/brams_16kd.txt
// and brams_map_16kd.v: the places of data, byte enables and initial words at the pins, and that
// outputs start at 0. Of a word that the other port writes in the same cycle neither promises
// anything, so it is undefined.
//
// Not modelled, and an error: other widths, inverted clocks, two clocks, any reset, and output
// registers other than those of both sides in pseudo dual-port.
module DP16KD(
    input DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5,
    DIA4, DIA3, DIA2, DIA1, DIA0,
    input ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0,
    input CEA, OCEA, CLKA, WEA, RSTA, CSA2, CSA1, CSA0,
    output DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5,
    DOA4, DOA3, DOA2, DOA1, DOA0,
    input DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5,
    DIB4, DIB3, DIB2, DIB1, DIB0,
    input ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0,
    input CEB, OCEB, CLKB, WEB, RSTB, CSB2, CSB1, CSB0,
    output DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5,
    DOB4, DOB3, DOB2, DOB1, DOB0
);
    parameter DATA_WIDTH_A = 18;
    parameter DATA_WIDTH_B = 18;
    parameter REGMODE_A = "NOREG";
    parameter REGMODE_B = "NOREG";
    parameter RESETMODE = "SYNC";
    parameter ASYNC_RESET_RELEASE = "SYNC";
    parameter CSDECODE_A = "0b000";
    parameter CSDECODE_B = "0b000";
    parameter WRITEMODE_A = "NORMAL";
    parameter WRITEMODE_B = "NORMAL";
    parameter CLKAMUX = "CLKA";
    parameter CLKBMUX = "CLKB";
    parameter GSR = "ENABLED";
    parameter INIT_DATA = "STATIC";
    parameter [319:0] INITVAL_00 = 0, INITVAL_01 = 0, INITVAL_02 = 0, INITVAL_03 = 0;
    parameter [319:0] INITVAL_04 = 0, INITVAL_05 = 0, INITVAL_06 = 0, INITVAL_07 = 0;
    parameter [319:0] INITVAL_08 = 0, INITVAL_09 = 0, INITVAL_0A = 0, INITVAL_0B = 0;
    parameter [319:0] INITVAL_0C = 0, INITVAL_0D = 0, INITVAL_0E = 0, INITVAL_0F = 0;
    parameter [319:0] INITVAL_10 = 0, INITVAL_11 = 0, INITVAL_12 = 0, INITVAL_13 = 0;
    parameter [319:0] INITVAL_14 = 0, INITVAL_15 = 0, INITVAL_16 = 0, INITVAL_17 = 0;
    parameter [319:0] INITVAL_18 = 0, INITVAL_19 = 0, INITVAL_1A = 0, INITVAL_1B = 0;
    parameter [319:0] INITVAL_1C = 0, INITVAL_1D = 0, INITVAL_1E = 0, INITVAL_1F = 0;
    parameter [319:0] INITVAL_20 = 0, INITVAL_21 = 0, INITVAL_22 = 0, INITVAL_23 = 0;
    parameter [319:0] INITVAL_24 = 0, INITVAL_25 = 0, INITVAL_26 = 0, INITVAL_27 = 0;
    parameter [319:0] INITVAL_28 = 0, INITVAL_29 = 0, INITVAL_2A = 0, INITVAL_2B = 0;
    parameter [319:0] INITVAL_2C = 0, INITVAL_2D = 0, INITVAL_2E = 0, INITVAL_2F = 0;
    parameter [319:0] INITVAL_30 = 0, INITVAL_31 = 0, INITVAL_32 = 0, INITVAL_33 = 0;
    parameter [319:0] INITVAL_34 = 0, INITVAL_35 = 0, INITVAL_36 = 0, INITVAL_37 = 0;
    parameter [319:0] INITVAL_38 = 0, INITVAL_39 = 0, INITVAL_3A = 0, INITVAL_3B = 0;
    parameter [319:0] INITVAL_3C = 0, INITVAL_3D = 0, INITVAL_3E = 0, INITVAL_3F = 0;

    localparam WIDE = DATA_WIDTH_A == 36 || DATA_WIDTH_B == 36;
    localparam REGISTERED = REGMODE_A == "OUTREG";
    if (WRITEMODE_A != "NORMAL" && WRITEMODE_A != "WRITETHROUGH" && WRITEMODE_A != "READBEFOREWRITE"
            || WRITEMODE_B != "NORMAL" && WRITEMODE_B != "WRITETHROUGH"
            && WRITEMODE_B != "READBEFOREWRITE") begin
        $fatal(1, "DP16KD: unsupported WRITEMODE %s, %s", WRITEMODE_A, WRITEMODE_B);
        unsupported_parameter ends();
    end
    if (DATA_WIDTH_A == 0 || DATA_WIDTH_B == 0) begin
        $fatal(1, "DP16KD: unsupported DATA_WIDTH 0");
        unsupported_parameter ends();
    end
    if (REGMODE_A != REGMODE_B || REGMODE_A != "NOREG" && REGMODE_A != "OUTREG"
            || REGISTERED && DATA_WIDTH_B != 36) begin
        $fatal(1, "DP16KD: unsupported REGMODE %s, %s", REGMODE_A, REGMODE_B);
        unsupported_parameter ends();
    end
    if (CSDECODE_A != "0b000" || CSDECODE_B != "0b000") begin
        $fatal(1, "DP16KD: unsupported CSDECODE %s, %s", CSDECODE_A, CSDECODE_B);
        unsupported_parameter ends();
    end
    if (CLKAMUX != "CLKA" || CLKBMUX != "CLKB") begin
        $fatal(1, "DP16KD: unsupported clock %s, %s", CLKAMUX, CLKBMUX);
        unsupported_parameter ends();
    end
    if (INIT_DATA != "STATIC") begin
        $fatal(1, "DP16KD: unsupported INIT_DATA %s", INIT_DATA);
        unsupported_parameter ends();
    end

    // Each value has 16 words of 20 bits, 18 of which are there.
    function [255:0] data(input [319:0] value);
        integer word;
        for (word = 0; word < 16; word = word + 1)
            data[16 * word +: 16] = {value[20 * word + 9 +: 8], value[20 * word +: 8]};
    endfunction
    function [31:0] parity(input [319:0] value);
        integer word;
        for (word = 0; word < 16; word = word + 1)
            parity[2 * word +: 2] = {value[20 * word + 17], value[20 * word + 8]};
    endfunction
    localparam [16383:0] DATA = {
        data(INITVAL_3F), data(INITVAL_3E), data(INITVAL_3D), data(INITVAL_3C),
        data(INITVAL_3B), data(INITVAL_3A), data(INITVAL_39), data(INITVAL_38),
        data(INITVAL_37), data(INITVAL_36), data(INITVAL_35), data(INITVAL_34),
        data(INITVAL_33), data(INITVAL_32), data(INITVAL_31), data(INITVAL_30),
        data(INITVAL_2F), data(INITVAL_2E), data(INITVAL_2D), data(INITVAL_2C),
        data(INITVAL_2B), data(INITVAL_2A), data(INITVAL_29), data(INITVAL_28),
        data(INITVAL_27), data(INITVAL_26), data(INITVAL_25), data(INITVAL_24),
        data(INITVAL_23), data(INITVAL_22), data(INITVAL_21), data(INITVAL_20),
        data(INITVAL_1F), data(INITVAL_1E), data(INITVAL_1D), data(INITVAL_1C),
        data(INITVAL_1B), data(INITVAL_1A), data(INITVAL_19), data(INITVAL_18),
        data(INITVAL_17), data(INITVAL_16), data(INITVAL_15), data(INITVAL_14),
        data(INITVAL_13), data(INITVAL_12), data(INITVAL_11), data(INITVAL_10),
        data(INITVAL_0F), data(INITVAL_0E), data(INITVAL_0D), data(INITVAL_0C),
        data(INITVAL_0B), data(INITVAL_0A), data(INITVAL_09), data(INITVAL_08),
        data(INITVAL_07), data(INITVAL_06), data(INITVAL_05), data(INITVAL_04),
        data(INITVAL_03), data(INITVAL_02), data(INITVAL_01), data(INITVAL_00)};
    localparam [2047:0] PARITY = {
        parity(INITVAL_3F), parity(INITVAL_3E), parity(INITVAL_3D), parity(INITVAL_3C),
        parity(INITVAL_3B), parity(INITVAL_3A), parity(INITVAL_39), parity(INITVAL_38),
        parity(INITVAL_37), parity(INITVAL_36), parity(INITVAL_35), parity(INITVAL_34),
        parity(INITVAL_33), parity(INITVAL_32), parity(INITVAL_31), parity(INITVAL_30),
        parity(INITVAL_2F), parity(INITVAL_2E), parity(INITVAL_2D), parity(INITVAL_2C),
        parity(INITVAL_2B), parity(INITVAL_2A), parity(INITVAL_29), parity(INITVAL_28),
        parity(INITVAL_27), parity(INITVAL_26), parity(INITVAL_25), parity(INITVAL_24),
        parity(INITVAL_23), parity(INITVAL_22), parity(INITVAL_21), parity(INITVAL_20),
        parity(INITVAL_1F), parity(INITVAL_1E), parity(INITVAL_1D), parity(INITVAL_1C),
        parity(INITVAL_1B), parity(INITVAL_1A), parity(INITVAL_19), parity(INITVAL_18),
        parity(INITVAL_17), parity(INITVAL_16), parity(INITVAL_15), parity(INITVAL_14),
        parity(INITVAL_13), parity(INITVAL_12), parity(INITVAL_11), parity(INITVAL_10),
        parity(INITVAL_0F), parity(INITVAL_0E), parity(INITVAL_0D), parity(INITVAL_0C),
        parity(INITVAL_0B), parity(INITVAL_0A), parity(INITVAL_09), parity(INITVAL_08),
        parity(INITVAL_07), parity(INITVAL_06), parity(INITVAL_05), parity(INITVAL_04),
        parity(INITVAL_03), parity(INITVAL_02), parity(INITVAL_01), parity(INITVAL_00)};

    wire [13:0] address_a =
        {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
    wire [17:0] in_a =
        {DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5,
         DIA4, DIA3, DIA2, DIA1, DIA0};
    wire [13:0] address_b =
        {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};
    wire [17:0] in_b =
        {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5,
         DIB4, DIB3, DIB2, DIB1, DIB0};

    // With 36 bits port A writes and port B reads, with the data pins of both.
    wire [6:0] shift_a, shift_b;
    wire [35:0] mask_a, mask_b, read_a, read_b;
    wire [3:0] bytes_a = DATA_WIDTH_A == 36 ? address_a[3:0]
        : DATA_WIDTH_A == 18 ? {2'd0, address_a[1:0]} : 4'd1;
    wire [3:0] bytes_b = DATA_WIDTH_B == 18 ? {2'd0, address_b[1:0]} : 4'd1;
    wire [35:0] data_a = DATA_WIDTH_A == 36 ? {in_b, in_a} : {18'd0, in_a};
    bitstep_port_place #(.WIDTH(DATA_WIDTH_A), .ROW(36)) place_a(
        .place({1'b0, address_a[4:0]}), .shift(shift_a), .bytes({4'd0, bytes_a}), .mask(mask_a));
    bitstep_port_place #(.WIDTH(DATA_WIDTH_B), .ROW(36)) place_b(
        .place({1'b0, address_b[4:0]}), .shift(shift_b), .bytes({4'd0, bytes_b}), .mask(mask_b));
    wire en_a = CEA & {CSA2, CSA1, CSA0} == 3'd0, en_b = CEB & {CSB2, CSB1, CSB0} == 3'd0;
    bitstep_two_port_memory #(
        .ROW(36), .DATA(DATA), .PARITY(PARITY),
        .MODE_A(WRITEMODE_A == "NORMAL" ? "NO_CHANGE"
                : WRITEMODE_A == "WRITETHROUGH" ? "NEW" : "OLD"),
        .MODE_B(WRITEMODE_B == "NORMAL" ? "NO_CHANGE"
                : WRITEMODE_B == "WRITETHROUGH" ? "NEW" : "OLD")
    ) memory(
        .clk_a(CLKA), .en_a(en_a), .write_a(WEA), .row_a(address_a[13:5]), .shift_a(shift_a),
        .mask_a(mask_a), .data_a(data_a << shift_a), .read_a(read_a),
        .clk_b(CLKB), .en_b(en_b), .write_b(WEB), .row_b(address_b[13:5]), .shift_b(shift_b),
        .mask_b(mask_b), .data_b({18'd0, in_b} << shift_b), .read_b(read_b));
    always @(posedge CLKA or posedge CLKB) begin
        if (RSTA | RSTB)
            $fatal(1, "DP16KD: a reset is not modelled");
        if (WIDE & WEB)
            $fatal(1, "DP16KD: port B must not write in pseudo dual-port");
    end

    localparam [71:0] WHOLE_A = (72'd1 << DATA_WIDTH_A) - 72'd1;
    localparam [71:0] WHOLE_B = (72'd1 << DATA_WIDTH_B) - 72'd1;
    wire [35:0] out_a = read_a & WHOLE_A[35:0], out_b = read_b & WHOLE_B[35:0];
    wire [35:0] pins = DATA_WIDTH_B == 36 ? out_b : {out_b[17:0], WIDE ? 18'd0 : out_a[17:0]};
    // What the register holds before the first clock edge is not defined: not 0.
    reg [35:0] taken = {36{1'b1}};
    always @(posedge CLKB) begin
        if (OCEA) taken[17:0] <= pins[17:0];
        if (OCEB) taken[35:18] <= pins[35:18];
    end
    wire [35:0] out = REGISTERED ? taken : pins;
    assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5,
            DOB4, DOB3, DOB2, DOB1, DOB0, DOA17, DOA16, DOA15, DOA14, DOA13, DOA12,
            DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0} = out;
endmodule
