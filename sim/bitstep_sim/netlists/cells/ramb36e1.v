// RAMB36E1, the memory block of 7-series: 512 rows of 72 bits, two ports of one clock.
//
// The model is that of RAMB18E1, at twice the width (ramb.v). Not modelled besides, and an error:
// cascades and error correction.
module RAMB36E1 (
    input CLKARDCLK, CLKBWRCLK, ENARDEN, ENBWREN, REGCEAREGCE, REGCEB,
    input RSTRAMARSTRAM, RSTRAMB, RSTREGARSTREG, RSTREGB,
    input CASCADEINA, CASCADEINB, INJECTDBITERR, INJECTSBITERR,
    input [15:0] ADDRARDADDR, ADDRBWRADDR,
    input [31:0] DIADI, DIBDI,
    input [3:0] DIPADIP, DIPBDIP,
    input [3:0] WEA,
    input [7:0] WEBWE,
    output CASCADEOUTA, CASCADEOUTB, SBITERR, DBITERR,
    output [7:0] ECCPARITY,
    output [8:0] RDADDRECC,
    output [31:0] DOADO, DOBDO,
    output [3:0] DOPADOP, DOPBDOP
);
    parameter integer DOA_REG = 0;
    parameter integer DOB_REG = 0;
    parameter INIT_A = 36'h0;
    parameter INIT_B = 36'h0;
    parameter INIT_FILE = "NONE";
    parameter RAM_MODE = "TDP";
    parameter RDADDR_COLLISION_HWCONFIG = "DELAYED_WRITE";
    parameter integer READ_WIDTH_A = 0;
    parameter integer READ_WIDTH_B = 0;
    parameter RSTREG_PRIORITY_A = "RSTREG";
    parameter RSTREG_PRIORITY_B = "RSTREG";
    parameter SIM_COLLISION_CHECK = "ALL";
    parameter SIM_DEVICE = "7SERIES";
    parameter SRVAL_A = 36'h0;
    parameter SRVAL_B = 36'h0;
    parameter WRITE_MODE_A = "WRITE_FIRST";
    parameter WRITE_MODE_B = "WRITE_FIRST";
    parameter integer WRITE_WIDTH_A = 0;
    parameter integer WRITE_WIDTH_B = 0;
    parameter IS_CLKARDCLK_INVERTED = 1'b0;
    parameter IS_CLKBWRCLK_INVERTED = 1'b0;
    parameter IS_ENARDEN_INVERTED = 1'b0;
    parameter IS_ENBWREN_INVERTED = 1'b0;
    parameter IS_RSTRAMARSTRAM_INVERTED = 1'b0;
    parameter IS_RSTRAMB_INVERTED = 1'b0;
    parameter IS_RSTREGARSTREG_INVERTED = 1'b0;
    parameter IS_RSTREGB_INVERTED = 1'b0;
    parameter EN_ECC_READ = "FALSE";
    parameter EN_ECC_WRITE = "FALSE";
    parameter RAM_EXTENSION_A = "NONE";
    parameter RAM_EXTENSION_B = "NONE";
    parameter [255:0] INIT_00 = 0, INIT_01 = 0, INIT_02 = 0, INIT_03 = 0;
    parameter [255:0] INIT_04 = 0, INIT_05 = 0, INIT_06 = 0, INIT_07 = 0;
    parameter [255:0] INIT_08 = 0, INIT_09 = 0, INIT_0A = 0, INIT_0B = 0;
    parameter [255:0] INIT_0C = 0, INIT_0D = 0, INIT_0E = 0, INIT_0F = 0;
    parameter [255:0] INIT_10 = 0, INIT_11 = 0, INIT_12 = 0, INIT_13 = 0;
    parameter [255:0] INIT_14 = 0, INIT_15 = 0, INIT_16 = 0, INIT_17 = 0;
    parameter [255:0] INIT_18 = 0, INIT_19 = 0, INIT_1A = 0, INIT_1B = 0;
    parameter [255:0] INIT_1C = 0, INIT_1D = 0, INIT_1E = 0, INIT_1F = 0;
    parameter [255:0] INIT_20 = 0, INIT_21 = 0, INIT_22 = 0, INIT_23 = 0;
    parameter [255:0] INIT_24 = 0, INIT_25 = 0, INIT_26 = 0, INIT_27 = 0;
    parameter [255:0] INIT_28 = 0, INIT_29 = 0, INIT_2A = 0, INIT_2B = 0;
    parameter [255:0] INIT_2C = 0, INIT_2D = 0, INIT_2E = 0, INIT_2F = 0;
    parameter [255:0] INIT_30 = 0, INIT_31 = 0, INIT_32 = 0, INIT_33 = 0;
    parameter [255:0] INIT_34 = 0, INIT_35 = 0, INIT_36 = 0, INIT_37 = 0;
    parameter [255:0] INIT_38 = 0, INIT_39 = 0, INIT_3A = 0, INIT_3B = 0;
    parameter [255:0] INIT_3C = 0, INIT_3D = 0, INIT_3E = 0, INIT_3F = 0;
    parameter [255:0] INIT_40 = 0, INIT_41 = 0, INIT_42 = 0, INIT_43 = 0;
    parameter [255:0] INIT_44 = 0, INIT_45 = 0, INIT_46 = 0, INIT_47 = 0;
    parameter [255:0] INIT_48 = 0, INIT_49 = 0, INIT_4A = 0, INIT_4B = 0;
    parameter [255:0] INIT_4C = 0, INIT_4D = 0, INIT_4E = 0, INIT_4F = 0;
    parameter [255:0] INIT_50 = 0, INIT_51 = 0, INIT_52 = 0, INIT_53 = 0;
    parameter [255:0] INIT_54 = 0, INIT_55 = 0, INIT_56 = 0, INIT_57 = 0;
    parameter [255:0] INIT_58 = 0, INIT_59 = 0, INIT_5A = 0, INIT_5B = 0;
    parameter [255:0] INIT_5C = 0, INIT_5D = 0, INIT_5E = 0, INIT_5F = 0;
    parameter [255:0] INIT_60 = 0, INIT_61 = 0, INIT_62 = 0, INIT_63 = 0;
    parameter [255:0] INIT_64 = 0, INIT_65 = 0, INIT_66 = 0, INIT_67 = 0;
    parameter [255:0] INIT_68 = 0, INIT_69 = 0, INIT_6A = 0, INIT_6B = 0;
    parameter [255:0] INIT_6C = 0, INIT_6D = 0, INIT_6E = 0, INIT_6F = 0;
    parameter [255:0] INIT_70 = 0, INIT_71 = 0, INIT_72 = 0, INIT_73 = 0;
    parameter [255:0] INIT_74 = 0, INIT_75 = 0, INIT_76 = 0, INIT_77 = 0;
    parameter [255:0] INIT_78 = 0, INIT_79 = 0, INIT_7A = 0, INIT_7B = 0;
    parameter [255:0] INIT_7C = 0, INIT_7D = 0, INIT_7E = 0, INIT_7F = 0;
    parameter [255:0] INITP_00 = 0, INITP_01 = 0, INITP_02 = 0, INITP_03 = 0;
    parameter [255:0] INITP_04 = 0, INITP_05 = 0, INITP_06 = 0, INITP_07 = 0;
    parameter [255:0] INITP_08 = 0, INITP_09 = 0, INITP_0A = 0, INITP_0B = 0;
    parameter [255:0] INITP_0C = 0, INITP_0D = 0, INITP_0E = 0, INITP_0F = 0;

    if (EN_ECC_READ != "FALSE" || EN_ECC_WRITE != "FALSE") begin
        $fatal(1, "RAMB36E1: unsupported EN_ECC %s, %s", EN_ECC_READ, EN_ECC_WRITE);
        unsupported_parameter ends();
    end
    if (RAM_EXTENSION_A != "NONE" || RAM_EXTENSION_B != "NONE") begin
        $fatal(1, "RAMB36E1: unsupported RAM_EXTENSION %s, %s", RAM_EXTENSION_A, RAM_EXTENSION_B);
        unsupported_parameter ends();
    end
    assign {CASCADEOUTA, CASCADEOUTB, SBITERR, DBITERR, ECCPARITY, RDADDRECC} = 21'd0;
    if (INIT_FILE != "NONE") begin
        $fatal(1, "RAMB36: unsupported INIT_FILE %s", INIT_FILE);
        unsupported_parameter ends();
    end
    if (IS_CLKARDCLK_INVERTED || IS_CLKBWRCLK_INVERTED || IS_ENARDEN_INVERTED
            || IS_ENBWREN_INVERTED || IS_RSTRAMARSTRAM_INVERTED || IS_RSTRAMB_INVERTED
            || IS_RSTREGARSTREG_INVERTED || IS_RSTREGB_INVERTED) begin
        $fatal(1, "RAMB36: unsupported inverted input");
        unsupported_parameter ends();
    end
    bitstep_ramb #(
        .BYTES(8), .RAM_MODE(RAM_MODE), .DOA_REG(DOA_REG), .DOB_REG(DOB_REG),
        .READ_WIDTH_A(READ_WIDTH_A), .READ_WIDTH_B(READ_WIDTH_B),
        .WRITE_WIDTH_A(WRITE_WIDTH_A), .WRITE_WIDTH_B(WRITE_WIDTH_B),
        .WRITE_MODE_A(WRITE_MODE_A), .WRITE_MODE_B(WRITE_MODE_B),
        .INIT_A(INIT_A), .INIT_B(INIT_B),
        .DATA({
            INIT_7F, INIT_7E, INIT_7D, INIT_7C, INIT_7B, INIT_7A, INIT_79, INIT_78,
            INIT_77, INIT_76, INIT_75, INIT_74, INIT_73, INIT_72, INIT_71, INIT_70,
            INIT_6F, INIT_6E, INIT_6D, INIT_6C, INIT_6B, INIT_6A, INIT_69, INIT_68,
            INIT_67, INIT_66, INIT_65, INIT_64, INIT_63, INIT_62, INIT_61, INIT_60,
            INIT_5F, INIT_5E, INIT_5D, INIT_5C, INIT_5B, INIT_5A, INIT_59, INIT_58,
            INIT_57, INIT_56, INIT_55, INIT_54, INIT_53, INIT_52, INIT_51, INIT_50,
            INIT_4F, INIT_4E, INIT_4D, INIT_4C, INIT_4B, INIT_4A, INIT_49, INIT_48,
            INIT_47, INIT_46, INIT_45, INIT_44, INIT_43, INIT_42, INIT_41, INIT_40,
            INIT_3F, INIT_3E, INIT_3D, INIT_3C, INIT_3B, INIT_3A, INIT_39, INIT_38,
            INIT_37, INIT_36, INIT_35, INIT_34, INIT_33, INIT_32, INIT_31, INIT_30,
            INIT_2F, INIT_2E, INIT_2D, INIT_2C, INIT_2B, INIT_2A, INIT_29, INIT_28,
            INIT_27, INIT_26, INIT_25, INIT_24, INIT_23, INIT_22, INIT_21, INIT_20,
            INIT_1F, INIT_1E, INIT_1D, INIT_1C, INIT_1B, INIT_1A, INIT_19, INIT_18,
            INIT_17, INIT_16, INIT_15, INIT_14, INIT_13, INIT_12, INIT_11, INIT_10,
            INIT_0F, INIT_0E, INIT_0D, INIT_0C, INIT_0B, INIT_0A, INIT_09, INIT_08,
            INIT_07, INIT_06, INIT_05, INIT_04, INIT_03, INIT_02, INIT_01, INIT_00}),
        .PARITY({
            INITP_0F, INITP_0E, INITP_0D, INITP_0C, INITP_0B, INITP_0A, INITP_09, INITP_08,
            INITP_07, INITP_06, INITP_05, INITP_04, INITP_03, INITP_02, INITP_01, INITP_00})
    ) block(
        .clk_a(CLKARDCLK), .clk_b(CLKBWRCLK), .en_a(ENARDEN), .en_b(ENBWREN),
        .reset(RSTRAMARSTRAM | RSTRAMB | RSTREGARSTREG | RSTREGB),
        .address_a(ADDRARDADDR[14:0]), .address_b(ADDRBWRADDR[14:0]),
        .we_a(WEA), .we_b(WEBWE), .data_in_a(DIADI), .data_in_b(DIBDI),
        .parity_in_a(DIPADIP), .parity_in_b(DIPBDIP), .data_out_a(DOADO), .data_out_b(DOBDO),
        .parity_out_a(DOPADOP), .parity_out_b(DOPBDOP));
endmodule
