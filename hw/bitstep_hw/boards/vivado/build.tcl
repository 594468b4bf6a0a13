# Packages the pipeline as an IP and connects it to the processing system; run.tcl beside this file
# then builds the bitstream. Run by `vivado -mode batch -source build.tcl`, Vivado 2020.2 or later
# (Tcl 8.5 is enough). All that depends on board and pipeline is in settings.tcl, which is generated.

set here [file dirname [file normalize [info script]]]
source [file join $here settings.tcl]

# Texts and the like: a Vivado that does not know the property, or its value, must still build.
proc try_property {name value object} {
    if {[catch {set_property $name $value $object} message]} {
        puts "WARNING: property $name was not set: $message"
    }
}

proc pin {name} { return [get_bd_pins $name] }
proc bus {name} { return [get_bd_intf_pins $name] }

proc add_registers {core} {
    global registers registers_bytes
    set maps [ipx::get_memory_maps s_axi -of_objects $core]
    if {[llength $maps] == 0} {
        set maps [ipx::add_memory_map s_axi $core]
        set_property slave_memory_map_ref s_axi [ipx::get_bus_interfaces s_axi -of_objects $core]
    }
    set map [lindex $maps 0]
    set blocks [ipx::get_address_blocks reg0 -of_objects $map]
    if {[llength $blocks] == 0} {
        set blocks [ipx::add_address_block reg0 $map]
    }
    set block [lindex $blocks 0]
    set_property range $registers_bytes $block
    try_property width 32 $block
    try_property usage register $block
    foreach register $registers {
        lassign $register name offset access description
        set entry [ipx::add_register $name $block]
        set_property address_offset $offset $entry
        set_property size 32 $entry
        try_property access $access $entry
        try_property description $description $entry
    }
}

# The packager may believe that a master reaches 64 KiB or 4 GiB only, and then no memory can be
# assigned to it. Its width of addresses says enough.
proc remove_apertures {core} {
    global memory_ports
    foreach port $memory_ports {
        set name [lindex $port 0]
        ipx::remove_segment -quiet $name:APERTURE_0 \
            [ipx::get_address_spaces $name -of_objects $core]
    }
}

proc package_ip {} {
    global here part ip_folder ip_vendor ip_library ip_name ip_version families config_name
    file delete -force $ip_folder
    create_project -force ip [file join $here ip_project] -part $part
    add_files -norecurse [list [file join $here bitstep_top.v] [file join $here bitstep_ip.v]]
    set_property top $ip_name [current_fileset]
    update_compile_order -fileset sources_1
    ipx::package_project -root_dir $ip_folder -vendor $ip_vendor -library $ip_library \
        -taxonomy /UserIP -import_files -set_current true
    set core [ipx::current_core]
    set_property name $ip_name $core
    set_property version $ip_version $core
    try_property display_name bitstep $core
    try_property description "bitstep pipeline $config_name" $core
    try_property supported_families $families $core
    # The clock of the processing system is rarely the round number that an IP is packaged with.
    try_property ipi_drc {ignore_freq_hz true} $core
    add_registers $core
    remove_apertures $core
    ipx::create_xgui_files $core
    ipx::update_checksums $core
    ipx::save_core $core
    close_project
}

# A SmartConnect from one master to some slaves; it adapts protocol, width and address.
proc connect_buses {name from to} {
    global clock_pin
    set cell [create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect $name]
    set_property -dict [list CONFIG.NUM_SI 1 CONFIG.NUM_MI [llength $to]] $cell
    connect_bd_intf_net [bus $from] [bus $name/S00_AXI]
    set index 0
    foreach slave $to {
        connect_bd_intf_net [bus [format "%s/M%02d_AXI" $name $index]] [bus $slave]
        incr index
    }
    connect_bd_net [pin $clock_pin] [pin $name/aclk]
    connect_bd_net [pin reset_0/peripheral_aresetn] [pin $name/aresetn]
}

# The memory that a master reaches; what else the port offers (on-chip memory, flash) is excluded.
proc assign_memory {master segments others} {
    set space [get_bd_addr_spaces $master]
    set memory [get_bd_addr_segs $segments]
    if {[llength $memory] == 0} {
        error "The memory port of $master must offer segments $segments, but has none: correct\
            memory_segment in hw/bitstep_hw/boards/zynq.py for this version of Vivado"
    }
    foreach segment $memory {
        assign_bd_address -target_address_space $space $segment
    }
    foreach segment [get_bd_addr_segs -quiet $others] {
        # What is neither assigned nor excluded is a critical warning, no more.
        if {[lsearch -exact $memory $segment] < 0
            && [catch {exclude_bd_addr_seg -target_address_space $space $segment} message]} {
            puts "WARNING: $segment was not excluded from $master: $message"
        }
    }
}

# pynq writes these dividers onto the PLL that the board was booted with. Others do no harm to what
# the driver of bitstep runs, for it sets the clock itself after that.
proc check_clock {} {
    global ps divider_names divider_product
    set product 1
    foreach name $divider_names {
        set value [get_property CONFIG.$name [get_bd_cells $ps]]
        if {![string is integer -strict $value]} {
            puts "WARNING: Vivado does not tell $name, but '$value'"
            return
        }
        set product [expr {$product * $value}]
    }
    if {$product != $divider_product} {
        puts "WARNING: the clock's dividers have the product $product, not $divider_product as for the\
            PLL that the board boots with: pynq loads the bitstream with another clock, until the driver\
            of bitstep sets it"
    }
}

proc make_design {} {
    global ps ps_cell ps_settings ip_vlnv ip_instance clock_pin reset_pin interrupt_pin master
    global master_clock memory_ports registers_address interrupts_address slave_bytes family
    create_bd_design bitstep
    create_bd_cell -type ip -vlnv xilinx.com:ip:$ps_cell $ps
    if {$family eq "zynq"} {
        # What boots the board sets up the memory and pins: no preset is needed, only the ports.
        apply_bd_automation -rule xilinx.com:bd_rule:processing_system7 -config \
            {make_external "FIXED_IO, DDR" Master "Disable" Slave "Disable"} [get_bd_cells $ps]
    }
    set_property -dict $ps_settings [get_bd_cells $ps]
    check_clock
    create_bd_cell -type ip -vlnv $ip_vlnv $ip_instance
    create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset reset_0
    # pynq finds interrupts only behind this controller.
    create_bd_cell -type ip -vlnv xilinx.com:ip:axi_intc axi_intc_0
    set_property CONFIG.C_IRQ_CONNECTION 1 [get_bd_cells axi_intc_0]

    connect_bd_net [pin $clock_pin] [pin reset_0/slowest_sync_clk] [pin $ps/$master_clock] \
        [pin $ip_instance/aclk] [pin axi_intc_0/s_axi_aclk]
    connect_bd_net [pin $reset_pin] [pin reset_0/ext_reset_in]
    connect_bd_net [pin reset_0/peripheral_aresetn] [pin $ip_instance/aresetn] \
        [pin axi_intc_0/s_axi_aresetn]
    connect_buses registers_0 $ps/$master [list $ip_instance/s_axi axi_intc_0/s_axi]
    foreach port $memory_ports {
        lassign $port name slave slave_clock segments
        connect_bd_net [pin $clock_pin] [pin $ps/$slave_clock]
        connect_buses ${name}_0 $ip_instance/$name [list $ps/$slave]
    }
    connect_bd_net [pin $ip_instance/interrupt] [pin axi_intc_0/intr]
    connect_bd_net [pin axi_intc_0/irq] [pin $interrupt_pin]

    assign_bd_address -offset $registers_address -range $slave_bytes -target_address_space \
        [get_bd_addr_spaces $ps/Data] [get_bd_addr_segs $ip_instance/s_axi/reg0] -force
    assign_bd_address -offset $interrupts_address -range $slave_bytes -target_address_space \
        [get_bd_addr_spaces $ps/Data] [get_bd_addr_segs axi_intc_0/S_AXI/Reg] -force
    foreach port $memory_ports {
        lassign $port name slave slave_clock segments others
        assign_memory $ip_instance/$name $segments $others
    }
    validate_bd_design
    save_bd_design
}

# Explores where the default balances time, copies what drives many loads, and optimizes again after
# routing (UG904).
set strategy Performance_ExplorePostRoutePhysOpt

proc make_project {folder} {
    global part ip_folder strategy
    package_ip
    create_project -force bitstep $folder -part $part
    set_property ip_repo_paths [list $ip_folder] [current_project]
    update_ip_catalog
    make_design
    set wrapper [make_wrapper -files [get_files bitstep.bd] -top]
    add_files -norecurse [list $wrapper]
    set_property top bitstep_wrapper [current_fileset]
    update_compile_order -fileset sources_1
    try_property strategy $strategy [get_runs impl_1]
}

source [file join $here run.tcl]
